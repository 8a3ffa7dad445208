"""Depthwise convolutions: every channel by itself, read where it lies."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.slots import parallel_slot, workspace_slot
from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.convolution import depthwise_filter, depthwise_planes
from skipjack.solvers.convolution.depthwise_axis import gathering
from skipjack.solvers.convolution.depthwise_plan import Plan
from skipjack.solvers.convolution.depthwise_space import depthwise_space, plan_of
from skipjack.solvers.convolution.rules import DEPTHWISE, Rule, refusal
from skipjack.solvers.loops.staged_solver import StagedSolver
from skipjack.solvers.loops.stages import Part, Stage
from skipjack.solvers.solver import Slot

_LARGEST = 7
_STRIDES = 4


def _planes_meet(geometry: Geometry) -> bool:
    """Whether every plane that is wanted is the sum of some."""
    if geometry.wanted == "filter":
        return True
    axis = geometry.axes[0]
    deep = gathering(axis, backward=geometry.wanted == "image")
    places = (
        [place + deep.stride * (at // deep.step) for _, place in deep.phases[at % deep.step]]
        for at in range(deep.size)
    )
    return all(any(0 <= place < deep.given for place in each) for each in places)


RULES = (
    DEPTHWISE,
    Rule(
        "as many channels of the result as of the image where channels lie last",
        lambda g: not g.channels_last or g.group_k == 1,
    ),
    Rule("filters of up to 7x7x7", lambda g: max(g.filter_sizes) <= _LARGEST),
    Rule("strides of up to 4", lambda g: max(axis.stride for axis in g.axes) <= _STRIDES),
    Rule("planes that all meet the filter", _planes_meet),
)


class DepthwiseSolver(StagedSolver):
    """Sizes are constants in the code. See `depthwise_march` for how a plane is gone through."""

    name = "depthwise"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """Depthwise convolutions with filters of usual sizes."""
        return refusal(problem, device, RULES)

    def promise(self, problem: Problem, device: Device) -> float:
        """Made for this."""
        return 3.0

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """How wide strips are, what is fetched and stored how, who does what."""
        return depthwise_space(problem, device)

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        """One stage."""
        plan = plan_of(problem, device, config)
        sums = plan.geometry.wanted == "filter"
        generate = depthwise_filter.generate if sums else depthwise_planes.generate
        return [Stage(lambda: generate(plan), _slots(plan))]


def _slots(plan: Plan) -> tuple[Slot, ...]:
    """As `depthwise_module` lists them."""
    sums = plan.geometry.wanted == "filter"
    roles: dict[Role, tuple[Role, Role]] = {
        "result": ("image", "filter"),
        "image": ("result", "filter"),
        "filter": ("image", "result"),
    }
    kind = depthwise_filter if sums else depthwise_planes
    given = [plan.geometry.name(role) for role in roles[plan.geometry.wanted]]
    return (
        *given,
        plan.geometry.name(plan.geometry.wanted),
        workspace_slot(kind.workspace_bytes(plan) * plan.threads),
        parallel_slot(plan.threads),
        plan.threads,
    )
