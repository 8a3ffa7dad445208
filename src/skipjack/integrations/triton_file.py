"""``file.py::kernel``: from what a user writes on the command line to problems of that kernel.

The file is a plug-in: it is imported here and in every worker, and its adapters register the
operation and the solver. It imports Triton at its top, so Triton must be importable wherever the
kernel is built or run, also on a machine that compiles nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from skipjack import operations, plugins, solvers
from skipjack.core.problem import Problem
from skipjack.errors import MissingFileError, UsageError
from skipjack.integrations.adapter import Adapter
from skipjack.integrations.user_operation import UserOperation
from skipjack.integrations.user_solver import UserSolver

_SEPARATOR = ".py::"
_known: dict[str, tuple[UserOperation, UserSolver]] = {}
_kernels: dict[str, Any] = {}
"""The function of each, which a file that is read again makes anew."""


def register(adapter: Adapter, kernel: Any) -> None:
    """Add the kernel's operation and solver; a file that is read again takes its own place."""
    for name, other in _kernels.items():
        if other is kernel and name in _known:
            raise UsageError(
                f"{adapter.path.name} has two adapters for {adapter.function}; one kernel has one: "
                "describe another use of it by another function"
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
    """The problems that ``file.py::kernel`` is at these shapes, such as ``4096x1024``.

    The file is loaded as a plug-in, here and in all workers that are started from now on.
    """
    name, _, function = text.partition("::")
    adapter = _adapter(Path(name), function)
    form = "x".join(adapter.shape)
    if not shapes:
        raise UsageError(f"{text} needs a shape: give --shapes {form}, all as whole numbers")
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
        raise UsageError(f"{path}::{function} names no function; write {path}::my_kernel")
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
        have = f"; with adapters are {', '.join(sorted(own))}" if own else ""
        raise UsageError(f"{path} has no function {function!r}{have}")
    raise UsageError(
        f"{path} has no adapter for {function}: call skipjack.triton_kernel({function}, ...) in it "
        "to say what its arguments, its grid and its reference are"
    )
