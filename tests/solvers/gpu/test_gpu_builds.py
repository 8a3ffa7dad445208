"""Builds for GPUs in workers: each fate has a status and a reason, and the others are built."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from processes import PATIENCE_S
from skipjack.core import Candidate, Config, Status
from skipjack.execute.pool import Build, BuildPool
from skipjack.gpu import ABI, describe_gpu, from_slots, unpack
from skipjack.operations import parse

pytest.importorskip("triton")


@pytest.fixture
def pool(tiny_everywhere: Path, children: object) -> Iterator[BuildPool]:
    with BuildPool(1, describe_gpu("gfx90a/104")) as opened:
        yield opened


def collect(pool: BuildPool, count: int, within_s: float = PATIENCE_S) -> dict[str, Build]:
    """Builds by behaviour."""
    found: dict[str, Build] = {}
    deadline = time.monotonic() + within_s
    while len(found) < count and time.monotonic() < deadline:
        for build in pool.poll(0.1):
            found[str(build.candidate.config["behaviour"])] = build
    return found


def test_every_fate_of_a_build_has_a_status_and_a_reason(pool: BuildPool) -> None:
    assert pool.timeout_s == 120.0
    fates = {
        "refused": (Status.BUILD_ERROR, "has no attribute 'no_such_method'"),
        "crash": (Status.BUILD_CRASH, "the compiler ended with exit code 3"),
        "misassembled": (Status.BUILD_ERROR, "kernel main: RuntimeError: invalid instruction"),
        "unknown": (Status.BUILD_ERROR, "tiny_kernels.py has no function 'unknown'"),
        "spills": (Status.INFEASIBLE, "spills 257 bytes per thread"),
        "right": (Status.OK, ""),
    }
    for behaviour in fates:
        config = Config({"behaviour": behaviour})
        pool.submit(Candidate(parse("tiny:1000"), "tiny", config))
    builds = collect(pool, len(fates))
    assert {name: build.status for name, build in builds.items()} == {
        name: status for name, (status, _) in fates.items()
    }
    for name, (_, reason) in fates.items():
        assert reason in builds[name].reason
        assert (builds[name].artifact is None) == bool(reason)
    right = builds["right"]
    assert (right.abi, right.target) == (ABI, "gfx90a")
    assert unpack(right.artifact or b"").kernel("main").threads == 4 * 64
    (step,) = from_slots(right.slots)
    assert step.grid == (4, 1, 1)  # type: ignore[union-attr]
