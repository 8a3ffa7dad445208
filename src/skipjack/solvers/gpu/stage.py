"""Stages of GPU solvers: a kernel and its launch, with each argument's type and value together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.gpu.artifact import Argument
from skipjack.gpu.plan import Descriptor, Number, Pointer, Scratch, Step, Value, launch
from skipjack.solvers.gpu.product import descriptor, number, pointer
from skipjack.solvers.gpu.product_steps import EARLY
from skipjack.solvers.gpu.spec import Constant, KernelSpec
from skipjack.solvers.gpu.triton_solver import TritonSolver

_KERNELS = "skipjack.solvers.gpu.kernels."


@dataclass(frozen=True, slots=True)
class Given:
    """A run-time argument: its type, and its value in this launch."""

    type: Argument
    value: Value | str


Arguments = dict[str, Given | None]
"""By parameter, in the function's order; None is for an array that the problem does not have."""


def size(value: int, long: bool = False) -> Given:
    """A whole number, in 64 bits where it needs them or `long` asks for them."""
    argument = number(value)
    if long:
        argument = replace(argument, type="i64")
    return Given(argument, Number(argument.type, value))


def array(type_: str, place: Pointer | Scratch | str, aligned: bool = True) -> Given:
    """An address; an `aligned` one is a multiple of 16 bytes."""
    argument = pointer(type_)
    return Given(argument if aligned else replace(argument, divisible=1), place)


def blocks(
    type_: str,
    place: Pointer | Scratch | str,
    shape: Sequence[int],
    strides: Sequence[int],
    block: Sequence[int],
) -> Given:
    """An array as the copy engine reads it."""
    of = Pointer(place) if isinstance(place, str) else place
    return Given(descriptor(type_, block), Descriptor(of, tuple(shape), tuple(strides)))


@dataclass(frozen=True, slots=True)
class Stage:
    """One launch of one kernel."""

    name: str
    module: str
    """Below `skipjack.solvers.gpu.kernels`, or the path of a plug-in's ``.py`` file."""
    function: str
    grid: Sequence[int]
    given: Mapping[str, Given | None]
    """By parameter, in the function's order; what is None is a constant of that value."""
    constants: Mapping[str, Constant] = field(default_factory=dict)
    warps: int = 4
    stages: int = 2
    begins: bool = False
    """Whether the kernel is the first of its plan by its nature, and cannot be told to follow."""
    options: Mapping[str, Constant] = field(default_factory=dict)

    @property
    def spec(self) -> KernelSpec:
        """What is compiled."""
        return KernelSpec(
            self.name,
            self.module if self.module.endswith(".py") else _KERNELS + self.module,
            self.function,
            {name: given.type for name, given in self.given.items() if given},
            {**{name: None for name, given in self.given.items() if not given}, **self.constants},
            self.warps,
            self.stages,
            self.options,
        )

    @property
    def step(self) -> Step:
        """What is launched."""
        return launch(self.name, self.grid, [given.value for given in self.given.values() if given])


def chained(stages: Sequence[Stage], early: bool) -> list[Stage]:
    """Stages told of each other; `early` ones are launched before the one before has ended.

    Their kernels then wait by themselves (`skipjack.solvers.gpu.kernels.chaining`).
    """
    found = []
    for at, stage in enumerate(stages):
        follows = early and at > 0
        told: dict[str, Constant] = {"FOLLOWED": early and at + 1 < len(stages)}
        if not stage.begins:
            told["FOLLOWS"] = follows
        options = {**stage.options, **(EARLY if follows else {})}
        found.append(replace(stage, constants={**stage.constants, **told}, options=options))
    return found


class StagedGpuSolver(TritonSolver):
    """A solver whose configs are stages; derive from it and say which."""

    chains = False
    """Whether its kernels have ``FOLLOWS`` and ``FOLLOWED``, so that they can be launched early."""

    def stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """In the order of their launches."""
        raise NotImplementedError

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """Those of the stages, each once."""
        stages = self._stages(problem, device, config)
        return list({stage.name: stage.spec for stage in stages}.values())

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """The launches of the stages."""
        return [stage.step for stage in self._stages(problem, device, config)]

    def _stages(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        stages = self.stages(problem, device, config)
        return chained(stages, bool(config.get("early", False))) if self.chains else stages
