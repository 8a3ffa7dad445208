"""Convolutions with 3x3 filters by Winograd's minimal filtering: F(2x2, 3x3) and F(4x4, 3x3)."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.native.cpu import registers_of
from skipjack.native.ir import ITEM_BYTES, VectorType
from skipjack.operations.conv_geometry import Geometry
from skipjack.solvers.convolution.rules import (
    ONE_GROUP,
    STRIDE_ONE,
    THREE_BY_THREE,
    UNDILATED,
    Rule,
    geometry_of,
    refusal,
)
from skipjack.solvers.convolution.winograd_lines import F2, F4, Winograd
from skipjack.solvers.convolution.winograd_parts import winograd_parts
from skipjack.solvers.convolution.winograd_plan import Plan
from skipjack.solvers.loops.packed_estimate import parse_tile
from skipjack.solvers.loops.packed_parts import Recipe
from skipjack.solvers.loops.staged_solver import StagedSolver
from skipjack.solvers.loops.stages import Part

SMALL_PADS = Rule("pads of at most 2", lambda g: all(axis.pad <= 2 for axis in g.axes))
RULES = (THREE_BY_THREE, STRIDE_ONE, UNDILATED, SMALL_PADS, ONE_GROUP)


class WinogradSolver(StagedSolver):
    version = 1

    def __init__(self, winograd: Winograd) -> None:
        self.winograd = winograd
        self.name = f"winograd{winograd.size}"

    def refuses(self, problem: Problem, device: Device) -> str:
        return refusal(problem, device, RULES)

    def plan(self, problem: Problem, device: Device, config: Config) -> Plan:
        geometry = geometry_of(problem)
        rows, vectors = parse_tile(config["tile"])
        vector = VectorType(problem.dtype, device.vector_bytes // ITEM_BYTES[problem.dtype])
        recipe = Recipe(
            rows,
            vectors,
            int(config["unroll"]),
            False,
            vector,
            upright=geometry.wanted == "filter",
        )
        return Plan(
            geometry,
            self.winograd,
            recipe,
            str(config["over"]),
            int(config["block"]),
            device.units,
            str(config["share"]),
        )

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Part]:
        return winograd_parts(self.plan(problem, device, config))
