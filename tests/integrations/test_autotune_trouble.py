"""``@skipjack.autotune`` where the disk is full, a graph is recorded, a hook calls a kernel ..."""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")
import triton.language as tl  # noqa: E402
from autotune_rig import (  # noqa: E402
    THREE,
    Rig,
    add_one,
    by_block,
    compiler_that_fails,
    config,
    tuned,
)

import skipjack  # noqa: E402
from skipjack.errors import SkipjackError, StorageError  # noqa: E402
from skipjack.ledger import Ledger  # noqa: E402
from skipjack.runtime.online import tuning_lock  # noqa: E402


@triton.jit
def add_head(x, y, n, HEAD: tl.constexpr, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + HEAD, mask=at < n)


@triton.jit
def fill(y, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 0.0, mask=at < n)


@pytest.fixture(autouse=True)
def no_kernels_of_another_gpu() -> Iterator[None]:
    add_head.device_caches.clear()
    fill.device_caches.clear()
    yield


def within_a_minute(call: Callable[[], object]) -> None:
    """A deadlock fails a test and does not stop all of them."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits for ever"
    assert not errors, errors


def test_a_disk_that_is_full_now_loses_neither_old_nor_new_results(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig.call(tuned([config(64)] * 2))

    def full(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(Ledger, "add_measurements", full)
    assert rig.call(tuned([config(64), config(256)])).kwargs == {"BLOCK": 256}
    assert "not kept: the disk is full" in caplog.text
    assert rig.call(tuned([config(128), config(32)])).kwargs == {"BLOCK": 128}


def test_pruning_that_leaves_nothing_is_told(rig: Rig) -> None:
    nothing = {"perf_model": lambda **_: 1.0, "top_k": 0}
    with pytest.raises(SkipjackError, match="pruning left no config of add_one"):
        rig.call(tuned(prune_configs_by=nothing))


@pytest.mark.parametrize("by_keyword", [False, True])
def test_constants_of_the_caller_are_part_of_the_problem(rig: Rig, by_keyword: bool) -> None:
    for head, expected in ((64, {64, 128, 256}), (128, {64, 128, 256}), (64, set())):
        kernel = tuned(function=add_head)
        if by_keyword:
            kernel[(8,)](rig.x, rig.y, 1000, HEAD=head)
        else:
            kernel[(8,)](rig.x, rig.y, 1000, head)
        assert rig.sampled() == expected


def test_hooks_that_close_over_other_values_are_timed_for_themselves(rig: Rig) -> None:
    def hooked(value: int) -> Any:
        return [config(64, pre_hook=lambda args: value), config(128)]

    for value, expected in ((1, {64, 128}), (1, set()), (2, {64, 128})):
        rig.call(tuned(hooked(value)))
        assert rig.sampled() == expected


def run_out_of_room() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_compilation_without_room_is_tried_again_later(rig: Rig) -> None:
    kernel = tuned()
    with compiler_that_fails(run_out_of_room, 256):
        assert rig.call(kernel).kwargs == {"BLOCK": 128}
    assert "No space left" in next(iter(kernel.failures.values()))
    assert rig.call(tuned()).kwargs == {"BLOCK": 256}


def test_a_choice_for_a_graph_holds_while_it_is_recorded(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kernel = tuned()
    with monkeypatch.context() as recording:
        recording.setattr(torch.cuda, "is_available", lambda: True)
        recording.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
        assert rig.call(kernel).kwargs == {"BLOCK": 64}
        assert rig.call(kernel).kwargs == {"BLOCK": 64}
        assert not rig.sampled()
    assert caplog.text.count("a kernel is not tuned when it is first called") == 1
    assert rig.call(kernel).kwargs == {"BLOCK": 256}


def after_launches(count: int, error: Exception, block: int) -> Callable[[Any, Any], float]:
    """A cost; the block runs well so many times, then never again."""
    made = 0

    def cost(told: Any, values: object) -> float:
        nonlocal made
        made += block == told.BLOCK
        if block == told.BLOCK and made > count:
            raise error
        return by_block(told, values)

    return cost


FAULT = RuntimeError("CUDA error: an illegal memory access was encountered")


def test_a_fault_after_the_first_launch_names_those_that_ran(rig: Rig) -> None:
    rig.fake.cost = after_launches(2, FAULT, 128)
    with pytest.raises(SkipjackError, match=r'one of configs .*"BLOCK":128.* of add_one broke'):
        rig.call(tuned())


def test_a_fault_in_the_users_benchmark_names_the_config(rig: Rig) -> None:
    rig.fake.cost = after_launches(1, FAULT, 128)

    def bench(call: Callable[[], None], quantiles: object) -> float:
        call()
        return rig.fake.last_ns

    with pytest.raises(SkipjackError, match=r'^config \{"BLOCK":128,[^{]*\} of add_one broke'):
        rig.call(tuned(do_bench=bench))


def test_a_config_that_fails_in_the_race_is_a_status(rig: Rig) -> None:
    rig.fake.cost = after_launches(2, RuntimeError("CUDA out of memory"), 256)
    kernel = tuned()
    assert rig.call(kernel).kwargs == {"BLOCK": 128}
    assert [one.kwargs["BLOCK"] for one in kernel.failures] == [256]
    assert "out of memory" in next(iter(kernel.failures.values()))
    assert not [one for one in kernel.configs_timings if one.kwargs["BLOCK"] == 256]


@pytest.mark.parametrize("place", ["config", "tuner"])
def test_a_hook_may_call_a_tuned_kernel(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(tuning_lock, "_LOCKS", 1)  # all kernels share one
    inner = tuned(function=fill)

    def hook(args: Any, reset_only: bool = False) -> None:
        inner[(8,)](args["y"], args["n"])

    if place == "config":
        outer = tuned([config(64, pre_hook=hook), config(128, pre_hook=hook)])
    else:
        outer = tuned(pre_hook=hook)
    within_a_minute(lambda: rig.call(outer))
    assert inner.best_config.kwargs == {"BLOCK": 256}
    assert len(outer.configs_timings) == (2 if place == "config" else 3)


def test_a_hook_may_call_its_own_kernel_with_another_key(rig: Rig) -> None:
    def hook(args: Any, reset_only: bool = False) -> None:
        if args["n"] != 512:
            outer[(8,)](args["x"], args["y"], 512)

    outer = skipjack.autotune(configs=THREE, key=["n"], pre_hook=hook)(add_one)
    within_a_minute(lambda: rig.call(outer))
    assert [key[0] for key in outer.cache] == [512, 1000]
