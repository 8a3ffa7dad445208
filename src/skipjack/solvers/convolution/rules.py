"""Which convolutions a solver can do, as data: rules with the sentence that a refusal gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.operations import get
from skipjack.operations.conv_geometry import Geometry
from skipjack.operations.convolution import Convolution


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that must hold of a convolution."""

    needs: str
    """As in "it needs ..."."""
    holds: Callable[[Geometry], bool]


ONE_BY_ONE = Rule("a 1x1 filter without padding", lambda g: g.pointwise and _unpadded(g))
THREE_BY_THREE = Rule(
    "a 3x3 filter in two dimensions",
    lambda g: [axis.filter for axis in g.axes] == [1, 3, 3] and g.axes[0].trivial,
)
STRIDE_ONE = Rule("strides of 1", lambda g: all(axis.stride == 1 for axis in g.axes))
UNDILATED = Rule(
    "dilations of 1", lambda g: all(axis.dilation == 1 or axis.filter == 1 for axis in g.axes)
)
DEPTHWISE = Rule("one channel in each group", lambda g: g.depthwise)
NOT_DEPTHWISE = Rule("several channels in each group", lambda g: not g.depthwise)
ONE_GROUP = Rule("a single group", lambda g: g.groups == 1)


def _unpadded(geometry: Geometry) -> bool:
    return all(axis.pad == 0 for axis in geometry.axes)


def geometry_of(problem: Problem) -> Geometry:
    """Of a problem that is a convolution."""
    operation = get(problem.operation)
    assert isinstance(operation, Convolution), "refused before"
    return operation.geometry(problem)


def refusal(problem: Problem, device: Device, rules: Sequence[Rule]) -> str:
    """Why a CPU solver with these rules cannot do a problem; empty if it can."""
    operation = get(problem.operation)
    if not isinstance(operation, Convolution):
        return "it knows convolutions alone"
    if device.kind != "cpu":
        return f"it builds for CPUs, not for {device.name}"
    geometry = operation.geometry(problem)
    return next((f"it needs {rule.needs}" for rule in rules if not rule.holds(geometry)), "")
