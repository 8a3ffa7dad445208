"""What every operation says about itself fits together."""

from __future__ import annotations

import numpy as np
import pytest

from skipjack.core import DTYPES, NestOperation, ProgramOperation
from skipjack.errors import ProblemError
from skipjack.operations import (
    Convolution,
    Elementwise,
    arrays_bytes,
    bytes_moved,
    get,
    names,
    parse,
    register,
    registry,
    tensors,
)
from skipjack.operations.reduce import REDUCTIONS
from skipjack.testing.interpreter import interpret

SHAPES = {
    "matmul": (
        "5x7x3",
        "1x1x1",
        "5x7x3/ta=1",
        "5x7x3/tb=1/beta=0.5",
        "5x7x3/alpha=-2/bias=1/act=gelu",
    ),
    "bmm": ("2x5x7x3", "2x5x7x3/ta=1/tb=1/beta=2/bias=1/act=relu"),
    **dict.fromkeys(
        (reduction.name for reduction in REDUCTIONS),
        (
            "4x5",
            "4x5/axis=0",
            "4x5x6/axis=0,2",
            "4x5x6/axis=1",
            "9",
            "4x1/axis=1",
            "4x1x6/axis=0,2",
            "1",
        ),
    ),
    "batchnorm": ("n2c3h4w5",),
    "conv2d": ("n2c3h4w5k4y3x3",),
    "conv_transpose2d": ("n2c3h4w5k4y3x3",),
    "conv3d": ("n2c3d3h4w5k4z2y3x3",),
    "conv_transpose3d": ("n2c3d3h4w5k4z2y3x3",),
}
NESTS = [name for name in names() if isinstance(get(name), NestOperation)]


def test_every_operation_is_one_nest_or_a_program_or_a_convolution() -> None:
    for name in names():
        every = (NestOperation, ProgramOperation, Convolution)
        kinds = [isinstance(get(name), kind) for kind in every]
        assert sum(kinds) == 1, name


@pytest.mark.parametrize("name", NESTS)
def test_the_nest_means_what_the_reference_computes(name: str) -> None:
    rng = np.random.default_rng(0)
    operation = get(name)
    for shape in SHAPES.get(name, ("7", "3x4x5")):
        problem = parse(f"{name}:{shape}:f64")
        inputs = [rng.uniform(*operation.domain, t.shape) for t in operation.inputs(problem)]
        named = {t.name: x for t, x in zip(operation.inputs(problem), inputs, strict=True)}
        by_nest = interpret(operation.nest(problem), inputs)
        reference = operation.reference(problem, named)
        assert reference.shape == operation.output(problem).shape
        np.testing.assert_allclose(
            by_nest.reshape(reference.shape), reference, rtol=1e-13, atol=1e-14
        )


@pytest.mark.parametrize("name", names())
def test_errors_are_scaled_by_something_positive(name: str) -> None:
    operation = get(name)
    problem = parse(f"{name}:{SHAPES.get(name, ('3x4x5',))[0]}")
    rng = np.random.default_rng(1)
    drawn = {t.name: rng.uniform(*operation.domain, t.shape) for t in operation.inputs(problem)}
    scale = operation.magnitude(problem, drawn)
    assert scale.shape == operation.output(problem).shape
    assert (scale >= np.abs(operation.reference(problem, drawn)) * (1 - 1e-12)).all()
    assert operation.tolerance(problem).factor >= 1.0


@pytest.mark.parametrize("name", names())
def test_the_example_of_an_operation_parses_in_all_its_dtypes(name: str) -> None:
    operation = get(name)
    assert set(operation.dtypes) <= set(DTYPES)
    for dtype in operation.dtypes:
        problem = parse(operation.example, dtype)
        assert problem.operation == name
        assert operation.flops(problem) > 0
    assert operation.operation_class == (
        "cube" if name.startswith(("matmul", "bmm", "conv")) else "vector"
    )


def test_traffic_counts_every_tensor_once() -> None:
    problem = parse("matmul:2x3x4:f64")
    assert [tensor.shape for tensor in tensors(problem)] == [(2, 4), (4, 3), (2, 3)]
    assert bytes_moved(problem) == (8 + 12 + 6) * 8
    assert arrays_bytes(problem) > 2 * bytes_moved(problem)


@pytest.mark.parametrize(
    ("dtype", "bytes_"), [("bf16", 26 * 2), ("tf32", 26 * 4), ("f8e5m2", (8 + 12) * 1 + 6 * 2)]
)
def test_traffic_goes_by_the_type_of_each_tensor(dtype: str, bytes_: int) -> None:
    assert bytes_moved(parse("matmul:2x3x4", dtype)) == bytes_


def test_a_projection_of_matmul_is_the_projection_of_its_reference() -> None:
    operation, problem = get("matmul"), parse("matmul:6x5x4:f64")
    rng = np.random.default_rng(2)
    drawn = {t.name: rng.uniform(-1, 1, t.shape) for t in operation.inputs(problem)}
    vector = rng.choice([-1.0, 1.0], 5)
    exact, scale = operation.project(problem, drawn, vector)  # type: ignore[attr-defined]
    full = operation.reference(problem, drawn)
    np.testing.assert_allclose(exact, full @ vector, atol=1e-13)
    assert (scale >= np.abs(exact)).all()
    (sample,) = operation.sampled(problem, drawn, rng)  # type: ignore[attr-defined]
    np.testing.assert_allclose(sample.exact, full[sample.place], atol=1e-13)


def test_an_operation_that_was_added_starts_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skipjack.operations.registry._known", {})
    with pytest.raises(ProblemError, match="unknown operation 'double'"):
        parse("double:4")
    register(Elementwise("double", np.add, 2, step="add"))
    assert names() == ["double"]
    assert parse("double:4").key == "double:4:f32"


def test_the_table_of_families_says_what_is_in_each() -> None:
    for family, listed in registry._FAMILIES.items():
        assert list(registry._of_family(family)) == listed.split()
