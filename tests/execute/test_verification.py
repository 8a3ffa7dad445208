"""Verification: right results in any order of summation pass, and wrong results do not."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import numpy_dtype
from skipjack.execute import Checker, draw_inputs
from skipjack.execute.verification import Verdict, judge
from skipjack.operations import parse
from skipjack.solvers.vendor.cpu import NumpySolver

Array = npt.NDArray[Any]
Write = Callable[[Array], object]
BOTH = pytest.mark.parametrize("threshold", [1e12, 0.0], ids=["full", "projected"])


def verdict_of(checker: Checker, write: Write | None = None) -> Verdict:
    """What is said about a right result after `write` has had its way with it."""
    checker.prepare()
    arrays = checker.arrays
    np.matmul(arrays["a"], arrays["b"], out=arrays["out"])
    if write:
        write(arrays["out"])
    return checker.verdict()


@pytest.fixture(params=[1e12, 0.0], ids=["full", "projected"], scope="module")
def checker(request: pytest.FixtureRequest) -> Checker:
    """Of one matmul, by the whole reference or by projections."""
    return Checker(parse("matmul:96x80x200"), full_reference_flops=request.param)


def test_a_right_result_passes(checker: Checker) -> None:
    verdict = verdict_of(checker)
    assert verdict.right
    assert 0 < verdict.error < 1


@pytest.mark.parametrize("seed", range(8))
def test_one_wrong_element_anywhere_is_caught(checker: Checker, seed: int) -> None:
    rng = np.random.default_rng(seed)
    row, column = (int(rng.integers(size)) for size in (96, 80))

    def spoil(out: Array) -> None:
        out[row, column] += 0.02  # elements are about 5

    assert not verdict_of(checker, spoil).right


@pytest.mark.parametrize("row", [0, 1, 50, 94, 95])
def test_one_element_left_unwritten_is_caught(checker: Checker, row: int) -> None:
    def forget(out: Array) -> None:
        out[row, -1] = np.nan

    verdict = verdict_of(checker, forget)
    assert not verdict.right
    assert "wrong" in verdict.reason


def test_swapped_rows_are_caught(checker: Checker) -> None:
    def swap(out: Array) -> None:
        out[[40, 41]] = out[[41, 40]]

    assert not verdict_of(checker, swap).right


def test_a_skipped_step_of_k_is_caught(checker: Checker) -> None:
    a, b = checker.arrays["a"], checker.arrays["b"]

    def skip(out: Array) -> None:
        out -= np.outer(a[:, 77], b[77])

    assert not verdict_of(checker, skip).right


def test_a_zeroed_column_is_caught(checker: Checker) -> None:
    def clear(out: Array) -> None:
        out[:, 33] = 0.0

    assert not verdict_of(checker, clear).right


def test_a_kernel_that_changes_its_input_is_caught_and_the_next_one_is_not_blamed(
    checker: Checker,
) -> None:
    def change(_: Array) -> None:
        checker.arrays["b"][0, 0] += 1.0

    verdict = verdict_of(checker, change)
    assert "changed its input b" in verdict.reason
    assert verdict_of(checker).right


@pytest.mark.parametrize("element", [-1, 15], ids=["in front", "behind"])
def test_a_write_around_the_output_is_caught_and_the_next_one_is_not_blamed(element: int) -> None:
    # 3 x 5 floats leave 4 bytes between the end and a multiple of 64.
    checker = Checker(parse("matmul:3x5x4"))
    out = checker.arrays["out"]

    def stray(_: Array) -> None:
        ctypes.memset(out.ctypes.data + 4 * element, 1, 4)

    assert "wrote outside of out" in verdict_of(checker, stray).reason
    assert verdict_of(checker).right


@BOTH
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("k", [1, 37, 512, 4096])
def test_any_order_of_summation_passes(threshold: float, dtype: str, k: int) -> None:
    problem = parse(f"matmul:24x40x{k}:{dtype}")
    for seed in range(3):
        checker = Checker(problem, seed=seed, full_reference_flops=threshold)
        a, b = checker.arrays["a"], checker.arrays["b"]
        order = np.random.default_rng(seed).permutation(k)
        checker.prepare()
        total = np.zeros((24, 40), numpy_dtype(dtype))
        for step in order:  # one running sum: the worst order for rounding
            total += a[:, step, None] * b[step]
        checker.arrays["out"][...] = total
        verdict = checker.verdict()
        assert verdict.right, verdict.reason
        assert verdict.error < 0.5


@pytest.mark.parametrize("key", ["add:33x7", "sum:40x50/axis=1:f64", "max:40x50", "scale:9x11"])
def test_vector_operations_are_checked_whole(key: str) -> None:
    problem = parse(key)
    checker = Checker(problem, full_reference_flops=0.0)
    checker.prepare()
    assert not checker.verdict().right
    NumpySolver().bind(problem, checker.arrays)()
    assert checker.verdict().right
    out = checker.arrays["out"].reshape(-1)
    out[-1] += 0.01
    assert not checker.verdict().right


@pytest.mark.parametrize("wrong", ["out", "dgamma", "dbeta"])
def test_of_several_outputs_the_wrong_one_is_named(wrong: str) -> None:
    problem = parse("batchnorm:n2c3h4w5/mode=backward")
    checker = Checker(problem)
    compute = NumpySolver().bind(problem, checker.arrays)
    checker.prepare()
    assert not checker.verdict().right
    compute()
    verdict = checker.verdict()
    assert verdict.right
    assert 0 < verdict.error < 1
    checker.arrays[wrong].reshape(-1)[-1] += 1.0
    assert checker.verdict().reason.startswith(f"{wrong}: 1 of ")


def test_further_outputs_are_poisoned_and_guarded() -> None:
    checker = Checker(parse("batchnorm:n2c3h4w5"))
    compute = NumpySolver().bind(checker.problem, checker.arrays)
    compute()
    checker.prepare()
    assert all(np.isnan(checker.arrays[name]).all() for name in ("out", "mean", "invstd"))
    compute()
    ctypes.memset(checker.arrays["invstd"].ctypes.data + 3 * 4, 1, 4)
    verdict = checker.verdict()
    assert verdict.reason == "wrote outside of invstd"
    assert verdict.stray


def test_inputs_repeat_with_the_seed_and_lie_in_the_domain() -> None:
    problem = parse("sqrt:100")
    first, again, other = (draw_inputs(problem, seed)["x"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert first.dtype == np.float32
    assert 0.0 <= first.min() <= first.max() <= 1.0


def test_nan_and_infinity_agree_with_themselves_alone() -> None:
    special = np.array([np.nan, np.inf, -np.inf])
    bound = np.ones(3)
    assert judge(special, special, bound).right
    assert not judge(special, -special, bound).right
    assert not judge(np.zeros(3), special, bound).right
    assert not judge(special, np.zeros(3), bound).right


def test_the_reason_names_the_first_wrong_element() -> None:
    result, reference = np.zeros((2, 3)), np.zeros((2, 3))
    result[1, 2] = 5.0
    verdict = judge(result, reference, np.full((2, 3), 0.1))
    assert "1 of 6" in verdict.reason
    assert "[1,2]" in verdict.reason
    assert verdict.error == pytest.approx(50.0)
