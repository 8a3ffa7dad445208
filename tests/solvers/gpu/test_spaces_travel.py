"""Builders and evaluators must mean the same space, under whatever version of Python they run."""

import pytest

from skipjack.core import ParameterSpace
from skipjack.core.constraints import CallableConstraint
from skipjack.devices import describe
from skipjack.operations import parse
from skipjack.solvers import building_solvers

PROBLEMS = (
    "matmul:512x512x512:f16",
    "bmm:4x64x64x64:bf16",
    "gelu:64x64:f16",
    "add:64x64/y=1x64:f16",
    "sum:64x64/axis=0:f32",
    "softmax:64x1024:f16",
    "batchnorm:n8c64h56w56:f16",
    "conv2d:n8c64h28w28k64y3x3p1q1:f16:NHWC:fwd",
    "conv2d:n8c64h28w28k64y3x3p1q1:f16:NCHW:wrw",
    "conv2d:n8c3h28w28k64y7x7p3q3u2v2:f16:NHWC:fwd",
    "conv2d:n8c64h28w28k64y3x3p1q1g64:f16:NHWC:fwd",
)


@pytest.mark.parametrize("key", PROBLEMS)
def test_constraints_have_names(key: str) -> None:
    """The text of a lambda is not told apart without its byte code, which differs by version."""
    device = describe("sm_90/132")
    for solver in building_solvers(parse(key), device):
        space = solver.space(parse(key), device)
        assert isinstance(space, ParameterSpace)
        for constraint in space.constraints:
            assert not isinstance(constraint, CallableConstraint) or "lambda" not in constraint.text
