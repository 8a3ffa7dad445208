"""A plugin: the fake GPU, and a solver whose kernels are fast, slow or rogue there."""

from __future__ import annotations

import json
from collections.abc import Sequence

from skipjack import solvers
from skipjack.core import Config, Device, Parameter, ParameterSpace, Problem
from skipjack.gpu import ABI, launch, pack, to_slots
from skipjack.solvers import Blob, Slot, Solver, Source
from skipjack.testing.fake_gpu import ARCH, KIND, fake_artifact

BEHAVIOURS = ("slow", "right", "wrong", "behind", "fault", "fault_later", "hang", "memory")


class FakeGpuSolver(Solver):
    name = "fake_gpu"
    version = 1
    kinds = (KIND,)
    dtypes = ("f32",)

    def refuses(self, problem: Problem, device: Device) -> str:
        return "" if problem.operation == "add" else "it adds"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        return ParameterSpace([Parameter("behaviour", BEHAVIOURS, default="slow")])

    def compiler(self) -> str:
        return "fake compiler 1"

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        return Source(json.dumps({"behaviour": config["behaviour"]}), ARCH, self.compiler(), "gpu")

    def compile(self, source: Source) -> Blob:
        behaviour = json.loads(source.text)["behaviour"]
        slow = behaviour == "slow"
        artifact = fake_artifact("right" if slow else behaviour, 9000.0 if slow else 3000.0)
        return Blob(pack(artifact), "gpu", ABI)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        return to_slots([launch("add", (8,), ["x", "y", "out", problem.shape[0]])])


solvers.register(FakeGpuSolver())
