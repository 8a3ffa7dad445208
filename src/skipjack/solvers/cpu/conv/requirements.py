"""Which convolutions a solver accepts, as data: requirements with the text that a refusal gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.core import Device, Problem
from skipjack.operations import Convolution, Geometry, get


@dataclass(frozen=True, slots=True)
class Requirement:
    """A condition that a convolution must satisfy."""

    needs: str
    """The end of a sentence that starts with "it needs"."""
    holds: Callable[[Geometry], bool]


ONE_BY_ONE = Requirement("a 1x1 filter without padding", lambda g: g.pointwise and _unpadded(g))
THREE_BY_THREE = Requirement(
    "a 3x3 filter in two dimensions",
    lambda g: [axis.filter for axis in g.axes] == [1, 3, 3] and g.axes[0].trivial,
)
STRIDE_ONE = Requirement("strides of 1", lambda g: all(axis.stride == 1 for axis in g.axes))
UNDILATED = Requirement(
    "dilations of 1", lambda g: all(axis.dilation == 1 or axis.filter == 1 for axis in g.axes)
)
DEPTHWISE = Requirement("one channel in each group", lambda g: g.depthwise)
NOT_DEPTHWISE = Requirement("several channels in each group", lambda g: not g.depthwise)
ONE_GROUP = Requirement("a single group", lambda g: g.groups == 1)


def _unpadded(geometry: Geometry) -> bool:
    return all(axis.pad == 0 for axis in geometry.axes)


def geometry_of(problem: Problem) -> Geometry:
    """The geometry of a problem that is a convolution."""
    operation = get(problem.operation)
    assert isinstance(operation, Convolution), "refused before"
    return operation.geometry(problem)


def refusal(problem: Problem, device: Device, rules: Sequence[Requirement]) -> str:
    """Why a CPU solver with these requirements refuses a problem; empty if it accepts it."""
    operation = get(problem.operation)
    if not isinstance(operation, Convolution):
        return "it only supports convolutions"
    if device.kind != "cpu":
        return f"it builds for CPUs, not for {device.name}"
    geometry = operation.geometry(problem)
    return next((f"it needs {rule.needs}" for rule in rules if not rule.holds(geometry)), "")
