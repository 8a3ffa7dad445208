"""How far results may be off: right kernels of every type pass, and wrong ones do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import Problem, numpy_dtype
from skipjack.execute import Checker, draw_inputs
from skipjack.execute.verification import judge
from skipjack.operations import (
    error_terms,
    get,
    magnitudes,
    names,
    outputs,
    parse,
    references,
    without_overflow,
)
from skipjack.operations.error_bounds import error_bound

Array = npt.NDArray[Any]
BOTH = pytest.mark.parametrize("threshold", [1e12, 0.0], ids=["full", "projected"])
SHAPES = {
    "matmul": "24x40x96/bias=1/act=gelu",
    "bmm": "2x9x7x96/beta=0.5",
    "batchnorm": "n4c3h9w8",
    "conv2d": "n2c8h9w8k6y3x3p1q1",
    "conv_transpose2d": "n2c8h9w8k6y3x3",
    "conv3d": "n1c4d4h5w6k6z2y3x3",
    "conv_transpose3d": "n1c4d4h5w6k6z2y3x3",
}
NARROW = [
    (name, dtype) for name in names() for dtype in ("f16", "bf16") if dtype in get(name).dtypes
]


def cut(array: Array, bits: int) -> npt.NDArray[np.float32]:
    """Numbers without the bits of their mantissa behind the first so many, towards 0."""
    mask = np.uint32(0xFFFFFFFF << (23 - bits) & 0xFFFFFFFF)
    return (array.astype(np.float32).view(np.uint32) & mask).view(np.float32)


def by_tensor_core(problem: Problem, a: Array, b: Array, step: int) -> Array:
    """A matrix product as GPUs do it in this type, at their worst."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    if problem.dtype == "tf32":
        a, b = cut(a, 10), cut(b, 10)
    a, b = a.astype(np.float32), b.astype(np.float32)
    for at in range(0, a.shape[1], step):
        total = total + a[:, at : at + step] @ b[at : at + step]
        if problem.dtype.startswith("f8"):
            total = cut(total, 13)
    return total


def run(checker: Checker) -> None:
    checker.prepare()
    arrays = checker.arrays
    arrays["out"][...] = by_tensor_core(checker.problem, arrays["a"], arrays["b"], 32)


@BOTH
@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("k", [1, 64, 2048])
def test_products_as_gpus_compute_them_pass(threshold: float, dtype: str, k: int) -> None:
    for seed in range(3):
        checker = Checker(parse(f"matmul:96x80x{k}:{dtype}"), 64, seed, threshold)
        run(checker)
        verdict = checker.verdict()
        assert verdict.right, verdict.reason
        assert 0.0 < verdict.error < 1.0 or k == 1


@BOTH
@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "f8e4m3", "f8e5m2"])
def test_a_forgotten_step_is_caught_in_every_type(threshold: float, dtype: str) -> None:
    checker = Checker(parse(f"matmul:96x80x2048:{dtype}"), full_reference_flops=threshold)
    checker.prepare()
    a, b = checker.arrays["a"], checker.arrays["b"]
    checker.arrays["out"][...] = by_tensor_core(checker.problem, a[:, 32:], b[32:], 32)
    assert not checker.verdict().right


@BOTH
@pytest.mark.parametrize("dtype", ["f16", "bf16", "tf32", "f8e4m3"])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.0, 9e3])
def test_one_wrong_element_is_caught_in_every_type(
    threshold: float, dtype: str, wrong: float
) -> None:
    checker = Checker(parse(f"matmul:64x48x256:{dtype}"), full_reference_flops=threshold)
    run(checker)
    out = checker.arrays["out"]
    largest = np.unravel_index(np.argmax(np.abs(out.astype(np.float32))), out.shape)
    out[largest] = wrong
    assert not checker.verdict().right


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_sums_in_the_narrow_type_are_caught(dtype: str) -> None:
    checker = Checker(parse(f"matmul:16x16x512:{dtype}"))
    checker.prepare()
    a, b, out = (checker.arrays[name] for name in ("a", "b", "out"))
    out[...] = 0.0
    for step in range(512):
        out[...] = out + a[:, step, None] * b[step]
    assert not checker.verdict().right


