"""What all solvers made of Triton kernels share: from specs to a source, an artifact, slots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.gpu.plan import Step, to_slots
from skipjack.reading import parse_json
from skipjack.solvers.gpu import compiling
from skipjack.solvers.gpu.source import kernel_text
from skipjack.solvers.gpu.spec import KernelSpec
from skipjack.solvers.solver import Blob, Slot, Solver, Source


class TritonSolver(Solver):
    """Derive from it and say what can be done, what may vary, what is compiled and launched.

    Nothing here needs Triton or a GPU but `compile`, which runs in a build worker.
    """

    name = ""
    version = 1
    kinds: Sequence[str] = ("cuda", "hip")
    dtypes: Sequence[str] = ("f16", "bf16", "f32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Why this solver cannot do it; empty if it can."""
        raise NotImplementedError

    def space(self, problem: Problem, device: Device) -> Space:
        """What may vary, with the most promising first (`skipjack.core.space.Promising`)."""
        raise NotImplementedError

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """What a config compiles. Sizes are run-time arguments wherever that costs no speed."""
        raise NotImplementedError

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """What a config does on the GPU, in order."""
        raise NotImplementedError

    def compiler(self) -> str:
        """Name and version of what compiles, without loading it."""
        return compiling.compiler_name()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """The specs and the text of the functions: equal ones are one build."""
        specs = self.kernels(problem, device, config)
        content = {
            "specs": [spec.to_json() for spec in specs],
            "sources": [kernel_text(spec.module, spec.function) for spec in specs],
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return Source(text, device.arch, self.compiler(), "gpu")

    def same_source(
        self, problem: Problem, device: Device, config: Config, digest: str, compiler: str
    ) -> bool:
        """What is compiled may depend on the number of units, and kernels are edited."""
        source = self.lower(problem, device, config)
        return replace(source, compiler=compiler).digest == digest

    def compile(self, source: Source) -> Blob:
        """Binaries with their launch ABI; runs in a build worker and may crash it."""
        specs = [
            KernelSpec.from_json(record)
            for record in parse_json(source.text, finite=False)["specs"]
        ]
        return compiling.compile_specs(specs, source.target)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """The plan as texts."""
        return to_slots(self.plan(problem, device, config))
