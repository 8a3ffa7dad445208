"""Code for row programs is right on every shape and under every setting."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cpus import HASWELL, SKYLAKE_AVX512, skip_unless_it_runs_here
from skipjack.core import Problem, ProgramOperation, RowProgram
from skipjack.execute import Checker, draw_inputs
from skipjack.native import (
    ITEM_BYTES,
    Slots,
    detect,
    llvm,
    parallel_slot,
    target_of,
    workspace_slot,
)
from skipjack.operations import get, parse, references
from skipjack.solvers.cpu.rows.kernel import generate, scratch_bytes
from skipjack.solvers.cpu.rows.plan import RowsPlan, fitted

Array = npt.NDArray[Any]
Runner = Callable[..., Array]
NORMALIZATIONS = ("softmax", "logsoftmax", "layernorm", "rmsnorm")
KEYS = [
    *(
        f"{name}:{shape}"
        for name in NORMALIZATIONS
        for shape in ("1x1", "1x2", "3x7", "5x16", "2x17", "7x61", "4x64", "3x257", "2x3x131")
    ),
    *(
        f"{name}:{shape}"
        for name in ("softmax_backward", "logsoftmax_backward", "layernorm_backward")
        for shape in ("1x1", "3x7", "7x61", "4x64", "2x3x131")
    ),
    *(f"layernorm:{shape}/mode=train" for shape in ("1x1", "5x7", "7x61", "2x3x131")),
    *(
        f"batchnorm:{shape}/mode={mode}"
        for mode in ("train/momentum=0.1", "infer_backward")
        for shape in ("c3", "n5c1h3w11", "n2c3h13w17")
    ),
    *(
        f"batchnorm:{shape}/mode={mode}"
        for mode in ("train", "infer", "backward")
        for shape in ("c3", "n7c3", "n1c1h7w7", "n3c5h7w7", "n2c4h8w8", "n5c1h3w11", "n2c3h13w17")
    ),
]


def ways(problem: Problem) -> dict[str, RowProgram]:
    operation = get(problem.operation)
    assert isinstance(operation, ProgramOperation)
    return dict(operation.programs(problem))


def drawn_plan(program: RowProgram, dtype: str, rng: np.random.Generator) -> RowsPlan:
    lanes = int(rng.choice((16, 32, detect().vector_bytes))) // ITEM_BYTES[dtype]
    copies, rows = int(rng.choice((1, 2, 3, 4, 8))), int(rng.choice((1, 2, 3, 4)))
    keep = str(rng.choice(("again", "output", "scratch")))
    streaming, ahead = (bool(rng.random() < 0.5) for _ in range(2))
    block, aligned = int(rng.choice((0, 1, 2, 3, 100))), bool(rng.random() < 0.5)
    chunk = int(rng.choice((0, 1, 2, 5)))
    plan = RowsPlan(lanes, copies, rows, keep, streaming, False, ahead, block, aligned, chunk)
    return fitted(plan, program)


LOADER = llvm.Loader()


def run(checker: Checker, program: RowProgram, plan: RowsPlan, target: str = "") -> None:
    """Every output for random inputs, on arrays that end at a guard page."""
    dtype = checker.problem.dtype
    text = generate(program, plan, dtype)
    address = LOADER.load(llvm.compile_object(text, target or target_of(detect())), "kernel")
    slots: list[str | int] = [*program.arrays]
    if size := scratch_bytes(program, plan, dtype):
        slots.append(workspace_slot(size * max(1, plan.pieces)))
    if plan.pieces:
        slots += [parallel_slot(plan.pieces), plan.pieces]
    checker.prepare()
    placed = Slots(slots, checker.arrays)
    llvm.c_function(address, ctypes.c_void_p)(placed.address)
    LOADER.unload(address)
    verdict = checker.verdict()
    assert verdict.right, f"{checker.problem.key} {plan}: {verdict.reason}"


def unaligned(key: str) -> Checker:
    """Arrays of a problem that start anywhere."""
    problem = parse(key)
    return Checker(problem, alignment=ITEM_BYTES[problem.dtype], seed=3)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("key", KEYS)
def test_any_plan_is_right_on_any_shape(key: str, dtype: str) -> None:
    checker = unaligned(f"{key}:{dtype}")
    rng = np.random.default_rng(len(key))
    for program in ways(checker.problem).values():
        for _ in range(3):
            run(checker, program, drawn_plan(program, dtype, rng))


@pytest.mark.parametrize("threads", [2, 3])
@pytest.mark.parametrize(
    "key",
    [
        *("softmax:1x64", "softmax:3x131", "logsoftmax:2x257", "layernorm:2x100:f64"),
        *("softmax_backward:3x131", "logsoftmax_backward:2x257"),
        *(
            f"batchnorm:{shape}/mode={mode}"
            for mode in ("train", "infer", "backward")
            for shape in ("n5c1h7w7", "n7c2h3w5", "n1c2h9w11")
        ),
    ],
)
def test_pieces_of_a_row_come_together(key: str, threads: int) -> None:
    checker = unaligned(key)
    for program in ways(checker.problem).values():
        for keep, streaming in (("again", True), ("output", False)):
            for aligned in (False, True):
                plan = RowsPlan(16, 2, 1, keep, streaming, True, aligned=aligned, pieces=threads)
                plan = fitted(plan, program)
                assert plan.pieces == threads
                run(checker, program, plan)


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("keep", ["again", "output", "scratch"])
def test_rows_that_are_left_over_are_computed(rows: int, copies: int, keep: str) -> None:
    for shape in ("5x40", "7x19", "4x64"):
        checker = unaligned(f"softmax:{shape}")
        run(checker, ways(checker.problem)["plain"], RowsPlan(16, copies, rows, keep))


@pytest.mark.parametrize("keep", ["again", "output", "scratch"])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("name", ["softmax", "logsoftmax"])
def test_rows_are_read_in_chunks_of_any_length(name: str, aligned: bool, keep: str) -> None:
    for shape in ("3x64", "4x131", "2x999"):
        checker = unaligned(f"{name}:{shape}")
        program = ways(checker.problem)["plain"]
        for chunk in (1, 2, 7, 100):
            for copies, streaming in ((1, False), (4, True)):
                plan = RowsPlan(16, copies, 1, keep, streaming, aligned=aligned, chunk=chunk)
                run(checker, program, fitted(plan, program))


@pytest.mark.parametrize("block", [1, 3, 4, 5, 8])
@pytest.mark.parametrize("mode", ["train", "infer", "backward"])
def test_groups_that_are_left_over_of_a_block_are_computed(block: int, mode: str) -> None:
    checker = unaligned(f"batchnorm:n3c5h3w7/mode={mode}")
    for program in ways(checker.problem).values():
        run(checker, program, fitted(RowsPlan(16, 2, block=block), program))


def test_what_is_kept_is_not_computed_again() -> None:
    program = ways(parse("softmax:4x64"))["plain"]
    kept, anew = (generate(program, RowsPlan(16, keep=keep), "f32") for keep in ("output", "again"))
    assert 0 < kept.count("fmuladd") < anew.count("fmuladd")


@pytest.mark.parametrize("offset", [0, 4, 16])
def test_streaming_takes_outputs_that_are_not_aligned(run_ir: Runner, offset: int) -> None:
    problem = parse("layernorm:4x64")
    program = ways(problem)["two_pass"]
    inputs = draw_inputs(problem, 1)
    text = generate(program, RowsPlan(16, 2, 1, streaming=True), "f32")
    assert "nontemporal" in text
    room = np.zeros(4 * 64 + 64, np.float32)
    start = (-room.ctypes.data % 64 + offset) // 4
    out = room[start : start + 256].reshape(4, 64)
    loader = llvm.Loader()
    address = loader.load(llvm.compile_object(text, target_of(detect())), "kernel")
    pointers = [array.ctypes.data for array in (*inputs.values(), out)]
    llvm.c_function(address, ctypes.c_void_p)((ctypes.c_int64 * 4)(*pointers))
    expected = get("layernorm").reference(problem, inputs)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("way", ["one_pass", "two_pass"])
@pytest.mark.parametrize("block", [0, 2])
def test_running_statistics_may_be_moved_where_they_are(way: str, block: int) -> None:
    problem = parse("batchnorm:n3c5h7w7/momentum=0.1")
    program = ways(problem)[way]
    inputs = draw_inputs(problem, 1)
    expected = references(problem, inputs)
    plan = fitted(RowsPlan(16, 2, block=block), program)
    arrays = {**inputs, "next_mean": inputs["running_mean"], "next_var": inputs["running_var"]}
    arrays |= {name: np.empty_like(expected[name]) for name in ("out", "mean", "invstd")}
    text, scratch = generate(program, plan, "f32"), np.empty(1 << 12, np.float32)
    loader = llvm.Loader()
    address = loader.load(llvm.compile_object(text, target_of(detect())), "kernel")
    pointers = [arrays[name].ctypes.data for name in program.arrays] + [scratch.ctypes.data]
    llvm.c_function(address, ctypes.c_void_p)((ctypes.c_int64 * len(pointers))(*pointers))
    for name, values in expected.items():
        np.testing.assert_allclose(arrays[name], values, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("pieces", [0, 2])
@pytest.mark.parametrize(("aligned", "narrow"), [(False, True), (True, False)])
def test_outputs_on_16_bytes_are_streamed_in_pieces(
    pieces: int, aligned: bool, narrow: bool
) -> None:
    # Unaligned rows start at whole vectors, so that no partial vectors are streamed.
    program = ways(parse("softmax:1x1030" if aligned else "softmax:1x1024"))["plain"]
    wanted = RowsPlan(16, streaming=True, parallel=bool(pieces), aligned=aligned, pieces=pieces)
    plan = fitted(wanted, program)
    assert (plan.streaming, plan.aligned, plan.pieces) == (True, aligned, pieces)
    text = generate(program, plan, "f32")
    listing = llvm.assembly(text, target_of(SKYLAKE_AVX512))
    assert re.search(r"vmovntps\s+%zmm", listing)
    assert bool(re.search(r"vmovntps\s+%xmm", listing)) == narrow
    assert text.count("fence seq_cst") == 1 + narrow


def test_streaming_is_left_out_where_rows_are_not_aligned() -> None:
    program = ways(parse("softmax:4x60"))["plain"]
    assert not fitted(RowsPlan(16, streaming=True), program).streaming
    assert fitted(RowsPlan(4, streaming=True), program).streaming


SPECIAL = np.array(
    [
        [0.0, np.nan, 1.0],
        [np.nan, np.nan, np.nan],
        [np.inf, 0.0, 1.0],
        [-np.inf, 0.0, 1.0],
        [-np.inf, -np.inf, -np.inf],
        [np.inf, -np.inf, 0.0],
        [-0.0, 0.0, -0.0],
        [3e38, -3e38, 3e38],
    ],
    np.float32,
)


@pytest.mark.parametrize("name", NORMALIZATIONS)
@pytest.mark.parametrize("width", [3, 20, 40])
def test_rows_with_nan_and_infinities_are_as_numpy_has_them(
    run_ir: Runner, name: str, width: int
) -> None:
    # Whether the sum of the last row overflows depends on the order of the additions.
    special = SPECIAL if "softmax" in name else SPECIAL[:-1]
    x = np.zeros((len(special), width), np.float32)
    x[:, -3:] = special
    problem = parse(f"{name}:{len(x)}x{width}")
    inputs = {**draw_inputs(problem, 1), "x": x}
    with np.errstate(all="ignore"):
        expected = get(name).reference(problem, inputs)
    for way, program in ways(problem).items():
        for chunk in (0, 1):
            plan = fitted(RowsPlan(16, 2, 2, keep="output", chunk=chunk), program)
            text, scratch = generate(program, plan, "f32"), np.empty(1 << 12, np.float32)
            result = run_ir(text, "f32", list(inputs.values()), x.shape, [scratch.ctypes.data])
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6, err_msg=way)


@pytest.mark.parametrize("key", ["softmax:5x37", "layernorm:5x37", "batchnorm:n3c2h5w5"])
def test_code_for_avx2_runs_right(key: str) -> None:
    skip_unless_it_runs_here(HASWELL)
    checker = unaligned(key)
    for program in ways(checker.problem).values():
        for block in (0, 2):
            plan = fitted(RowsPlan(8, 2, 2, keep="output", block=block), program)
            run(checker, program, plan, target_of(HASWELL))
