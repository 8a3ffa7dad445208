"""Code for row programs is right on every shape and under every setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core.device import Device
from skipjack.core.operation import ProgramOperation
from skipjack.core.problem import DTYPES, Problem
from skipjack.core.program import RowProgram
from skipjack.execute.verification import draw_inputs, judge
from skipjack.native import llvm
from skipjack.native.cpu import detect, target_of
from skipjack.native.ir import ITEM_BYTES
from skipjack.operations import get, parse
from skipjack.solvers.loops.rows_code import generate
from skipjack.solvers.loops.rows_plan import RowsPlan, fitted

Array = npt.NDArray[Any]
Runner = Callable[..., Array]
HASWELL = Device("cpu", "haswell", 1, vector_bytes=32)
KEYS = [
    *(
        f"{name}:{shape}"
        for name in ("softmax", "logsoftmax", "layernorm", "rmsnorm")
        for shape in ("1x1", "1x2", "3x7", "5x16", "2x17", "7x61", "4x64", "3x257", "2x3x131")
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
    keep = bool(rng.random() < 0.5)
    return fitted(RowsPlan(lanes, copies, rows, keep, streaming=not keep), program)


def run(run_ir: Runner, problem: Problem, program: RowProgram, plan: RowsPlan) -> Array:
    """The output for random inputs, checked by the operation's own tolerance."""
    operation, inputs = get(problem.operation), draw_inputs(problem, 3)
    text = generate(program, plan, problem.dtype)
    result = run_ir(text, problem.dtype, list(inputs.values()), operation.output(problem).shape)
    exact = {name: array.astype(np.float64) for name, array in inputs.items()}
    unit = operation.tolerance(problem).factor * float(np.finfo(DTYPES[problem.dtype]).eps)
    bound = operation.magnitude(problem, exact) * unit
    verdict = judge(result.astype(np.float64), operation.reference(problem, exact), bound)
    assert verdict.right, f"{problem.key} {plan}: {verdict.reason}"
    return result


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("key", KEYS)
def test_any_plan_is_right_on_any_shape(run_ir: Runner, key: str, dtype: str) -> None:
    problem = parse(f"{key}:{dtype}")
    rng = np.random.default_rng(len(key))
    for program in ways(problem).values():
        for _ in range(2):
            run(run_ir, problem, program, drawn_plan(program, dtype, rng))


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("copies", [1, 4])
@pytest.mark.parametrize("keep", [False, True])
def test_rows_that_are_left_over_are_computed(
    run_ir: Runner, rows: int, copies: int, keep: bool
) -> None:
    for shape in ("5x40", "7x19", "4x64"):
        problem = parse(f"softmax:{shape}")
        run(run_ir, problem, ways(problem)["plain"], RowsPlan(16, copies, rows, keep))


def test_what_is_kept_is_not_computed_again() -> None:
    program = ways(parse("softmax:4x64"))["plain"]
    kept, anew = (generate(program, RowsPlan(16, keep=keep), "f32") for keep in (True, False))
    assert 0 < kept.count("fmuladd") < anew.count("fmuladd")


@pytest.mark.parametrize("offset", [0, 4])
def test_streaming_takes_outputs_that_are_not_aligned(run_ir: Runner, offset: int) -> None:
    import ctypes

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
    llvm.native(address, ctypes.c_void_p)((ctypes.c_int64 * 4)(*pointers))
    expected = get("layernorm").reference(problem, inputs)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)


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


@pytest.mark.parametrize("name", ["softmax", "logsoftmax", "layernorm", "rmsnorm"])
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
        text = generate(program, fitted(RowsPlan(16, 2, 2, keep=True), program), "f32")
        result = run_ir(text, "f32", list(inputs.values()), x.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6, err_msg=way)


@pytest.mark.parametrize("key", ["softmax:5x37", "layernorm:5x37", "batchnorm:n3c2h5w5"])
def test_code_for_avx2_runs_right(run_ir: Runner, key: str) -> None:
    if not {"avx2", "fma"} <= set(detect().features):
        pytest.skip("this CPU has no AVX2")

    def for_haswell(*arguments: Any) -> Array:
        return run_ir(*arguments, target=target_of(HASWELL))

    problem = parse(key)
    for program in ways(problem).values():
        run(for_haswell, problem, program, fitted(RowsPlan(8, 2, 2, keep=True), program))
