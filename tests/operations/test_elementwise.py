"""Elementwise functions: what is counted, what NumPy computes, and how errors are judged."""

from __future__ import annotations

import math

import numpy as np
import pytest

from skipjack.core import Problem, numpy_dtype
from skipjack.errors import ProblemError
from skipjack.execute import draw_inputs
from skipjack.execute.verification import Verdict, judge
from skipjack.operations import ELEMENTWISE, get, parse, tensors
from skipjack.operations.activation_gradients import ACTIVATION_GRADIENTS, ActivationGradient
from skipjack.operations.error_function import erf

FUNCTIONS = ("exp", "log", "tanh", "erf", "rsqrt", "sigmoid", "silu", "gelu", "gelu_tanh")
SLOPES = tuple(operation.name for operation in ACTIVATION_GRADIENTS)


def test_erf_in_double_is_pythons() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), np.geomspace(1e-300, 1, 1000)])
    exact = np.array([math.erf(value) for value in x])
    np.testing.assert_allclose(erf(x), exact, rtol=2e-15, atol=0)


def test_erf_in_single_stays_in_single() -> None:
    x = np.linspace(-5, 5, 4001, dtype=np.float32)
    exact = np.array([math.erf(float(value)) for value in x])
    result = erf(x)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, exact, rtol=1.5e-6, atol=0)


def test_erf_of_special_values() -> None:
    result = erf(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]))
    np.testing.assert_array_equal(result, [np.nan, 1.0, -1.0, 0.0, -0.0])
    assert np.signbit(result[4])


@pytest.mark.parametrize(
    ("name", "at_one"),
    [
        ("exp", math.e),
        ("tanh", math.tanh(1.0)),
        ("erf", math.erf(1.0)),
        ("sigmoid", 1 / (1 + math.exp(-1.0))),
        ("silu", 1 / (1 + math.exp(-1.0))),
        ("gelu", 0.5 * (1 + math.erf(math.sqrt(0.5)))),
        ("gelu_tanh", 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715))),
        ("rsqrt", 1.0),
        ("log", 0.0),
    ],
)
def test_a_function_at_one(name: str, at_one: float) -> None:
    problem = parse(f"{name}:1:f64")
    result = get(name).reference(problem, {"x": np.array([1.0])})
    np.testing.assert_allclose(result, [at_one], rtol=1e-15, atol=1e-16)


def test_steps_of_the_formula_are_counted() -> None:
    counted = {name: get(name).flops(parse(f"{name}:10x10")) // 100 for name in FUNCTIONS}
    assert counted["exp"] == counted["log"] == counted["tanh"] == counted["erf"] == 1
    assert counted["rsqrt"] == 2
    assert counted["sigmoid"] == counted["silu"] == 4
    assert (counted["gelu"], counted["gelu_tanh"]) == (5, 9)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS + SLOPES)
def test_numpy_in_the_problems_own_precision_is_right(name: str, dtype: str) -> None:
    problem = parse(f"{name}:100000:{dtype}")
    verdict = _judge_numpy(problem, nudge_eps=0.0)
    assert verdict.right, verdict.reason


@pytest.mark.parametrize("name", FUNCTIONS + SLOPES)
def test_an_error_of_a_hundred_eps_is_noticed(name: str) -> None:
    assert not _judge_numpy(parse(f"{name}:1000"), nudge_eps=100.0).right


def _judge_numpy(problem: Problem, nudge_eps: float) -> Verdict:
    operation = get(problem.operation)
    drawn = draw_inputs(problem, 0)
    exact = {name: array.astype(np.float64) for name, array in drawn.items()}
    eps = float(np.finfo(numpy_dtype(problem.dtype)).eps)
    result = operation.reference(problem, drawn).astype(np.float64) * (1 + nudge_eps * eps)
    bound = operation.magnitude(problem, exact) * operation.tolerance(problem).factor * eps
    return judge(result, operation.reference(problem, exact), bound)


def test_a_small_result_of_exp_is_judged_by_its_own_size() -> None:
    operation, problem = get("exp"), parse("exp:1:f64")
    assert operation.magnitude(problem, {"x": np.array([-10.0])})[0] == np.exp(-10.0)


def test_random_inputs_lie_where_functions_are_finite_and_not_flat() -> None:
    for operation in (*ELEMENTWISE, *ACTIVATION_GRADIENTS):
        low, high = operation.domain
        inside = np.linspace(low, high, 103)[1:-1]
        result = operation.function(*[inside] * operation.operands)
        assert np.isfinite(result).all(), operation.name


@pytest.mark.parametrize("operation", ACTIVATION_GRADIENTS, ids=lambda operation: operation.name)
def test_a_gradient_is_the_slope_by_differences(operation: ActivationGradient) -> None:
    forward = get(operation.name.removesuffix("_backward"))
    problem, step = parse(f"{forward.name}:64:f64"), 1e-6
    x = np.linspace(-3, 3, 64)
    dy = np.random.default_rng(1).normal(size=64)
    high, low = (forward.reference(problem, {"x": x + s}) for s in (step, -step))
    result = forward.reference(problem, {"x": x}) if operation.second == "y" else x
    given = {"dy": dy, operation.second: result}
    gradient = operation.reference(parse(f"{operation.name}:64:f64"), given)
    np.testing.assert_allclose(gradient, dy * (high - low) / (2 * step), rtol=1e-7, atol=1e-8)


def test_a_gradient_has_two_arrays_of_one_shape_and_no_attributes() -> None:
    names = {key: [one.name for one in tensors(parse(f"{key}:4x5"))] for key in SLOPES}
    assert names["relu_backward"] == names["tanh_backward"] == ["dy", "y", "out"]
    assert names["gelu_backward"] == names["silu_backward"] == ["dy", "x", "out"]
    assert parse("gelu_backward:4x5").key == "gelu_backward:4x5:f32"
    with pytest.raises(ProblemError, match="unknown attribute 'y'"):
        parse("gelu_backward:4x5/y=5")


def test_no_gradient_passes_where_relu_is_flat() -> None:
    given = {"dy": np.array([np.inf, np.nan, 2.0, 3.0]), "y": np.array([0.0, -0.0, 1.0, np.nan])}
    result = get("relu_backward").reference(parse("relu_backward:4:f64"), given)
    np.testing.assert_array_equal(result, [0.0, 0.0, 2.0, 3.0])
