"""Tries several ways at once, each in a copy of a sandbox, and keeps the best."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable, Dict, List, Optional, Tuple, TypeVar, Union

from .. import _explore
from .._explore import BranchOutcome, Candidate, ExploreResult, ScoreFn, Select
from ..exceptions import ExploreError, PandastackError, SandboxTimeout
from ._io import answer, each, notify

if TYPE_CHECKING:
    from .sandbox import AsyncSandbox

_AT_ONCE = 4

S = TypeVar("S", bound="AsyncSandbox")


async def explore(
    sandbox: S,
    candidates: Sequence[Union[Candidate, str]],
    *,
    score_fn: Optional[ScoreFn] = None,
    select: Select = "max",
    require_success: bool = True,
    max_concurrency: Optional[int] = None,
    cleanup_losers: bool = True,
    promote_winner: bool = True,
    capture_files: Union[bool, str] = True,
    ttl_seconds: int = 600,
    on_outcome: Optional[Callable[[BranchOutcome], object]] = None,
) -> ExploreResult[S]:
    """Tries each candidate in a copy of its own, all from the same moment, and chooses one copy.

    The sandbox itself is left as it is. When this fails, no copy is left.

    Args:
        candidates: 1 to 16 shell lines or `Candidate` objects.
        score_fn: Given the copy and its outcome, gives a number. One that fails costs its branch only.
        select: ``max`` or ``min`` of the score (of equal ones the faster), or a function that is
            given the outcomes, the best first, and gives one of them.
        require_success: Choose only among those that are ok.
        max_concurrency: How many run at once; None for 4.
        cleanup_losers: Delete the other copies.
        promote_winner: Make the chosen copy the one that stays, with this sandbox's time to live.
        capture_files: Look which files changed, in the usual folders or in this one.
        ttl_seconds: Seconds after which copies that were left by accident are gone; 0 for none.
        on_outcome: Called with each outcome as it comes, maybe in another thread.

    Raises:
        ExploreError: No candidate succeeded. ``outcomes`` has what came of them.
    """
    if max_concurrency is not None and max_concurrency < 1:
        raise ValueError("max_concurrency is 1 or more, or None")
    if isinstance(select, str) and select not in ("max", "min"):
        raise ValueError(f"select is 'max', 'min' or a function, not {select!r}")
    ways = _explore.candidates_of(candidates)
    copies = await sandbox.fork_tree(len(ways), {"explore": "1", "explore_ttl": str(ttl_seconds)})
    try:
        if len(copies) != len(ways):
            raise ExploreError(f"There are {len(copies)} copies for {len(ways)} candidates.")
        if ttl_seconds:
            await each(copies, lambda copy: copy.set_ttl(ttl_seconds), _AT_ONCE)
        roots = _explore.roots_of(capture_files)

        async def branch(pair: Tuple[S, Candidate]) -> BranchOutcome:
            outcome = await _run(*pair, roots)
            await _score(*pair, outcome, score_fn)
            await notify(on_outcome, outcome)
            return outcome

        outcomes = await each(list(zip(copies, ways)), branch, max_concurrency or _AT_ONCE)
        order = _explore.ranked(outcomes, select, require_success)
        winner = next(copy for copy in copies if copy.id == order[0].sandbox_id)
        if promote_winner and ttl_seconds:
            await winner.set_ttl(sandbox.ttl_seconds)
        reaped, failures = await _settle(winner, copies, promote_winner, cleanup_losers)
    except BaseException:
        await _reap(copies)
        raise
    errors = [f"{o.label}: {o.error}" for o in order if o.error]
    errors += [f"{sandbox_id} was not deleted: {why}" for sandbox_id, why in failures.items()]
    return ExploreResult(winner, order[0], order, winner.fork_tree_id, reaped, failures, errors)


async def _settle(
    winner: AsyncSandbox, copies: Sequence[AsyncSandbox], promote: bool, cleanup: bool
) -> Tuple[List[str], Dict[str, str]]:
    """Leaves the winner; gives the ids of copies that are gone, and why others are not."""
    if promote:
        done = await winner.promote(cleanup_siblings=cleanup)
        return done["deleted"], done["failures"]
    return await _reap([copy for copy in copies if copy is not winner] if cleanup else [])


async def _run(copy: AsyncSandbox, candidate: Candidate, roots: Tuple[str, ...]) -> BranchOutcome:
    outcome = BranchOutcome(candidate.label, copy.id)
    try:
        if roots:
            await copy.exec(["touch", _explore.MARKER], check=True)
        begun = time.monotonic()
        try:
            await _try(copy, candidate, outcome)
        finally:
            outcome.duration_ms = outcome.duration_ms or round(1000 * (time.monotonic() - begun))
        if roots:
            outcome.files_changed = await _changed(copy, roots)
    except PandastackError as error:
        outcome.failed(str(error))
    return outcome


async def _try(copy: AsyncSandbox, candidate: Candidate, outcome: BranchOutcome) -> None:
    if candidate.cmd is None:
        assert candidate.fn is not None
        try:
            outcome.value = await answer(candidate.fn, copy)
            outcome.ok = True
        except Exception as error:  # noqa: BLE001  what a user's function raises is its outcome
            outcome.failed(f"{type(error).__name__}: {error}")
        return
    try:
        result = await copy.exec(candidate.cmd, timeout=candidate.timeout_s, env=candidate.env)
    except SandboxTimeout as error:
        outcome.timed_out = True
        outcome.failed(f"It ran longer than {candidate.timeout_s:g} s.")
        outcome.stdout_tail = error.partial_stdout[-_explore.TAIL :]
        outcome.stderr_tail = error.partial_stderr[-_explore.TAIL :]
        return
    outcome.ok, outcome.exit_code = result.ok, result.exit_code
    outcome.stdout_tail = result.stdout[-_explore.TAIL :]
    outcome.stderr_tail = result.stderr[-_explore.TAIL :]
    outcome.duration_ms = round(result.duration_ms)


async def _changed(copy: AsyncSandbox, roots: Tuple[str, ...]) -> List[str]:
    """Files newer than the marker; folders that are not there have none."""
    line = f'find "$@" -newer {_explore.MARKER} -type f 2>/dev/null | head -n {_explore.FILES}'
    found = await copy.exec(["sh", "-c", line, "sh", *roots])
    return found.stdout.splitlines()


async def _score(
    copy: AsyncSandbox, candidate: Candidate, outcome: BranchOutcome, score_fn: Optional[ScoreFn]
) -> None:
    outcome.score = 1.0 if outcome.ok else 0.0
    if candidate.score is not None:
        outcome.score = float(candidate.score)
    elif score_fn is not None:
        try:
            value = await answer(lambda given: score_fn(copy, given), outcome)
            outcome.score = _explore.number(value, "the score")
        except Exception as error:  # noqa: BLE001  it costs this branch only
            outcome.score = 0.0
            outcome.failed(f"score_fn: {type(error).__name__}: {error}")


async def _reap(copies: Sequence[AsyncSandbox]) -> Tuple[List[str], Dict[str, str]]:
    """Deletes copies; gives the ids of those that are gone, and why others are not."""
    failures: Dict[str, str] = {}

    async def one(copy: AsyncSandbox) -> None:
        try:
            await copy.kill()
        except PandastackError as error:
            failures[copy.id] = str(error)

    await each(copies, one, _AT_ONCE)
    return [copy.id for copy in copies if copy.id not in failures], failures
