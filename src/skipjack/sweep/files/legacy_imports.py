"""What a sweep file's imports find: our searchers under their old names, and its neighbours.

Files say ``from library import Bisect`` or ``from scripts.autotune.library import Bisect``; all
of these are one module with Skipjack's classes. Nothing of it is left in `sys.modules` when the
file's code does not run, so that two files, or a file and its reader, do not meet there.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType

_log = logging.getLogger(__name__)

LIBRARY = "library"
_PACKAGES = ("scripts", "scripts.autotune")
_SWAPPING = threading.RLock()
"""There is one `sys.modules` for all threads."""


class FileImports:
    """The modules of one sweep file. They are there while its code runs, and only then."""

    def __init__(self, path: Path, module: ModuleType) -> None:
        self._directory = path.absolute().parent
        self._modules = {module.__name__: module, **_legacy_modules(self._search_path())}

    @contextmanager
    def active(self) -> Iterator[None]:
        """For the time in which the file, or a hook of it, runs. May be nested."""
        with _SWAPPING:
            before = dict(sys.modules)
            path_before = sys.path[:]
            sys.path[:0] = self._search_path()
            sys.modules.update(self._modules)
            try:
                # What a file prints is for a person; results for machines go to standard output.
                with redirect_stdout(sys.stderr):
                    yield
            finally:
                sys.path[:] = path_before
                self._put_back(before)

    def _search_path(self) -> list[str]:
        # grid.py ran in the root of its tree, from which its files import.
        return [str(self._directory), os.getcwd()]  # noqa: PTH109

    def _put_back(self, before: dict[str, ModuleType]) -> None:
        """Keep the file's own modules for its next call; leave others as any import does."""
        for name, module in list(sys.modules.items()):
            if name not in before and self._is_own(name, module):
                self._modules[name] = module
        for name in self._modules:
            if name in before:
                sys.modules[name] = before[name]
            else:
                sys.modules.pop(name, None)

    def _is_own(self, name: str, module: ModuleType) -> bool:
        """Whether a module is a neighbour of the file. An environment with installed packages may
        lie beside it, too; those cannot be imported twice."""
        top = name.split(".")[0]
        source = getattr(module, "__file__", None)
        if top in _PACKAGES or not source:
            return top in _PACKAGES
        try:
            below = Path(source).absolute().relative_to(self._directory)
        except ValueError:
            return False
        return below.parts[0] in (top, f"{top}.py")

    def warn_about_neighbour(self, source: str) -> None:
        """A `library.py` beside the file is not what `library` means in it, as ever."""
        neighbour = self._directory / f"{LIBRARY}.py"
        if LIBRARY in source and neighbour.is_file():
            _log.warning(
                "%s is not what `import library` finds in a sweep file: that is Skipjack's "
                "own; rename yours to import it",
                neighbour,
            )


def _legacy_modules(search_path: list[str]) -> dict[str, ModuleType]:
    library = _library()
    modules = {LIBRARY: library, f"{_PACKAGES[-1]}.{LIBRARY}": library}
    for name in _PACKAGES:
        package = ModuleType(name)
        # A user's tree has a `scripts` of its own, whose other modules stay importable.
        package.__path__ = [str(Path(place, *name.split("."))) for place in search_path]
        modules[name] = package
    modules[_PACKAGES[0]].__dict__["autotune"] = modules[_PACKAGES[1]]
    modules[_PACKAGES[1]].__dict__[LIBRARY] = library
    return modules


def _library() -> ModuleType:
    from skipjack.search import scripted

    module = ModuleType(LIBRARY, "Skipjack's searchers, as sweep files import them.")
    exported = {name: getattr(scripted, name) for name in scripted.__all__}
    module.__dict__.update(exported)
    module.__dict__["__all__"] = list(exported)
    return module
