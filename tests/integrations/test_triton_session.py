"""Calls of a kernel are timed in turn; one that can run no more does not stop the others."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")
from autotune_rig import Rig, by_block, config, tuned

from skipjack.core import Config, Status
from skipjack.integrations.triton.call_session import LaunchTools, TritonSession
from skipjack.integrations.triton.tuned_call import GpuLostError, TunedCall


def session_of(rig: Rig, *blocks: int, samples: int = 2) -> tuple[TritonSession, list[int]]:
    """A session with these blocks added; gives their numbers too."""
    call = TunedCall(tuned(), (rig.x, rig.y, 1000), {"grid": (8,)})
    tools = LaunchTools(1, lambda: rig.timer)  # type: ignore[arg-type, return-value]
    session = TritonSession(call, lambda one: config(int(one["BLOCK"])), tools, samples)
    configs = [Config({"BLOCK": block}) for block in blocks]
    assert session.build(configs) == {}
    added = [session.add(one) for one in configs]
    return session, [number for number in added if isinstance(number, int)]


def failing_after(calls: int, block: int, message: str) -> Any:
    """What a launch costs: one block fails once it was launched so often."""
    count = 0

    def cost(told: Any, values: object) -> float:
        nonlocal count
        count += block == told.BLOCK
        if block == told.BLOCK and count > calls:
            raise RuntimeError(message)
        return by_block(told, values)

    return cost


def test_samples_go_to_and_fro_so_that_no_kernel_always_follows_the_same(rig: Rig) -> None:
    session, kernels = session_of(rig, 64, 128, 256)
    blocks, failures = session.time(kernels, 2)
    assert not failures
    assert rig.timer.sampled == [64, 128, 256, 256, 128, 64, 256, 128, 64, 64, 128, 256]
    assert [len(one.samples_ns) for one in blocks] == [2] * 6


def test_one_that_can_run_no_more_is_a_failure_and_the_others_go_on(rig: Rig) -> None:
    rig.fake.cost = failing_after(3, 128, "the launch crashed")
    session, kernels = session_of(rig, 64, 128, 256)
    blocks, failures = session.time(kernels, 3)
    assert [(one.kernel, one.status) for one in failures] == [(kernels[1], Status.ERROR)]
    assert {one.kernel for one in blocks} == {kernels[0], kernels[2]}
    assert len(blocks) == 6


def test_a_lost_context_while_several_are_timed_names_all_of_them(rig: Rig) -> None:
    rig.fake.cost = failing_after(1, 128, "CUDA error: an illegal memory access was encountered")
    session, kernels = session_of(rig, 64, 128)
    with pytest.raises(GpuLostError, match=r"one of configs .*64.*128") as caught:
        session.time(kernels, 1)
    assert caught.value.config is None
