"""What harbor-firecracker does with an environment, done with a sandbox of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from harbor.models.task.config import EnvironmentConfig
from harbor.models.trial.paths import TrialPaths
from harbor_firecracker import (
    ExecTimeoutError,
    FirecrackerEnvironment,
    PreflightError,
    ProvisioningError,
    RolloutPool,
    fork_rollouts,
)
from pandastack import Sandbox
from pandastack.exceptions import NotFoundError

TTL = 1800


def make(folder: Path, template: str = "code-interpreter") -> FirecrackerEnvironment:
    config = EnvironmentConfig()
    vars(config).update(template=template, ttl_seconds=TTL)  # fields that only this provider reads
    return FirecrackerEnvironment(
        environment_dir=folder,
        environment_name="published",
        session_id="s1",
        trial_paths=TrialPaths(trial_dir=folder),
        task_env_config=config,
    )


def sandbox_of(env: FirecrackerEnvironment) -> Sandbox:
    assert env._sandbox is not None
    return env._sandbox


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirecrackerEnvironment]:
    one = make(tmp_path_factory.mktemp("environment"))
    asyncio.run(one.start(force_build=False))
    yield one
    asyncio.run(one.stop(delete=True))


def test_start(env: FirecrackerEnvironment) -> None:
    FirecrackerEnvironment.preflight()
    before = sandbox_of(env).id
    asyncio.run(env.start(force_build=True))
    asyncio.run(env.attach())
    assert sandbox_of(env).id == before
    said = Sandbox.get(before).metadata
    assert (said["harbor"], said["environment_name"], said["session_id"]) == (
        "firecracker",
        "published",
        "s1",
    )


def test_exec(env: FirecrackerEnvironment) -> None:
    result = asyncio.run(env.exec("echo $NAME; pwd; echo err >&2; exit 3", cwd="/tmp"))
    assert (result.stdout, result.stderr, result.return_code) == (
        "\n/tmp\n",
        "err\n",
        3,
    )
    result = asyncio.run(env.exec("sh -c 'echo $NAME'", env={"NAME": "Å 🐼"}))
    assert (result.stdout, result.return_code) == ("Å 🐼\n", 0)
    result = asyncio.run(env.exec("id -un", user="root"))
    assert (result.stdout, result.return_code) == ("root\n", 0)
    with pytest.raises(ExecTimeoutError):
        asyncio.run(env.exec("sleep 60", timeout_sec=1))
    assert asyncio.run(env.run_healthcheck())


def test_files(env: FirecrackerEnvironment, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "a.txt").write_text("Å")
    (source / "deep/b.bin").write_bytes(bytes(range(256)))
    asyncio.run(env.upload_dir(source, "/workspace/harbor"))
    asyncio.run(env.download_dir("/workspace/harbor", tmp_path / "back"))
    for name in ("a.txt", "deep/b.bin"):
        assert (tmp_path / "back" / name).read_bytes() == (source / name).read_bytes()
    asyncio.run(env.upload_file(source / "a.txt", "/workspace/one.txt"))
    asyncio.run(env.download_file("/workspace/one.txt", tmp_path / "one.txt"))
    assert (tmp_path / "one.txt").read_text() == "Å"
    with pytest.raises(ProvisioningError):
        asyncio.run(env.download_file("/workspace/none", tmp_path / "none"))


def test_logs(env: FirecrackerEnvironment) -> None:
    asyncio.run(env.prepare_logs_for_host())


def test_stop_deletes(tmp_path: Path) -> None:
    one = make(tmp_path)
    asyncio.run(one.start(force_build=False))
    made = sandbox_of(one).id
    asyncio.run(one.stop(delete=True))
    with pytest.raises(NotFoundError):
        Sandbox.get(made)


def test_stop_without_delete_hibernates(env: FirecrackerEnvironment) -> None:
    asyncio.run(env.stop(delete=False))
    assert sandbox_of(env).refresh().status == "hibernated"
    assert asyncio.run(env.exec("true")).return_code == 0  # wakes it


def test_rollouts() -> None:
    pool = RolloutPool.warm(setup=lambda box: box.exec("echo ready > /workspace/state"), ttl_seconds=TTL)
    try:
        made = pool.fork(2)
        assert [one.sandbox.exec("cat /workspace/state").stdout for one in made] == ["ready\n"] * 2
    finally:
        pool.close()


def test_fork_rollouts() -> None:
    pool, rollouts = fork_rollouts(2, snapshot=False, ttl_seconds=TTL)
    try:
        assert [one.index for one in rollouts] == [0, 1]
    finally:
        pool.close()


def test_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PANDASTACK_API_KEY")
    with pytest.raises(PreflightError):
        FirecrackerEnvironment.preflight()


def test_a_template_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProvisioningError, match="none"):
        asyncio.run(make(tmp_path, "none").start(force_build=False))
