"""The canonical text of a Triton function: what decides its machine code, and nothing else.

It holds the function, the functions that it calls and the constants that it uses, from its own
module and from modules next to it. Comments, docstrings, blank lines, the order of definitions and
all else of a module are left out, so that editing them builds nothing again. Nothing is imported.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skipjack.errors import SkipjackError
from skipjack.solvers.module_names import ModuleNames, read_module

_texts: dict[tuple[str, str], tuple[tuple[tuple[str, int], ...], str]] = {}


@dataclass(frozen=True, slots=True)
class _Place:
    """A name at the top of a file."""

    path: Path
    name: str


def kernel_text(module: str, function: str) -> str:
    """Of a function of a module (by its name, or by the path of a ``.py`` file)."""
    return _known(module, function)[1]


def files_of(module: str, function: str) -> list[Path]:
    """The files that the text is from."""
    return [Path(path) for path, _ in _known(module, function)[0]]


def _known(module: str, function: str) -> tuple[tuple[tuple[str, int], ...], str]:
    found = _texts.get((module, function))
    if found is None or any(_stamp(Path(path)) != stamp for path, stamp in found[0]):
        found = _texts[(module, function)] = _collect(file_of(module), function)
    return found


def file_of(module: str) -> Path:
    """Where a module is, without loading it; `SkipjackError` if it is nowhere."""
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
    start = _Place(path, function)
    if not _defines(path, function):
        raise SkipjackError(f"{path.name} has no function {function!r}")
    queue, texts, stamps = deque([start]), dict[_Place, str](), dict[str, int]()
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


def _label(place: _Place, start: Path) -> str:
    """Tells equal names of two files apart, wherever the files lie."""
    where = "" if place.path == start else f"{place.path.stem}."
    return f"{where}{place.name}"


def _used(names: ModuleNames, name: str) -> Iterator[_Place]:
    """What one definition needs, of this file and of files that it imports from."""
    for path in names.used_by(name):
        first, _, rest = path.partition(".")
        if first in names.definitions:
            yield _Place(names.path, first)
        elif first in names.imports:
            # Of a library it is told which one, not how it is made.
            found = _imported(names, names.imports[first], rest)
            yield found or _Place(names.path, first)
        else:
            yield from _starred(names, first)


def _imported(names: ModuleNames, target: str, rest: str) -> _Place | None:
    """`target` is ``a.b.c``: a module, or a name in one; `rest` is what was asked of it."""
    parts = [*target.split("."), *(rest.split(".") if rest else [])]
    for length in range(len(parts), 0, -1):
        file = names.neighbour(parts[:length])
        if file is not None:
            known = length < len(parts) and _defines(file, parts[length])
            return _Place(file, parts[length]) if known else None
    return None


def _starred(names: ModuleNames, name: str) -> Iterator[_Place]:
    for module in names.stars:
        file = names.neighbour(module.split("."))
        if file is not None and _defines(file, name):
            yield _Place(file, name)
            return


def _defines(file: Path, name: str) -> bool:
    found = read_module(file, _stamp(file))
    return name in found.definitions or name in found.imports


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return -1
