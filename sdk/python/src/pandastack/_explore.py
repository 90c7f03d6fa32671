"""Several ways tried at once: what is tried, what came of it, and which is the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from .exceptions import ExploreError

S = TypeVar("S")

MOST = 16  # copies that one call makes
TAIL = 4096  # characters kept of each output
FILES = 200  # changed files named of each branch
# Where files are looked for that changed, unless told otherwise.
ROOTS = ("/app", "/work", "/workspace", "/root", "/home")
MARKER = "/tmp/.pandastack-explore-marker"


@dataclass
class Candidate:
    """One way to try: a shell line, or a function that is given the copy.

    Attributes:
        label: What it is called.
        timeout_s: Seconds after which `cmd` is killed. A function has no limit but its calls' own.
        env: Environment of `cmd`.
        score: Its score, where that does not depend on what comes of it.
    """

    label: str
    cmd: Optional[str] = None
    fn: Optional[Callable[[Any], Any]] = None
    timeout_s: float = 60.0
    env: Optional[Mapping[str, str]] = None
    score: Optional[float] = None

    @classmethod
    def shell(cls, label: str, cmd: str, **options: Any) -> Candidate:
        """A line for ``/bin/sh``."""
        return cls(label, cmd=cmd, **options)

    @classmethod
    def call(cls, label: str, fn: Callable[[Any], Any], **options: Any) -> Candidate:
        """A function that is given the copy."""
        return cls(label, fn=fn, **options)


@dataclass
class BranchOutcome:
    """What came of one way.

    Attributes:
        ok: `cmd` ended with exit code 0, or the function returned, and it has a score.
        score: Without one that was given or computed, 1 for what is ok and 0 for what is not.
        exit_code: Of `cmd`; None where it did not end by itself.
        stdout_tail, stderr_tail: The last 4096 characters.
        files_changed: Paths, at most 200.
        duration_ms: Milliseconds.
        value: What the function returned.
        error: Why it is not ok, where an exit code does not say it.
        timed_out: `cmd` was killed at its limit.
    """

    label: str
    sandbox_id: str
    ok: bool = False
    score: float = 0.0
    exit_code: Optional[int] = None
    stdout_tail: str = ""
    stderr_tail: str = ""
    files_changed: list[str] = field(default_factory=list)
    duration_ms: int = 0
    value: Any = None
    error: Optional[str] = None
    timed_out: bool = False

    def failed(self, error: str) -> None:
        """Notes why it is not ok."""
        self.ok, self.error = False, error


ScoreFn = Callable[[Any, BranchOutcome], Any]
Select = Union[str, Callable[[list[BranchOutcome]], BranchOutcome]]


@dataclass
class ExploreResult(Generic[S]):
    """What came of all ways.

    Attributes:
        winner: The copy that was chosen.
        outcomes: All of them, the best first.
        reaped: Ids of copies that are deleted.
        reap_failures: Copies that could not be deleted, and why.
        errors: What went wrong, a line each.
    """

    winner: S
    winner_outcome: BranchOutcome
    outcomes: list[BranchOutcome]
    tree_id: str
    reaped: list[str]
    reap_failures: dict[str, str]
    errors: list[str]

    def best(self, n: int = 1) -> list[BranchOutcome]:
        """The first n of those that are ok."""
        return [outcome for outcome in self.outcomes if outcome.ok][:n]

    def table(self) -> str:
        """All outcomes as text, a line each."""
        rows = [("LABEL", "OK", "SCORE", "EXIT", "MS", "FILES")]
        for o in self.outcomes:
            code = "-" if o.exit_code is None else str(o.exit_code)
            ok = "yes" if o.ok else "no"
            rows.append((o.label, ok, f"{o.score:g}", code, str(o.duration_ms), str(len(o.files_changed))))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in rows)
        return "\n".join(line.rstrip() for line in lines)


def candidates_of(given: Sequence[Union[Candidate, str]]) -> list[Candidate]:
    """The ways to try. What is wrong with one is said before anything is done.

    Raises:
        ValueError: There are none or too many, or one cannot be tried.
    """
    found = [Candidate(one, cmd=one) if isinstance(one, str) else one for one in given]
    if not 1 <= len(found) <= MOST:
        raise ValueError(f"explore takes 1 to {MOST} candidates, not {len(found)}")
    for one in found:
        if (one.cmd is None) == (one.fn is None):
            raise ValueError(f"candidate {one.label!r} has either a cmd or an fn")
        if one.score is not None:
            number(one.score, f"score of candidate {one.label!r}")
        if not (one.timeout_s > 0 and math.isfinite(one.timeout_s)):
            raise ValueError(f"timeout_s of candidate {one.label!r} is a number of seconds above 0")
    return found


def number(value: Any, what: str) -> float:
    """A score.

    Raises:
        ValueError: It is not a finite number.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{what} is not a number: {value!r}")
    return float(value)


def roots_of(capture_files: Union[bool, str]) -> tuple[str, ...]:
    """Where to look for changed files."""
    if isinstance(capture_files, str):
        return (capture_files,)
    return ROOTS if capture_files else ()


def ranked(outcomes: list[BranchOutcome], select: Select, require_success: bool) -> list[BranchOutcome]:
    """The outcomes, the chosen one first; of equal ones the faster one is the better.

    Raises:
        ExploreError: None can be chosen.
    """
    sign = 1 if select == "min" else -1
    order = sorted(outcomes, key=lambda o: (not o.ok, sign * o.score, o.duration_ms))
    viable = [o for o in order if o.ok or not require_success]
    if not viable:
        raise ExploreError(
            "None of the candidates succeeded.", code="client.nothing_succeeded", outcomes=outcomes
        )
    if isinstance(select, str):
        chosen = viable[0]
    else:
        chosen = select(list(viable))
        if not any(chosen is one for one in viable):
            raise ExploreError("select gave something else than one of the outcomes.", outcomes=outcomes)
    return [chosen, *(one for one in order if one is not chosen)]