@pytest.mark.parametrize(("name", "dtype"), NARROW)
def test_a_float32_result_rounded_once_is_right(name: str, dtype: str) -> None:
    problem = parse(f"{name}:{SHAPES.get(name, '24x30')}", dtype)
    checker = Checker(problem)
    checker.prepare()
    inputs = {tensor.name: checker.arrays[tensor.name] for tensor in get(name).inputs(problem)}
    wide = {name: array.astype(np.float32) for name, array in inputs.items()}
    for output, result in references(problem, wide).items():
        assert checker.arrays[output].dtype == numpy_dtype(dtype)
        checker.arrays[output][...] = result
    verdict = checker.verdict()
    assert verdict.right, verdict.reason
    assert verdict.error <= 0.6  # rounding to nearest is half of what storing may cost
    first = checker.arrays["out"].reshape(-1)
    first[0] = first[0] * 1.125 + 0.25
    assert not checker.verdict().right


@pytest.mark.parametrize("name", names())
def test_references_do_not_break_on_float16(name: str) -> None:
    problem = parse(f"{name}:{SHAPES.get(name, '24x30')}:f16")
    inputs = draw_inputs(problem, 0)
    exact = references(problem, {name: array.astype(np.float64) for name, array in inputs.items()})
    for output, result in references(problem, inputs).items():
        np.testing.assert_allclose(result.astype(np.float64), exact[output], rtol=0.1, atol=0.1)


@pytest.mark.parametrize("key", ["sum:8x64/axis=1", "conv2d:n2c8h9w8k6y3x3", "batchnorm:n4c3h9w8"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_where_nothing_is_rounded_the_bound_is_the_magnitudes_alone(key: str, dtype: str) -> None:
    problem = parse(key, dtype)
    exact = {name: x.astype(np.float64) for name, x in draw_inputs(problem, 0).items()}
    eps = float(np.finfo(numpy_dtype(dtype)).eps)
    unit = get(problem.operation).tolerance(problem).factor * eps
    scales, results = magnitudes(problem, exact), references(problem, exact)
    for tensor in outputs(problem):
        bound = error_bound(problem, tensor, results[tensor.name], scales[tensor.name])
        np.testing.assert_array_equal(bound, scales[tensor.name] * unit)


def test_slack_is_for_computing_and_not_for_storing() -> None:
    problem = parse("sum:8x64/axis=1:f16")
    terms = error_terms(problem, outputs(problem)[0])
    one, magnitude = np.ones(1), np.full(1, 64.0)
    plain, loose = (
        terms.bound(one, magnitude, tolerance_factor)[0] for tolerance_factor in (1.0, 3.0)
    )
    assert loose - plain == pytest.approx(2 * 64 * terms.computing)
    assert terms.storing == 2.0**-10
    assert terms.least == 2.0**-24


def test_results_of_8_bit_operands_are_of_16() -> None:
    problem = parse("matmul:4x4x4/beta=1/bias=1:f8e4m3")
    assert [tensor.dtype for tensor in get("matmul").inputs(problem)] == ["", "", "f16", "f16"]
    assert draw_inputs(problem, 0)["a"].dtype == numpy_dtype("f8e4m3")
    assert draw_inputs(problem, 0)["bias"].dtype == np.float16
    assert Checker(problem).arrays["out"].dtype == np.float16
    assert error_terms(problem, outputs(problem)[0]).storing == 2.0**-10


@pytest.mark.parametrize(
    ("exact", "result", "right"),
    [
        (70000.0, np.inf, True),
        (-70000.0, -np.inf, True),
        (70000.0, -np.inf, False),
        (70000.0, 65504.0, False),
        (65519.0, np.inf, True),  # what computing loses may carry it over
        (65530.0, 65504.0, True),
        (60000.0, np.inf, False),
        (np.inf, np.inf, True),
        (np.nan, np.inf, False),
    ],
)
def test_what_is_too_large_for_a_type_is_infinite_in_it(
    exact: float, result: float, right: bool
) -> None:
    reference, found = np.array([exact]), np.array([result])
    bound = np.abs(reference) * 2.0**-10
    settled = without_overflow(found, reference, bound, np.dtype(np.float16))
    assert judge(settled, reference, bound).right == right


def test_a_long_sum_overflows_f16_and_that_is_right() -> None:
    checker = Checker(parse("sumsq:2x300000/axis=1:f16"))  # about 100000
    checker.prepare()
    checker.arrays["out"][...] = np.inf
    assert checker.verdict().right
    checker.arrays["out"][...] = 65504.0
    assert not checker.verdict().right


def test_inputs_of_narrow_types_are_those_of_f32_rounded() -> None:
    wide = draw_inputs(parse("add:100"), 5)["x"]
    for dtype in ("f16", "bf16"):
        drawn = draw_inputs(parse("add:100", dtype), 5)["x"]
        np.testing.assert_array_equal(drawn, wide.astype(numpy_dtype(dtype)))
