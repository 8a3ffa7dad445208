"""Triton functions by name: from an installed module, or from a user's file."""

from __future__ import annotations

import hashlib
import importlib
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from skipjack import plugins
from skipjack.errors import SkipjackError
from skipjack.gpu.triton_compiler import GpuBuildError
from skipjack.solvers.gpu.source import files_of
from skipjack.user_modules import load_file

_loaded: dict[str, tuple[int, ModuleType]] = {}
"""By path: when it was loaded, and what."""


def load_function(module: str, function: str) -> Any:
    """The function that ``triton.jit`` made; `GpuBuildError` in one sentence if there is none."""
    found = getattr(_module(module, function), function, None)
    if found is None:
        raise GpuBuildError(f"{module} has no function {function!r}")
    return _jitted(found, module, function)


def _jitted(found: Any, module: str, function: str) -> Any:
    """Without the tuners and heuristics that may be wrapped around it."""
    from triton.runtime.jit import JITFunction

    while not isinstance(found, JITFunction) and hasattr(found, "fn"):
        if type(found).__name__ == "InterpretedFunction":
            raise GpuBuildError(
                "TRITON_INTERPRET=1 makes Triton interpret instead of compile: unset it"
            )
        found = found.fn
    if not isinstance(found, JITFunction):
        raise GpuBuildError(f"{function!r} of {module} is no function made by triton.jit")
    return found


def _module(name: str, function: str) -> ModuleType:
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        if (plugin := plugins.module_of(name)) is not None:
            return plugin
        changed = max(path.stat().st_mtime_ns for path in files_of(name, function))
        return _from_file(Path(name).resolve(), changed)
    except SkipjackError as error:
        raise GpuBuildError(str(error)) from None
    except Exception as error:
        raise GpuBuildError(
            f"{name} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _from_file(path: Path, changed: int) -> ModuleType:
    """Loaded anew when it was changed: a build worker outlives an edit."""
    known = _loaded.get(str(path))
    if known and changed <= known[0]:
        return known[1]
    if known:
        _forget_neighbours(path.parent)
    now = time.time_ns()
    name = f"skipjack_user_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module = load_file(name, path)
    _loaded[str(path)] = (now, module)
    return module


def _forget_neighbours(folder: Path) -> None:
    """Modules that the file imported from its folder may have been changed with it."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and Path(file).parent == folder:
            del sys.modules[name]
