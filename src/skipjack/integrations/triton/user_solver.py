"""A user's kernel as a solver, and how ``file.py::kernel`` names it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from skipjack import operations, plugins, solvers
from skipjack.core import Config, Device, Problem, Space, Value
from skipjack.errors import MissingFileError, UsageError
from skipjack.gpu import Argument, Number, Pointer, Step, launch
from skipjack.gpu import Value as LaunchValue
from skipjack.integrations.triton.configs import ListedSpace, make_space
from skipjack.integrations.triton.user_operation import Adapter, At, UserOperation, source_digest
from skipjack.solvers.gpu.triton import TRITON_TYPES, Constant, KernelSpec, TritonSolver

# A user's kernel as a solver: built ahead of time and launched like Skipjack's own kernels.

_DIVISOR = 16
"""The divisor of sizes and addresses for which Triton's launcher specializes."""
_WARPS, _STAGES = 4, 3
"""The defaults of ``triton.Config``."""
_IGNORED = {"cuda": ("waves_per_eu", "matrix_instr_nonkdim", "kpack"), "hip": ("maxnreg",)}
"""Options that the compiler for a kind of GPU ignores."""


class UserSolver(TritonSolver):
    """The solver of one adapter, for its own operation only."""

    def __init__(self, adapter: Adapter) -> None:
        self.take(adapter)

    def take(self, adapter: Adapter) -> None:
        """Use this adapter from now on."""
        self.adapter = adapter
        self.name = adapter.name
        self.dtypes = adapter.dtypes

    def refuses(self, problem: Problem, device: Device) -> str:
        """Refuse other operations, and problems for an older text of the kernel."""
        if problem.operation != self.adapter.name:
            return f"it only computes {self.adapter.name}"
        if problem.attribute("source") != source_digest(self.adapter):
            return f"{self.adapter.path.name} has changed since then, and so has the kernel"
        return ""

    def space(self, problem: Problem, device: Device) -> Space:
        """The adapter's space; settings that the GPU's compiler ignores do not vary."""
        ignored = set(_IGNORED.get(device.kind, ())) - set(self.adapter.parameters)
        if self.adapter.configs:
            return ListedSpace(_without_twins(self.adapter.configs, ignored))
        sizes: dict[str, Value] = dict(self.adapter.sizes(problem.shape))
        return make_space(self.adapter.values, self.adapter.constraints, sizes, ignored)

    def kernels(self, problem: Problem, device: Device, config: Config) -> Sequence[KernelSpec]:
        """The kernel's function."""
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
        """A single launch."""
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
            return given  # a type of Triton
        if parameter not in adapter.constants:
            return at[parameter] if parameter in at else adapter.defaults[parameter]
        found: Constant = adapter.compute(
            adapter.constants[parameter], at, f"constant {parameter!r}"
        )
        return found

    def _fixed(self, parameter: str, value: Any) -> bool:
        """Whether Triton compiles a value in; strides of 1 are needed for coalesced accesses."""
        if value is None or isinstance(value, bool):
            return True
        return parameter not in self.adapter.unspecialized and type(value) is int and value == 1

    def _argument(self, parameter: str, value: Any) -> Argument:
        if isinstance(value, float):
            return Argument("fp32")
        if not isinstance(value, int):
            raise UsageError(
                f"argument {parameter!r} of {self.adapter.function} is {value!r}, which is not a "
                "number"
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
    """The configs without those that differ from an earlier one only in ignored settings."""
    found: dict[Config, Mapping[str, Value]] = {}
    for config in configs:
        rest = {name: value for name, value in config.items() if name not in ignored}
        found.setdefault(Config(rest), config)
    return list(found.values())


# ``file.py::kernel``: problems of a kernel that is named on the command line.
#
# The file is a plug-in: it is imported here and in every worker, and its adapters register the
# operation and the solver. It imports Triton, so Triton must be installed wherever the kernel is
# built or run, even on a machine that compiles nothing.

_SEPARATOR = ".py::"
_known: dict[str, tuple[UserOperation, UserSolver]] = {}
_kernels: dict[str, Any] = {}
"""The function of each kernel; importing its file again creates a new one."""


def register(adapter: Adapter, kernel: Any) -> None:
    """Add the kernel's operation and solver; a file that is imported again replaces its own."""
    for name, other in _kernels.items():
        if other is kernel and name in _known:
            raise UsageError(
                f"{adapter.path.name} has two adapters for {adapter.function}, but a kernel can "
                "have only one: write another function for another use"
            )
    _kernels[adapter.name] = kernel
    if adapter.name in _known and _known[adapter.name][0].adapter.path == adapter.path:
        operation, solver = _known[adapter.name]
        operation.adapter = adapter
        solver.take(adapter)
        return
    operation, solver = UserOperation(adapter), UserSolver(adapter)
    operations.register(operation)
    solvers.register(solver)
    _known[adapter.name] = operation, solver


def is_user_kernel(text: str) -> bool:
    """Whether this is ``file.py::kernel``."""
    return _SEPARATOR in text


def load_user_kernel(text: str, shapes: list[str], dtype: str | None = None) -> list[Problem]:
    """The problems of ``file.py::kernel`` at these shapes, such as ``4096x1024``.

    The file is loaded as a plug-in, here and in all workers that start later.
    """
    name, _, function = text.partition("::")
    adapter = _adapter(Path(name), function)
    form = "x".join(adapter.shape)
    if not shapes:
        raise UsageError(f"{text} needs a shape: add --shapes {form} with whole numbers")
    wanted = dtype or adapter.dtypes[0]
    problems = []
    for shape in shapes:
        try:
            problems.append(operations.parse(f"{adapter.name}:{shape}", wanted))
        except UsageError as error:
            raise UsageError(f"{text} takes shapes as {form}: {error}") from None
    return problems


def _adapter(path: Path, function: str) -> Adapter:
    if not path.is_file():
        raise MissingFileError(f"there is no file {path}")
    if not function.isidentifier():
        raise UsageError(f"{path}::{function} does not name a function; write {path}::my_kernel")
    plugins.load((str(path),))
    own = {
        one.adapter.function: one.adapter
        for one, _ in _known.values()
        if one.adapter.path == path.resolve()
    }
    if function in own:
        return own[function]
    module = sys.modules.get(f"skipjack_plugin_{path.stem}")
    if not hasattr(module, function):
        have = f"; functions with adapters: {', '.join(sorted(own))}" if own else ""
        raise UsageError(f"{path} has no function {function!r}{have}")
    raise UsageError(
        f"{path} has no adapter for {function}: call skipjack.triton_kernel({function}, ...) in it "
        "to say what its arguments, its grid and its reference are"
    )
