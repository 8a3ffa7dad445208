"""A launch together with what it compiles: arguments are named, typed and given in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.gpu.artifact import Argument
from skipjack.gpu.plan import Descriptor, Pointer, Scratch, Step, Value, launch
from skipjack.solvers.gpu.product import descriptor, number, pointer
from skipjack.solvers.gpu.product_steps import EARLY
from skipjack.solvers.gpu.spec import Constant, KernelSpec
from skipjack.solvers.gpu.triton_solver import TritonSolver

_KERNELS = "skipjack.solvers.gpu.kernels."


@dataclass(frozen=True, slots=True)
class Given:
    """A run-time argument: its type, and its value in this launch."""

    type: Argument
    value: Value | str | int


def size(value: int) -> Given:
    """A whole number."""
    return Given(number(value), value)


def array(type_: str, place: Pointer | Scratch | str) -> Given:
    """An address."""
    return Given(pointer(type_), place)


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
    """A module of `skipjack.solvers.gpu.kernels`."""
    function: str
    grid: Sequence[int]
    given: Mapping[str, Given]
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
            _KERNELS + self.module,
            self.function,
            {name: given.type for name, given in self.given.items()},
            self.constants,
            self.warps,
            self.stages,
            self.options,
        )

    @property
    def step(self) -> Step:
        """What is launched."""
        return launch(self.name, self.grid, [given.value for given in self.given.values()])


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
    """A solver that says in one place what is compiled and launched."""

    def parts(self, problem: Problem, device: Device, config: Config) -> Sequence[Stage]:
        """The launches in order, each with its kernel."""
        raise NotImplementedError

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """Of all parts."""
        return [stage.spec for stage in self._chained(problem, device, config)]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """Of all parts."""
        return [stage.step for stage in self._chained(problem, device, config)]

    def _chained(self, problem: Problem, device: Device, config: Config) -> list[Stage]:
        stages = self.parts(problem, device, config)
        return chained(stages, bool(config.get("early", False)))
