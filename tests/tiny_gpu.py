"""A plugin with an operation for GPUs whose configs build, or fail to in every way there is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skipjack import operations, solvers
from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem
from skipjack.gpu import Argument, Step, launch
from skipjack.operations import Elementwise
from skipjack.solvers import Blob, Source
from skipjack.solvers.gpu.triton import KernelSpec, TritonSolver

OPERATION = "tiny"
KERNELS = str(Path(__file__).with_name("tiny_kernels.py"))
POINTER, NUMBER = Argument("*fp32", 16), Argument("i32")
FUNCTIONS = ("refused", "unknown", "misassembled")
BEHAVIOURS = ("right", *FUNCTIONS, "crash", "spills")


class TinySolver(TritonSolver):
    """One parameter: the behaviour."""

    name = "tiny"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        return "" if problem.operation == OPERATION else "it is for tests"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        return ParameterSpace([Parameter("behaviour", BEHAVIOURS, default="right")])

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        behaviour = str(config["behaviour"])
        function = behaviour if behaviour in FUNCTIONS else "add"
        arguments = {"x": POINTER, "y": POINTER, "out": POINTER, "n": NUMBER}
        warps = {"crash": 2, "spills": 8}.get(behaviour, 4)
        return [KernelSpec("main", KERNELS, function, arguments, {"block": 256}, warps)]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        size = problem.shape[0]
        return [launch("main", (-(-size // 256),), ["x", "y", "out", size])]

    def compile(self, source: Source) -> Blob:
        if '"warps":2' in source.text:
            os._exit(3)
        blob = super().compile(source)
        if '"warps":8' in source.text:
            return Blob(blob.data, blob.symbol, blob.abi, {**blob.resources, "spill_bytes": 257})
        return blob


operations.register(Elementwise(OPERATION, np.add, 2, step="add"))
solvers.register(TinySolver())
