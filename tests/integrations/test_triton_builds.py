"""Configs of a call are compiled at once, by the compiler that also builds kernels of solvers."""

from __future__ import annotations

from typing import Any

import pytest

triton = pytest.importorskip("triton")
pytest.importorskip("torch")
from autotune_rig import Rig, add_one, config, tuned  # noqa: E402
from triton import knobs  # noqa: E402

from skipjack.core import Status  # noqa: E402
from skipjack.gpu import GpuBuildError, compile_source, triton_compiler  # noqa: E402
from skipjack.integrations.triton import builds  # noqa: E402
from skipjack.integrations.triton.builds import build  # noqa: E402
from skipjack.integrations.triton.tuned_call import TunedCall  # noqa: E402

SIGNATURE = {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}
WHOLE = [["tt.divisibility", 16]]
HOPPER = ("cuda", 90, 32)


def call_of(rig: Rig) -> TunedCall:
    return TunedCall(tuned(), (rig.x, rig.y, 1000), {"grid": (8,)})


def from_source(block: int, warps: int) -> Any:
    aligned = {(0,): WHOLE, (1,): WHOLE}
    return compile_source(
        add_one, SIGNATURE, {(3,): block}, aligned, HOPPER, {"num_warps": warps, "num_stages": 3}
    )


def test_a_call_and_a_spec_of_the_same_types_compile_to_the_same_code(rig: Rig) -> None:
    with knobs.compilation.scope():
        knobs.compilation.disable_line_info = True  # as for specs
        kernel = call_of(rig).compile(config(64, warps=2))
    assert kernel.asm["ptx"] == from_source(64, 2).asm["ptx"]
    assert kernel.asm["ptx"] != from_source(64, 4).asm["ptx"]


def test_both_say_in_the_same_words_why_a_kernel_cannot_be_built(rig: Rig) -> None:
    built = build(call_of(rig), {"odd": config(100), "even": config(128)}, workers=2)
    with pytest.raises(GpuBuildError) as caught:
        from_source(100, 4)
    assert built["odd"].reason == str(caught.value)
    assert (built["odd"].status, built["even"].status) == (Status.BUILD_ERROR, Status.OK)


def test_what_this_process_holds_is_not_compiled_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []

    def run_jobs(jobs: Any, workers: int, timeout_s: float) -> Any:
        counts.append(len(jobs))
        return original(jobs, workers, timeout_s)

    original = builds.run_jobs
    monkeypatch.setattr(builds, "run_jobs", run_jobs)
    call = call_of(rig)
    build(call, {"a": config(32)}, workers=2)
    build(call, {"a": config(32), "b": config(16)}, workers=2)
    build(call, {"b": config(16)}, workers=2)
    assert counts == [1, 1, 0]


def test_without_a_way_to_collect_they_are_compiled_here(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert triton_compiler.can_collect()
    monkeypatch.setattr(builds, "can_collect", lambda: False)
    built = build(call_of(rig), {"odd": config(100), "even": config(128)}, workers=2)
    assert (built["odd"].status, built["even"].status) == (Status.BUILD_ERROR, Status.OK)
    assert "power of 2" in built["odd"].reason
