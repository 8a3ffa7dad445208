"""Generated code for operands of different shapes is right under many schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from skipjack.core import NestOperation, numpy_dtype, parse_shape
from skipjack.native.pool import pool_for
from skipjack.operations import get, parse
from skipjack.solvers.cpu.nest import Schedule, ScheduleSpace
from skipjack.solvers.cpu.nest_code.kernel import generate

Runner = Callable[..., npt.NDArray[Any]]
PATTERNS = (
    ("3x4x5x7", "4x1x1"),
    ("3x37", "3x1"),
    ("5x1x19", "3x1"),
    ("19x1", "21"),
    ("3x5x7", "7"),
    ("70x3", "3"),
    ("70x7", "1x7"),
    ("4x33", "1"),
    ("1", "4x9"),
    ("1", "1"),
    ("2x1x3x1x5", "4x1x6x1"),
)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["sub", "div"])
@pytest.mark.parametrize(("first", "second"), PATTERNS)
def test_a_pattern_is_right_under_promising_and_random_schedules(
    run_ir: Runner, first: str, second: str, name: str, dtype: str
) -> None:
    rng = np.random.default_rng(5)
    operation = get(name)
    assert isinstance(operation, NestOperation)
    nest = operation.nest(parse(f"{name}:{first}/y={second}:{dtype}"))
    x, y = (
        rng.uniform(0.5, 1.5, parse_shape(shape, "")).astype(numpy_dtype(dtype))
        for shape in (first, second)
    )
    expected = np.subtract(x, y) if name == "sub" else np.divide(x, y)
    threads = [pool_for(2).parallel, 2]
    for lanes in (4, 16):
        space = ScheduleSpace(nest, lanes, max_unrolled=64, threads=2)
        configs = [space.default(), *space.promising(3), *(space.sample(rng) for _ in range(3))]
        for config in configs:
            text = generate(nest, Schedule.parse(str(config["schedule"])), dtype, lanes)
            result = run_ir(text, dtype, [x, y], nest.output.tensor.shape, threads)
            np.testing.assert_array_equal(result.reshape(expected.shape), expected, str(config))


def test_an_operand_that_stands_still_is_loaded_once_for_a_vector() -> None:
    operation = get("sub")
    assert isinstance(operation, NestOperation)
    nest = operation.nest(parse("sub:64x256/y=64x1"))
    text = generate(nest, Schedule.parse("i j:64 j/v"), "f32", 16)
    assert text.count("load float,") == 1
    assert text.count("load <16 x float>") == 4
