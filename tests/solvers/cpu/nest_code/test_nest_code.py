"""Generated code computes its nest under every schedule."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from cpus import APPLE_M1, HASWELL, NEHALEM, NEOVERSE_N1, SKYLAKE_AVX512, skip_unless_it_runs_here
from skipjack.core import (
    Access,
    Call,
    Device,
    Load,
    Nest,
    NestOperation,
    Tensor,
    index,
    numpy_dtype,
)
from skipjack.native import aligned, llvm, target_of
from skipjack.native.pool import pool_for
from skipjack.operations import get, names, parse
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace, check
from skipjack.solvers.cpu.nest_code.kernel import generate, partial_bytes
from skipjack.testing import samples
from skipjack.testing.interpreter import interpret

Array = npt.NDArray[Any]
Runner = Callable[..., Array]
SIZE = st.integers(1, 40)

NESTS = st.one_of(
    st.builds(samples.matmul_nest, SIZE, SIZE, SIZE),
    st.builds(samples.matmul_transposed_nest, SIZE, SIZE, SIZE),
    st.builds(samples.conv1d_nest, st.integers(1, 90), st.integers(1, 20)),
    st.builds(samples.transpose_nest, SIZE, SIZE),
    st.builds(samples.bias_nest, SIZE, SIZE),
    st.builds(samples.add_nest, st.integers(1, 200)),
    st.builds(samples.sum_nest, SIZE, SIZE, st.sampled_from((0, 1))),
    st.builds(samples.outer_sum_nest, SIZE, SIZE, SIZE, st.sampled_from(("sum", "max"))),
    st.builds(samples.mean_nest, st.integers(1, 5000), st.sampled_from(("sum", "max"))),
)
NEST_OPERATIONS = [name for name in names() if isinstance(get(name), NestOperation)]
SMALL_SHAPES = {
    "bmm": ("2x5x19x7/tb=1/bias=1", "3x4x33x6/ta=1/beta=2/act=relu"),
    "matmul": ("7x19x11", "1x1x1", "3x33x2"),
    "sum": ("13x17/axis=1", "13x17/axis=0", "5x7x3/axis=0,2", "37"),
    "max": ("13x17/axis=1", "13x17/axis=0", "5x7x3/axis=1", "1"),
    "mean": ("13x17/axis=1", "13x17/axis=0", "5x7x3/axis=0,2", "37"),
}


def draw_inputs(nest: Nest, dtype: str, rng: np.random.Generator) -> list[Array]:
    shapes = [access.tensor.shape for access in nest.inputs]
    return [rng.uniform(0.5, 1.5, shape).astype(numpy_dtype(dtype)) for shape in shapes]


def draw_schedule(space: ScheduleSpace, rng: np.random.Generator, steps: int) -> str:
    """An initial or random schedule, and random steps from it."""
    promising = space.promising(6)
    at_random = rng.random() < 0.6
    config = space.sample(rng) if at_random else promising[rng.integers(len(promising))]
    for _ in range(steps):
        near = space.neighbours(config)
        config = near[rng.integers(len(near))] if near else config
    return str(config["schedule"])


def agree(
    run_ir: Runner, nest: Nest, schedule: str, dtype: str, lanes: int, inputs: list[Array]
) -> None:
    """The code under this schedule computes the nest."""
    check(Schedule.parse(schedule), nest)
    text = generate(nest, Schedule.parse(schedule), dtype, lanes)
    room = aligned((2 * partial_bytes(nest, dtype),), "uint8")
    # The pool is read if the outermost loop is parallel, the workspace if it reduces.
    threads = [pool_for(2).parallel, 2, room.ctypes.data]
    result = run_ir(text, dtype, inputs, nest.output.tensor.shape, threads)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = interpret(nest, [array.astype(np.float64) for array in inputs])
    # Inputs are near 1, so that results and errors grow with the length of a reduction.
    rtol = 64 * float(np.finfo(numpy_dtype(dtype)).eps)
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol)


@settings(max_examples=250, derandomize=True, deadline=None)
@given(
    nest=NESTS,
    dtype=st.sampled_from(("f32", "f64")),
    lanes=st.sampled_from((4, 8, 16)),
    registers=st.sampled_from((16, 32)),
    threads=st.sampled_from((1, 4)),
    cache=st.sampled_from((0, 1)),
    steps=st.integers(0, 6),
    seed=st.integers(0, 2**32),
)
def test_every_schedule_of_a_nest_computes_the_nest(
    run_ir: Runner,
    nest: Nest,
    dtype: str,
    lanes: int,
    registers: int,
    threads: int,
    cache: int,
    steps: int,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    space = ScheduleSpace(nest, lanes, registers, 128, threads, cache)
    schedule = draw_schedule(space, rng, steps)
    note(f"{nest.loops} under '{schedule}'")
    agree(run_ir, nest, schedule, dtype, lanes, draw_inputs(nest, dtype, rng))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", NEST_OPERATIONS)
def test_every_operation_is_right_under_random_schedules(
    run_ir: Runner, name: str, dtype: str
) -> None:
    rng = np.random.default_rng(1)
    for shape in SMALL_SHAPES.get(name, ("3x37", "19")):
        nest = get(name).nest(parse(f"{name}:{shape}:{dtype}"))
        for lanes in (4, 16):
            schedule = draw_schedule(ScheduleSpace(nest, lanes, max_unrolled=64), rng, 2)
            agree(run_ir, nest, schedule, dtype, lanes, draw_inputs(nest, dtype, rng))


@pytest.mark.parametrize(
    ("schedule", "why"),
    [
        ("m:6 n:32 k m/u n/v", "the vectorised loop innermost"),
        ("m:6 n:32 k n/v m/u", "the vectorised loop around an unrolled one"),
        ("m:6 n:29 k n/v m/u", "a range that is no multiple of the lanes"),
        ("n:30 m:6 k n:12/u m/u n/v", "two loops on one variable in the suffix"),
        ("n:32 k:5 m:6 k:2 m/u k/u n/v", "reduction split into an outer and inner parts"),
        ("k:7 m:6 n:32 k:3 k m/u n/v", "two reduction loops around the tile"),
        ("m:5/p n:16/p k m/u n/v", "parallel loops, shared out together"),
        ("m:5/p n:16/p m:2/p k m/u n/v", "a parallel loop inside of a thread"),
        ("k:5/p m:6 n:32 k m/u n/v", "the reduction shared out to threads"),
        ("m:6 n:32 k m/u n/s", "an output that is stored past the caches where it is aligned"),
        ("k m n", "the reduction outermost, nothing marked"),
        ("n:32 m:3 k:6 m/u k:2/a k/u n/v", "several accumulators for each element"),
        ("n:32 m:3 k:8 k:2/a n/v m/u k/a", "accumulators on two levels"),
    ],
)
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_a_matmul_is_right_with(run_ir: Runner, schedule: str, why: str, lanes: int) -> None:
    nest = samples.matmul_nest(13, 61, 17)
    inputs = draw_inputs(nest, "f32", np.random.default_rng(2))
    agree(run_ir, nest, schedule, "f32", lanes, inputs)


@pytest.mark.parametrize(
    "schedule",
    ["i0 r1/v", "r1:5 i0 r1", "r1:20 i0:2 r1:8 i0/u r1/v", "r1:32 i0 r1:16/a r1/v", "r1 i0"],
)
def test_the_epilogue_of_a_mean_is_applied_exactly_once(run_ir: Runner, schedule: str) -> None:
    nest = get("mean").nest(parse("mean:5x67/axis=1"))
    inputs = draw_inputs(nest, "f64", np.random.default_rng(3))
    agree(run_ir, nest, schedule, "f64", 8, inputs)


def scaled_sum_nest(i: int, r: int) -> Nest:
    """``y[i] = sum over r of x[i] * w[r]``: x is the same in all lanes of a vector along r."""
    x, w, y = Tensor("x", (i,)), Tensor("w", (r,)), Tensor("y", (i,))
    return Nest(
        loops=(("i", i), ("r", r)),
        inputs=(Access(x, (index("i"),)), Access(w, (index("r"),))),
        output=Access(y, (index("i"),)),
        body=Call("mul", (Load(0), Load(1))),
        reduction="sum",
    )


@pytest.mark.parametrize("schedule", ["i r/v", "i r:5 r/v", "r:11 i:2 i/u r/v", "i r:8/a r/v"])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
def test_an_infinity_times_a_masked_zero_stays_out_of_the_sum(
    run_ir: Runner, schedule: str, special: float
) -> None:
    nest = scaled_sum_nest(4, 13)
    inputs = draw_inputs(nest, "f32", np.random.default_rng(4))
    inputs[0][1] = special
    agree(run_ir, nest, schedule, "f32", 8, inputs)


@pytest.mark.parametrize(
    ("key", "schedule"),
    [
        ("max:3x21/axis=1", "i0 r1/v"),
        ("max:3x21/axis=1", "i0 r1:16/a r1/v"),
        ("max:21x3/axis=0", "r0:4 r0/u i1/v"),
        ("max:5x21/axis=0", "r0:2 i1:16 r0/u i1/v"),
        ("max:3x21/axis=1", "i0/u r1:8/a r1/v"),
        ("max:63", "r0:32/p r0:16 r0:8/a r0/v"),
        ("relu:21", "i/v"),
        ("maximum:21", "i:16 i/v"),
        ("minimum:21", "i"),
    ],
)
def test_nan_and_infinities_come_through_as_in_numpy(
    run_ir: Runner, key: str, schedule: str
) -> None:
    problem = parse(key)
    nest = get(problem.operation).nest(problem)
    for special in (np.nan, np.inf, -np.inf):
        for at in (0, 7, 20):
            inputs = draw_inputs(nest, "f32", np.random.default_rng(6))
            inputs[0].reshape(-1)[at] = special
            agree(run_ir, nest, schedule, "f32", 8, inputs)


def test_a_maximum_of_negative_numbers_ignores_masked_lanes(run_ir: Runner) -> None:
    nest = get("max").nest(parse("max:3x21/axis=1"))
    inputs = [-array for array in draw_inputs(nest, "f32", np.random.default_rng(7))]
    agree(run_ir, nest, "i0 r1/v", "f32", 8, inputs)


# other CPUs

OTHERS = (NEHALEM, HASWELL, SKYLAKE_AVX512, NEOVERSE_N1, APPLE_M1)


@pytest.mark.parametrize("device", OTHERS, ids=lambda device: device.arch)
@pytest.mark.parametrize("key", ["matmul:13x61x17", "mean:13x37/axis=1:f64", "relu:100"])
def test_nests_build_for_other_cpus(device: Device, key: str) -> None:
    problem = parse(key)
    nest = get(problem.operation).nest(problem)
    lanes = device.vector_bytes // numpy_dtype(problem.dtype).itemsize
    for config in ScheduleSpace(nest, lanes, 16).promising(3):
        schedule = Schedule.parse(str(config["schedule"]))
        assert llvm.compile_object(
            generate(nest, schedule, problem.dtype, lanes), target_of(device)
        )


def test_code_for_avx2_uses_nothing_newer_and_runs_right(run_ir: Runner) -> None:
    skip_unless_it_runs_here(HASWELL)
    nest = samples.matmul_nest(13, 37, 17)
    text = generate(nest, Schedule.parse("m:4 n:16 k m/u n/v"), "f32", 8)
    target = target_of(HASWELL)
    listing = llvm.assembly(text, target)
    assert "ymm" in listing
    assert not re.search(r"zmm|%k[0-7]|[xy]mm(1[6-9]|[23]\d)", listing)
    inputs = draw_inputs(nest, "f32", np.random.default_rng(8))
    result = run_ir(text, "f32", inputs, (13, 37), target=target)
    np.testing.assert_allclose(result, inputs[0] @ inputs[1], rtol=1e-5)


@pytest.mark.parametrize(
    "schedule", ["m:12 n:32 k m/u n/v", "m:14 n:32 k m/u n/v", "n:32 m:12 k:4 k/u m/u n/v"]
)
def test_a_tile_that_fits_the_registers_does_not_spill(schedule: str) -> None:
    nest = get("matmul").nest(parse("matmul:192x192x192"))
    target = target_of(SKYLAKE_AVX512)
    listing = llvm.assembly(generate(nest, Schedule.parse(schedule), "f32", 16), target)
    assert "vfmadd" in listing
    assert not re.search(r"[xyz]mm\d+, -?\d*\(%rsp\)", listing)


# threads and stores


def run_on_threads(run_ir: Runner, nest: Nest, text: str, threads: int) -> tuple[Array, Array]:
    """The result of the code of a nest on whole numbers, and the expected result, both exact."""
    check(Schedule.parse(text), nest)
    code = generate(nest, Schedule.parse(text), "f32", 16)
    inputs = [np.arange(each.tensor.size, dtype=np.float32) % 13 for each in nest.inputs]
    room = np.full(threads * partial_bytes(nest, "f32"), 0xFF, np.uint8)  # NaN wherever it is read
    numbers = [pool_for(threads).parallel, threads, room.ctypes.data]
    shaped = [x.reshape(each.tensor.shape) for x, each in zip(inputs, nest.inputs, strict=True)]
    result = run_ir(code, "f32", shaped, nest.output.tensor.shape, numbers)
    return result, interpret(nest, shaped)


@pytest.mark.parametrize("text", ["i:32/p i/v", "i:7/p i", "i:16/p i:8/u i/v", "i:100/p i:16 i/v"])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_the_outermost_loop_out(run_ir: Runner, text: str, threads: int) -> None:
    np.testing.assert_array_equal(*run_on_threads(run_ir, samples.add_nest(101), text, threads))


@pytest.mark.parametrize(
    "text", ["i/p j:16/p j/v", "i:2/p j:16/p i j/v", "j:40/p i:3/p i j:16 j/v"]
)
@pytest.mark.parametrize("threads", [2, 3, 5])
def test_threads_share_several_loops_out_together(run_ir: Runner, text: str, threads: int) -> None:
    np.testing.assert_array_equal(*run_on_threads(run_ir, samples.bias_nest(5, 67), text, threads))


@pytest.mark.parametrize(
    ("nest", "text"),
    [
        (samples.sum_nest(5, 67, 1), "j:32/p i j:16 j/v"),
        (samples.sum_nest(37, 50, 0), "i:8/p i:2 j:16 i/u j/v"),
        (samples.sum_nest(37, 50, 0), "i:36/p j:32 i j/v"),
        (samples.outer_sum_nest(4, 3, 20, "max"), "k:10/p i j k/v"),
        (samples.mean_nest(1024), "i:256/p i:32 i:16/a i/v"),
    ],
)
@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_share_a_reduction_out(run_ir: Runner, nest: Nest, text: str, threads: int) -> None:
    np.testing.assert_array_equal(*run_on_threads(run_ir, nest, text, threads))


@pytest.mark.parametrize("size", [256, 260, 263])
def test_an_output_is_stored_past_the_caches_wherever_it_begins(run_ir: Runner, size: int) -> None:
    # Arrays end at the end of a page: these start on a whole vector, on 16 bytes, and on an
    # element.
    nest = samples.add_nest(size)
    text = "i:64 i/s"
    np.testing.assert_array_equal(*run_on_threads(run_ir, nest, text, 1))
    code = generate(nest, Schedule.parse(text), "f32", 16)
    listing = llvm.assembly(code, target_of(SKYLAKE_AVX512))
    assert re.search(r"vmovntps\s+%zmm", listing)
    assert re.search(r"vmovntps\s+%xmm", listing)
    assert code.count("fence seq_cst") == 2


@pytest.mark.parametrize(
    ("nest", "text"),
    [
        (samples.matmul_nest(7, 64, 5), "m:4 n:32 k m/u n/s"),
        (samples.sum_nest(9, 64, 0), "j:32 i:2 i/u j/s"),
        (samples.bias_nest(5, 48), "i/p j:32 j/s"),
        (samples.bias_nest(5, 48), "i:2/p j:32/p i/u j/s"),
    ],
)
def test_reductions_and_threads_store_past_the_caches(
    run_ir: Runner, nest: Nest, text: str
) -> None:
    assert "nontemporal" in generate(nest, Schedule.parse(text), "f32", 16)
    np.testing.assert_array_equal(*run_on_threads(run_ir, nest, text, 3))


def test_rows_that_are_no_whole_vectors_are_stored_through_the_caches() -> None:
    code = generate(samples.bias_nest(8, 40), Schedule.parse("i j:16 j/s"), "f32", 16)
    assert "nontemporal" not in code


# long sums


@pytest.mark.parametrize("text", ["i", "i:4 i/u", "i:16 i/v", "i:32 i:16/a i/v", "i:64/p i:16 i/v"])
@pytest.mark.parametrize("size", [1500, 40_003, 300_000])
def test_the_error_of_a_long_sum_does_not_grow_with_its_length(
    run_ir: Runner, text: str, size: int
) -> None:
    nest = samples.mean_nest(size)
    inputs = [np.random.default_rng(9).uniform(0.5, 1.5, size).astype(np.float32)]
    code = generate(nest, Schedule.parse(text), "f32", 16)
    room = aligned((2 * partial_bytes(nest, "f32"),), "uint8")
    numbers = [pool_for(2).parallel, 2, room.ctypes.data]
    result = run_ir(code, "f32", inputs, (1,), numbers)
    eps = float(np.finfo(np.float32).eps)
    assert result[0] == pytest.approx(inputs[0].mean(dtype=np.float64), rel=4 * eps)
