"""Base classes of solvers made of Triton kernels, and the stages that their configs consist of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skipjack.core import Config, Device, Problem, Space
from skipjack.gpu import (
    Argument,
    Descriptor,
    Number,
    Pointer,
    Scratch,
    Step,
    Value,
    launch,
    to_slots,
)
from skipjack.reading import parse_json
from skipjack.solvers.gpu.triton import compilation
from skipjack.solvers.gpu.triton.kernel_source import kernel_text
from skipjack.solvers.gpu.triton.spec import (
    EARLY_LAUNCH,
    Constant,
    KernelSpec,
    descriptor_type,
    integer_type,
    pointer_type,
)
from skipjack.solvers.solver import Blob, Slot, Solver, Source

# The base of all solvers made of Triton kernels: from specs to a source, an artifact and slots.


class TritonSolver(Solver):
    """Derive from it and implement `refuses`, `space`, `kernels` and `plan`.

    Only `compile`, which runs in a build worker, needs Triton. Nothing needs a GPU.
    """

    name = ""
    version = 1
    kinds: Sequence[str] = ("cuda", "hip")
    dtypes: Sequence[str] = ("f16", "bf16", "f32")

    def refuses(self, problem: Problem, device: Device) -> str:
        """Why this solver cannot compute the problem; empty if it can."""
        raise NotImplementedError

    def space(self, problem: Problem, device: Device) -> Space:
        """The configs, the most promising first (`skipjack.core.space.Promising`)."""
        raise NotImplementedError

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The kernels of a config. Sizes should be run-time arguments unless that costs speed."""
        raise NotImplementedError

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """The steps of a config on the GPU, in order."""
        raise NotImplementedError

    def compiler(self) -> str:
        """Name and version of Triton, without loading it."""
        return compilation.compiler_name()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """The specs and the canonical texts of the functions; equal ones are one build."""
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
        """The kernels may depend on the number of units, and their files may have been edited."""
        source = self.lower(problem, device, config)
        return replace(source, compiler=compiler).digest == digest

    def compile(self, source: Source) -> Blob:
        """Binaries with their launch ABI. Runs in a build worker, which it may crash."""
        specs = [
            KernelSpec.from_json(record)
            for record in parse_json(source.text, finite=False)["specs"]
        ]
        return compilation.compile_specs(specs, source.target)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """The plan as slots."""
        return to_slots(self.plan(problem, device, config))


# Stages of GPU solvers: a kernel and its launch, with the type and value of each argument.


@dataclass(frozen=True, slots=True)
class LaunchArgument:
    """A run-time argument: its type and its value in this launch."""

    type: Argument
    value: Value | str


LaunchArguments = dict[str, LaunchArgument | None]
"""By parameter, in the function's order; None if the problem has no such array."""


def integer(value: int, long: bool = False) -> LaunchArgument:
    """An integer, in 64 bits if it needs them or `long` is set."""
    argument = integer_type(value)
    if long:
        argument = replace(argument, type="i64")
    return LaunchArgument(argument, Number(argument.type, value))


def array(type_: str, place: Pointer | Scratch | str, aligned: bool = True) -> LaunchArgument:
    """The address of an array, which is a multiple of 16 bytes if `aligned`."""
    argument = pointer_type(type_)
    return LaunchArgument(argument if aligned else replace(argument, divisible=1), place)


def tma_array(
    type_: str,
    place: Pointer | Scratch | str,
    shape: Sequence[int],
    strides: Sequence[int],
    block: Sequence[int],
) -> LaunchArgument:
    """A TMA descriptor of an array."""
    of = Pointer(place) if isinstance(place, str) else place
    return LaunchArgument(
        descriptor_type(type_, block), Descriptor(of, tuple(shape), tuple(strides))
    )


@dataclass(frozen=True, slots=True)
class KernelStage:
    """A launch of a kernel."""

    name: str
    module: str
    """Of the kernel: a module's name, or the path of a plug-in's ``.py`` file."""
    function: str
    grid: Sequence[int]
    given: Mapping[str, LaunchArgument | None]
    """By parameter, in the function's order; None becomes a constant of that value."""
    constants: Mapping[str, Constant] = field(default_factory=dict)
    warps: int = 4
    stages: int = 2
    begins: bool = False
    """Whether the kernel is always the first of its plan and has no ``FOLLOWS`` parameter."""
    options: Mapping[str, Constant] = field(default_factory=dict)

    @property
    def spec(self) -> KernelSpec:
        """The kernel to compile."""
        return KernelSpec(
            self.name,
            self.module,
            self.function,
            {name: given.type for name, given in self.given.items() if given},
            {**{name: None for name, given in self.given.items() if not given}, **self.constants},
            self.warps,
            self.stages,
            self.options,
        )

    @property
    def step(self) -> Step:
        """The launch."""
        return launch(self.name, self.grid, [given.value for given in self.given.values() if given])


def dependent_stages(stages: Sequence[KernelStage], early: bool) -> list[KernelStage]:
    """Stages whose kernels know whether they follow, or are followed by, another one.

    If `early`, each is launched before its predecessor has ended, and waits for it in the kernel
    (`skipjack.solvers.gpu.kernels.tiles`).
    """
    found = []
    for at, stage in enumerate(stages):
        follows = early and at > 0
        known: dict[str, Constant] = {"FOLLOWED": early and at + 1 < len(stages)}
        if not stage.begins:
            known["FOLLOWS"] = follows
        options = {**stage.options, **(EARLY_LAUNCH if follows else {})}
        found.append(replace(stage, constants={**stage.constants, **known}, options=options))
    return found


class StagedGpuSolver(TritonSolver):
    """A solver whose configs are sequences of stages; derive from it and implement `stages`."""

    chains = False
    """Whether its kernels have ``FOLLOWS`` and ``FOLLOWED`` and can be launched early."""

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        """The stages, in the order of their launches."""
        raise NotImplementedError

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The kernels of the stages, without repetitions."""
        stages = self._stages(problem, device, config)
        return list({stage.name: stage.spec for stage in stages}.values())

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        return [stage.step for stage in self._stages(problem, device, config)]

    def _stages(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelStage]:
        stages = self.stages(problem, device, config)
        return dependent_stages(stages, bool(config.get("early", False))) if self.chains else stages
