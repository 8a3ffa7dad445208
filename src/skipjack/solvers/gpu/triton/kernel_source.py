"""Triton functions by module and name: their canonical text, and the functions themselves."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from skipjack import plugins
from skipjack.errors import SkipjackError
from skipjack.gpu import GpuBuildError
from skipjack.plugins import load_file
from skipjack.solvers.python_source import ModuleNames, read_module

# The canonical text of a Triton function: what decides its machine code, and nothing else.
#
# It consists of the function, the functions that it calls and the constants that it uses, from its
# module and from neighbouring modules. Comments, docstrings, blank lines, the order of definitions
# and the rest of the module are left out, so that editing them causes no rebuild. Nothing is
# imported.

_texts: dict[tuple[str, str], tuple[tuple[tuple[str, int], ...], str]] = {}


@dataclass(frozen=True, slots=True)
class _Definition:
    """A name at module level in a file."""

    path: Path
    name: str


def kernel_text(module: str, function: str) -> str:
    """The canonical text of a function; `module` is a name, or the path of a ``.py`` file."""
    return _known(module, function)[1]


def source_files(module: str, function: str) -> list[Path]:
    """The files that the canonical text is taken from."""
    return [Path(path) for path, _ in _known(module, function)[0]]


def _known(module: str, function: str) -> tuple[tuple[tuple[str, int], ...], str]:
    found = _texts.get((module, function))
    if found is None or any(_stamp(Path(path)) != stamp for path, stamp in found[0]):
        found = _texts[(module, function)] = _collect(file_of(module), function)
    return found


def file_of(module: str) -> Path:
    """The file of a module, without loading it; `SkipjackError` if there is none."""
    if module.endswith(".py"):
        path = Path(module).resolve()
        if not path.is_file():
            raise SkipjackError(f"there is no file {module}")
        return path
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.origin or not spec.origin.endswith(".py"):
        raise SkipjackError(f"there is no Python module {module}")
    return Path(spec.origin).resolve()


def _collect(path: Path, function: str) -> tuple[tuple[tuple[str, int], ...], str]:
    start = _Definition(path, function)
    if not _defines(path, function):
        raise SkipjackError(f"{path.name} has no function {function!r}")
    queue, texts, stamps = deque([start]), dict[_Definition, str](), dict[str, int]()
    while queue:
        place = queue.popleft()
        if place in texts:
            continue
        stamp = _stamp(place.path)
        stamps[str(place.path)] = stamp
        names = read_module(place.path, stamp)
        texts[place] = names.text(place.name)
        queue.extend(_used(names, place.name))
    rest = sorted((place for place in texts if place != start), key=lambda one: _label(one, path))
    parts = [f"# {_label(place, path)}\n{texts[place]}" for place in [start, *rest]]
    return tuple(sorted(stamps.items())), "\n".join(parts)


def _label(place: _Definition, start: Path) -> str:
    """A label that tells equal names of two files apart, independent of their paths."""
    where = "" if place.path == start else f"{place.path.stem}."
    return f"{where}{place.name}"


def _used(names: ModuleNames, name: str) -> Iterator[_Definition]:
    """The definitions that one definition uses, in this file and in files that it imports from."""
    for path in names.used_by(name):
        first, _, rest = path.partition(".")
        if first in names.definitions:
            yield _Definition(names.path, first)
        elif first in names.imports:
            # A name of a library stands for itself; its definition is not followed.
            found = _imported(names, names.imports[first], rest)
            yield found or _Definition(names.path, first)
        else:
            yield from _starred(names, first)


def _imported(names: ModuleNames, target: str, rest: str) -> _Definition | None:
    """`target` is ``a.b.c``, a module or a name in one; `rest` are the attributes read from it."""
    parts = [*target.split("."), *(rest.split(".") if rest else [])]
    for length in range(len(parts), 0, -1):
        file = names.neighbour(parts[:length])
        if file is not None:
            known = length < len(parts) and _defines(file, parts[length])
            return _Definition(file, parts[length]) if known else None
    return None


def _starred(names: ModuleNames, name: str) -> Iterator[_Definition]:
    for module in names.stars:
        file = names.neighbour(module.split("."))
        if file is not None and _defines(file, name):
            yield _Definition(file, name)
            return


def _defines(file: Path, name: str) -> bool:
    found = read_module(file, _stamp(file))
    return name in found.definitions or name in found.imports


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1


# Triton functions by name: from an installed module, or from a user's file.

_loaded: dict[str, tuple[int, ModuleType]] = {}
"""Modules by path, with the time when each was loaded."""


def load_function(module: str, function: str) -> Any:
    """The function that ``triton.jit`` made; `GpuBuildError` if there is none."""
    found = getattr(_module(module, function), function, None)
    if found is None:
        raise GpuBuildError(f"{module} has no function {function!r}")
    return _jitted(found, module, function)


def _jitted(found: Any, module: str, function: str) -> Any:
    """The function without the tuners and heuristics that may wrap it."""
    from triton.runtime.jit import JITFunction

    while not isinstance(found, JITFunction) and hasattr(found, "fn"):
        if type(found).__name__ == "InterpretedFunction":
            raise GpuBuildError(
                "TRITON_INTERPRET=1 makes Triton interpret instead of compile: unset it"
            )
        found = found.fn
    if not isinstance(found, JITFunction):
        raise GpuBuildError(f"{function!r} of {module} is not a function made by triton.jit")
    return found


def _module(name: str, function: str) -> ModuleType:
    try:
        if not name.endswith(".py"):
            return importlib.import_module(name)
        if (plugin := plugins.module_of(name)) is not None:
            return plugin
        changed = max(path.stat().st_mtime_ns for path in source_files(name, function))
        return _from_file(Path(name).resolve(), changed)
    except SkipjackError as error:
        raise GpuBuildError(str(error)) from None
    except Exception as error:
        raise GpuBuildError(
            f"{name} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _from_file(path: Path, changed: int) -> ModuleType:
    """Load the file again if it was changed: a build worker may outlive an edit."""
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
    """Unload the modules that the file imported from its folder: they may have changed, too."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and name != "__main__" and Path(file).parent == folder:
            del sys.modules[name]
