"""Normalisations: formulas written a second time, keys, and the programs behind them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.core import Problem, ProgramOperation
from skipjack.errors import ProblemError
from skipjack.operations import (
    bytes_moved,
    get,
    magnitudes,
    outputs,
    parse,
    references,
    tensor_dtype,
    tensors,
)
from skipjack.testing.interpreter import interpret_program

Array = npt.NDArray[Any]
ROWS = (
    *("softmax", "logsoftmax", "layernorm", "rmsnorm"),
    *("softmax_backward", "logsoftmax_backward", "layernorm_backward"),
)
KEYS = [
    *(f"{name}:{shape}:f64" for name in ROWS for shape in ("1", "7", "5x1", "3x4x5", "2x37")),
    *(f"layernorm:{shape}/mode=train:f64" for shape in ("1", "5x1", "3x4x5")),
    *(
        f"batchnorm:{shape}/mode={mode}:f64"
        for mode in ("train", "train/momentum=0.1", "infer", "backward", "infer_backward")
        for shape in ("c1", "n3c5h4w7", "n1c2h3w3", "n5c1h2w3", "n4c3")
    ),
]


def drawn(problem: Problem, seed: int = 0) -> dict[str, Array]:
    operation, rng = get(problem.operation), np.random.default_rng(seed)
    return {t.name: rng.uniform(*operation.domain, t.shape) for t in operation.inputs(problem)}


def programs(problem: Problem) -> dict[str, Any]:
    operation = get(problem.operation)
    assert isinstance(operation, ProgramOperation)
    return dict(operation.programs(problem))


def by_loops(x: Array, axes: str, formula: Callable[[Array], Array]) -> Array:
    """A formula on each row or channel by itself."""
    out = np.empty_like(x)
    if axes == "row":
        for at in np.ndindex(x.shape[:-1]):
            out[at] = formula(x[at])
    else:
        for channel in range(x.shape[1]):
            out[:, channel] = formula(x[:, channel])
    return out


@pytest.mark.parametrize("key", KEYS)
def test_every_program_means_what_the_reference_computes(key: str) -> None:
    problem = parse(key)
    inputs = drawn(problem)
    expected = references(problem, inputs)
    assert list(expected) == [tensor.name for tensor in outputs(problem)]
    for way, program in programs(problem).items():
        results = interpret_program(program, inputs)
        assert results.keys() == expected.keys()
        for name, result in results.items():
            where = f"{name} of {way}"
            np.testing.assert_allclose(result, expected[name], 1e-11, 1e-11, err_msg=where)


def test_a_softmax_is_a_distribution_that_no_shift_changes() -> None:
    problem = parse("softmax:6x9:f64")
    x = drawn(problem)["x"]
    result = get("softmax").reference(problem, {"x": x})
    np.testing.assert_allclose(result.sum(axis=-1), 1.0)
    np.testing.assert_allclose(get("softmax").reference(problem, {"x": x + 700.0}), result)
    expected = by_loops(x, "row", lambda row: np.exp(row) / sum(np.exp(row)))
    np.testing.assert_allclose(result, expected)
    logarithm = get("logsoftmax").reference(problem, {"x": x})
    np.testing.assert_allclose(logarithm, np.log(expected))


def test_layernorm_leaves_mean_and_variance_of_its_vectors() -> None:
    problem = parse("layernorm:4x5x33/eps=0.25:f64")
    inputs = drawn(problem)

    def formula(row: Array) -> Array:
        centred = row - sum(row) / 33
        return centred / (centred @ centred / 33 + 0.25) ** 0.5 * inputs["gamma"] + inputs["beta"]

    result = get("layernorm").reference(problem, inputs)
    np.testing.assert_allclose(result, by_loops(inputs["x"], "row", formula))


def test_rmsnorm_divides_by_the_root_mean_square() -> None:
    problem = parse("rmsnorm:4x33/eps=0.25:f64")
    inputs = drawn(problem)
    result = get("rmsnorm").reference(problem, inputs)
    expected = by_loops(
        inputs["x"], "row", lambda row: row * (row @ row / 33 + 0.25) ** -0.5 * inputs["gamma"]
    )
    np.testing.assert_allclose(result, expected)


@pytest.mark.parametrize("mode", ["train", "infer"])
def test_batchnorm_normalises_each_channel(mode: str) -> None:
    problem = parse(f"batchnorm:n3c4h5w2/mode={mode}/eps=0.01:f64")
    inputs = drawn(problem)
    result = get("batchnorm").reference(problem, inputs)
    for c in range(4):
        x = inputs["x"][:, c]
        mean, var = (np.mean(x), np.var(x)) if mode == "train" else (None, None)
        if mean is None:
            mean, var = inputs["mean"][c], inputs["var"][c]
        expected = (x - mean) / np.sqrt(var + 0.01) * inputs["gamma"][c] + inputs["beta"][c]
        np.testing.assert_allclose(result[:, c], expected)


def test_backward_is_the_gradient_of_training() -> None:
    """By differences of the forward pass, with the mean and deviation that it would save."""
    forward, backward = (parse(f"batchnorm:n2c3h2w2/mode={m}:f64") for m in ("train", "backward"))
    operation, inputs = get("batchnorm"), drawn(forward)
    x, eps = inputs["x"], float(forward.attribute("eps"))
    dy = np.random.default_rng(5).normal(size=x.shape)
    invstd = (x.var(axis=(0, 2, 3)) + eps) ** -0.5
    saved = {"mean": x.mean(axis=(0, 2, 3)), "invstd": invstd}
    given = {"dy": dy, "x": x, "gamma": inputs["gamma"], **saved}
    gradients = references(backward, given)
    step = 1e-6
    for name, of in (("out", "x"), ("dgamma", "gamma"), ("dbeta", "beta")):
        for at in np.ndindex(inputs[of].shape):
            moved = np.zeros_like(inputs[of])
            moved[at] = step
            high, low = (
                operation.reference(forward, {**inputs, of: inputs[of] + s * moved})
                for s in (1, -1)
            )
            slope = np.sum(dy * (high - low)) / (2 * step)
            assert gradients[name][at] == pytest.approx(slope, abs=1e-6)


def test_training_saves_what_the_gradient_needs() -> None:
    problem = parse("batchnorm:n3c4h5w2/eps=0.01:f64")
    inputs = drawn(problem)
    saved = references(problem, inputs)
    for c in range(4):
        x = inputs["x"][:, c]
        assert saved["mean"][c] == pytest.approx(x.mean())
        assert saved["invstd"][c] == pytest.approx((x.var() + 0.01) ** -0.5)


@pytest.mark.parametrize("key", KEYS)
def test_errors_are_scaled_by_at_least_the_result(key: str) -> None:
    problem = parse(key)
    inputs = drawn(problem)
    scales, results = magnitudes(problem, inputs), references(problem, inputs)
    for tensor in outputs(problem):
        scale = scales[tensor.name]
        assert scale.shape == tensor.shape
        assert (scale >= np.abs(results[tensor.name]) * (1 - 1e-12)).all()


@pytest.mark.parametrize("outlier", [None, 0, 250, 499])
def test_one_pass_keeps_to_the_tolerance_far_from_zero_and_with_outliers(
    outlier: int | None,
) -> None:
    problem = parse("layernorm:8x500:f32")
    operation = get("layernorm")
    inputs = {name: array.astype(np.float32) for name, array in drawn(problem).items()}
    inputs["x"] += np.float32(100.0)
    if outlier is not None:
        inputs["x"][:, outlier] = 1e5
    exact = {name: array.astype(np.float64) for name, array in inputs.items()}
    reference, scale = (f(problem, exact) for f in (operation.reference, operation.magnitude))
    unit = operation.tolerance(problem).factor * np.finfo(np.float32).eps
    result = interpret_program(programs(problem)["one_pass"], inputs)["out"]
    assert result.dtype == np.float32
    assert (np.abs(result - reference) <= unit * scale).all()


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("softmax:4x5", "softmax:4x5:f32"),
        ("layernorm:4x5", "layernorm:4x5/eps=1e-05:f32"),
        ("layernorm:4x5/eps=0.00001", "layernorm:4x5/eps=1e-05:f32"),
        ("layernorm:4x5/mode=infer", "layernorm:4x5/eps=1e-05:f32"),
        ("layernorm:4x5/mode=train", "layernorm:4x5/eps=1e-05/mode=train:f32"),
        ("layernorm_backward:4x5", "layernorm_backward:4x5:f32"),
        ("rmsnorm:5:f64", "rmsnorm:5/eps=1e-06:f64"),
        ("softmax_backward:4x5", "softmax_backward:4x5:f32"),
        ("batchnorm:n8c64h56w56", "batchnorm:n8c64h56w56/eps=1e-05/mode=train:f32"),
        ("batchnorm:w7c64h07", "batchnorm:n1c64h7w7/eps=1e-05/mode=train:f32"),
        (
            "batchnorm:n2c3/momentum=.10",
            "batchnorm:n2c3h1w1/eps=1e-05/mode=train/momentum=0.1:f32",
        ),
        (
            "batchnorm:n2c3/mode=infer_backward",
            "batchnorm:n2c3h1w1/eps=1e-05/mode=infer_backward:f32",
        ),
        ("batchnorm:n2c3/mode=backward", "batchnorm:n2c3h1w1/mode=backward:f32"),
    ],
)
def test_a_short_form_means_the_full_key(short: str, full: str) -> None:
    assert parse(short).key == full
    assert parse(short) == parse(full)


@settings(derandomize=True, deadline=None)
@given(
    sizes=st.permutations([(at, size) for at, size in zip("nchw", (3, 50, 7, 1), strict=True)]),
    left_out=st.sets(st.sampled_from("nhw")),
    eps=st.floats(1e-30, 1e30),
    mode=st.sampled_from(("train", "infer")),
)
def test_a_lettered_key_parses_back(
    sizes: list[tuple[str, int]], left_out: set[str], eps: float, mode: str
) -> None:
    shape = "".join(f"{at}{size}" for at, size in sizes if at not in left_out)
    problem = parse(f"batchnorm:{shape}/eps={eps}/mode={mode}")
    assert parse(problem.key) == problem
    assert parse(problem.key).key == problem.key
    assert problem.shape == tuple(
        size if at not in left_out else 1 for at, size in zip("nchw", (3, 50, 7, 1), strict=True)
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("batchnorm:8x64x56x56", "write letters with their sizes: n8c8h8w8"),
        ("batchnorm:", "not a shape"),
        ("batchnorm:n8", "no size 'c'"),
        ("batchnorm:c8c8", "twice"),
        ("batchnorm:c8k8", "unknown size 'k'"),
        ("batchnorm:c0", "at least 1"),
        ("batchnorm:c-3", "at least 1"),
        ("batchnorm:c" + "9" * 30, "larger than any memory"),
        ("batchnorm:c8/mode=test", "it must be one of train, infer, backward, infer_"),
        ("batchnorm:c8/mode=infer/momentum=0.1", "unknown attribute 'momentum'"),
        ("batchnorm:c8/momentum=0", "positive number"),
        ("batchnorm:c8/mode=backward/eps=1", "unknown attribute 'eps'"),
        ("layernorm:8/eps=0", "positive number"),
        ("layernorm:8/eps=nan", "positive number"),
        ("layernorm:8/eps=inf", "positive number"),
        ("layernorm:8/eps=small", "positive number"),
        ("layernorm:8/mode=test", "mode is 'test'; it must be infer or train"),
        ("layernorm_backward:8/eps=1", "unknown attribute 'eps'"),
        ("softmax:8/eps=1", "unknown attribute 'eps'"),
    ],
)
def test_what_cannot_be_understood_is_refused_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse(text)
    assert says in str(caught.value)
    assert len(str(caught.value)) < 400


def test_inputs_stand_in_the_order_of_a_call() -> None:
    def named(key: str) -> list[str]:
        return [tensor.name for tensor in tensors(parse(key))]

    assert named("layernorm:4x5") == ["x", "gamma", "beta", "out"]
    assert named("softmax_backward:4x5") == named("logsoftmax_backward:5") == ["dy", "y", "out"]
    assert named("layernorm:4x5/mode=train") == ["x", "gamma", "beta", "out", "mean", "invstd"]
    backward = ["dy", "x", "gamma", "mean", "invstd", "out", "dgamma", "dbeta"]
    assert named("layernorm_backward:4x5") == backward
    assert named("batchnorm:c5/mode=infer") == ["x", "gamma", "beta", "mean", "var", "out"]
    assert named("batchnorm:c5") == ["x", "gamma", "beta", "out", "mean", "invstd"]
    assert named("batchnorm:c5/momentum=0.1") == [
        *("x", "gamma", "beta", "running_mean", "running_var"),
        *("out", "mean", "invstd", "next_mean", "next_var"),
    ]
    assert named("batchnorm:c5/mode=backward") == backward
    for key in KEYS:
        problem = parse(key)
        for program in programs(problem).values():
            assert program.arrays == tuple(tensor.name for tensor in tensors(problem))


def test_statistics_of_16_bit_rows_are_in_float32() -> None:
    problem = parse("layernorm:2x3x5/mode=train:bf16")
    kinds = {one.name: (one.shape, tensor_dtype(problem, one)) for one in outputs(problem)}
    assert kinds["mean"] == kinds["invstd"] == ((2, 3), "f32")
    assert kinds["out"] == ((2, 3, 5), "bf16")


def test_traffic_is_every_array_once() -> None:
    assert bytes_moved(parse("layernorm:4x5")) == (20 + 5 + 5 + 20) * 4
    assert bytes_moved(parse("batchnorm:n2c3h2w2/mode=backward")) == (24 * 3 + 3 * 3 + 2 * 3) * 4
