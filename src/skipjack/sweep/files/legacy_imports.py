"""Imports of a sweep file: Skipjack's searchers under their old names, and nearby modules.

``from library import Bisect`` and ``from scripts.autotune.library import Bisect`` import the same
module with Skipjack's classes. These modules are in `sys.modules` only while the file's code runs,
so that they do not affect other files or Skipjack itself.
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
"""Guards `sys.modules`, which all threads share."""


class FileImports:
    """The modules of one sweep file, which can be imported only while its code runs."""

    def __init__(self, path: Path, module: ModuleType) -> None:
        self._directory = path.absolute().parent
        self._modules = {module.__name__: module, **_legacy_modules(self._search_path())}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make the modules importable while the file or one of its hooks runs. May be nested."""
        with _SWAPPING:
            before = dict(sys.modules)
            path_before = sys.path[:]
            sys.path[:0] = self._search_path()
            sys.modules.update(self._modules)
            try:
                # Standard output is for machine-readable results, so prints of a file go to stderr.
                with redirect_stdout(sys.stderr):
                    yield
            finally:
                sys.path[:] = path_before
                self._put_back(before)

    def _search_path(self) -> list[str]:
        # Files of grid.py import from the root of its tree, in which it was run.
        return [str(self._directory), os.getcwd()]  # noqa: PTH109

    def _put_back(self, before: dict[str, ModuleType]) -> None:
        """Store the file's own modules for its next call; leave other imports as they are."""
        for name, module in list(sys.modules.items()):
            if name not in before and self._is_own(name, module):
                self._modules[name] = module
        for name in self._modules:
            if name in before:
                sys.modules[name] = before[name]
            else:
                sys.modules.pop(name, None)

    def _is_own(self, name: str, module: ModuleType) -> bool:
        """Whether a module is in the directory of the file.

        Packages installed in an environment below it are not: they cannot be imported twice.
        """
        top = name.split(".")[0]
        source = getattr(module, "__file__", None)
        if top in _PACKAGES or not source:
            return top in _PACKAGES
        try:
            below = Path(source).absolute().relative_to(self._directory)
        except ValueError:
            return False
        return below.parts[0] in (top, f"{top}.py")

    def warn_about_library_file(self, source: str) -> None:
        """Warn if a `library.py` in the directory of the file is not what the file imports."""
        own_library = self._directory / f"{LIBRARY}.py"
        if LIBRARY in source and own_library.is_file():
            _log.warning(
                "%s is not imported by `import library`, which imports Skipjack's searchers in a "
                "sweep file; rename your file to import it",
                own_library,
            )


def _legacy_modules(search_path: list[str]) -> dict[str, ModuleType]:
    library = _library()
    modules = {LIBRARY: library, f"{_PACKAGES[-1]}.{LIBRARY}": library}
    for name in _PACKAGES:
        package = ModuleType(name)
        # The other modules of the user's own `scripts` package stay importable.
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
