"""A user's kernel as a solver: built ahead of time and launched like those of Skipjack."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from skipjack.core.config import Config, Value
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Space
from skipjack.errors import UsageError
from skipjack.gpu.artifact import Argument
from skipjack.gpu.plan import Number, Pointer, Step, launch
from skipjack.gpu.plan import Value as LaunchValue
from skipjack.integrations.adapter import Adapter, At
from skipjack.integrations.triton_configs import ListedSpace, make_space
from skipjack.integrations.user_operation import source_digest
from skipjack.solvers.gpu.product import TRITON_TYPES
from skipjack.solvers.gpu.spec import Constant, KernelSpec
from skipjack.solvers.gpu.triton_solver import TritonSolver

_DIVISOR = 16
"""What Triton's own launcher looks at in sizes and addresses."""
_WARPS, _STAGES = 4, 3
"""Where a config does not say: as in ``triton.Config``."""
_IGNORED = {"cuda": ("waves_per_eu", "matrix_instr_nonkdim", "kpack"), "hip": ("maxnreg",)}
"""Options that the compiler for a kind of GPU takes and makes nothing of."""


class UserSolver(TritonSolver):
    """Of one adapter, for its own operation alone."""

    def __init__(self, adapter: Adapter) -> None:
        self.take(adapter)

    def take(self, adapter: Adapter) -> None:
        """Be the solver of this adapter from now on."""
        self.adapter = adapter
        self.name = adapter.name
        self.dtypes = adapter.dtypes

    def refuses(self, problem: Problem, device: Device) -> str:
        """Other operations, and problems of a text that the kernel has no more."""
        if problem.operation != self.adapter.name:
            return f"it is for {self.adapter.name} alone"
        if problem.attribute("source") != source_digest(self.adapter):
            return f"{self.adapter.path.name} has changed since: the kernel is another one now"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """The adapter's; what the GPU's compiler ignores does not vary."""
        ignored = set(_IGNORED.get(device.kind, ())) - set(self.adapter.parameters)
        if self.adapter.configs:
            return ListedSpace(_without_twins(self.adapter.configs, ignored))
        sizes: dict[str, Value] = dict(self.adapter.sizes(problem.shape))
        return make_space(self.adapter.values, self.adapter.constraints, sizes, ignored)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The one function."""
        adapter, at = self.adapter, self._at(problem, config)
        arguments: dict[str, Argument] = {}
        constants: dict[str, Constant] = {}
        for parameter in adapter.parameters:
            if parameter in adapter.constexprs:
                constants[parameter] = self._constant(parameter, at)
            elif (tensor := adapter.tensor_of(parameter)) is not None:
                arguments[parameter] = Argument(self._pointer(problem, tensor), _DIVISOR)
            elif self._fixed(parameter, number := self._number(parameter, at)):
                constants[parameter] = number
            else:
                arguments[parameter] = self._argument(parameter, number)
        besides = ("num_warps", "num_stages", *adapter.parameters)
        return [
            KernelSpec(
                adapter.function,
                str(adapter.path),
                adapter.function,
                arguments,
                constants,
                int(config.get("num_warps", _WARPS)),
                int(config.get("num_stages", _STAGES)),
                {name: value for name, value in config.items() if name not in besides},
            )
        ]

    def plan(self, problem: Problem, device: Device, config: Config) -> Sequence[Step]:
        """One launch."""
        at = self._at(problem, config)
        (spec,) = self.kernels(problem, device, config)
        values: list[LaunchValue] = []
        for parameter, argument in spec.arguments.items():
            tensor = self.adapter.tensor_of(parameter)
            if tensor is not None:
                values.append(Pointer(tensor))
            else:
                kind = "f32" if argument.type == "fp32" else argument.type
                values.append(Number(kind, self._number(parameter, at)))
        return [launch(spec.name, self.adapter.launch_grid(at), values)]

    def _at(self, problem: Problem, config: Config) -> At:
        return {**self.adapter.sizes(problem.shape), **config}

    def _number(self, parameter: str, at: At) -> Any:
        adapter = self.adapter
        if parameter in adapter.arguments:
            return adapter.compute(adapter.arguments[parameter], at, f"argument {parameter!r}")
        return at[parameter] if parameter in at else adapter.defaults[parameter]

    def _constant(self, parameter: str, at: At) -> Constant:
        adapter = self.adapter
        given = adapter.constants.get(parameter)
        if isinstance(given, str) and given.startswith("tl."):
            return given  # one of Triton's types
        if parameter not in adapter.constants:
            return at[parameter] if parameter in at else adapter.defaults[parameter]
        found: Constant = adapter.compute(
            adapter.constants[parameter], at, f"constant {parameter!r}"
        )
        return found

    def _fixed(self, parameter: str, value: Any) -> bool:
        """Whether Triton compiles a value in: strides of 1 are what makes accesses coalesce."""
        if value is None or isinstance(value, bool):
            return True
        return parameter not in self.adapter.unspecialized and type(value) is int and value == 1

    def _argument(self, parameter: str, value: Any) -> Argument:
        if isinstance(value, float):
            return Argument("fp32")
        if not isinstance(value, int):
            raise UsageError(
                f"argument {parameter!r} of {self.adapter.function} is {value!r} and no number"
            )
        wide = "i32" if -(2**31) <= value < 2**31 else "i64"
        told = parameter not in self.adapter.unspecialized and value % _DIVISOR == 0
        return Argument(wide, _DIVISOR if told else 1)

    def _pointer(self, problem: Problem, name: str) -> str:
        both = {**self.adapter.inputs, **self.adapter.outputs}
        own = next(n.partition(":")[2] for n in both if n.partition(":")[0] == name)
        return f"*{TRITON_TYPES[own or problem.dtype]}"


def _without_twins(
    configs: Sequence[Mapping[str, Value]], ignored: Collection[str]
) -> list[Mapping[str, Value]]:
    """The first of those configs that differ in nothing but what is ignored."""
    found: dict[Config, Mapping[str, Value]] = {}
    for config in configs:
        rest = {name: value for name, value in config.items() if name not in ignored}
        found.setdefault(Config(rest), config)
    return list(found.values())
