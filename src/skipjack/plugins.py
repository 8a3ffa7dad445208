"""Users' own operations, solvers and searchers: modules or files that register them when imported.

Named by ``SKIPJACK_PLUGINS`` or ``--plugin``; imported in the main process and in every worker.
Those of installed distributions are found by their `entry_points` and need not be named.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TextIO

from skipjack.errors import MissingFileError, UsageError
from skipjack.settings import PLUGIN_FOLDERS, PLUGINS

VARIABLE = PLUGINS.name
FOLDERS = PLUGIN_FOLDERS.name
"""Set for workers: where modules that are plug-ins were found, which is where workers look last.
They look neither in the current directory nor beside the program that started them."""
_loaded: dict[str, None] = {}
"""In the order of loading, which workers keep: a plugin may build on the one before."""


def load(names: tuple[str, ...]) -> None:
    """Import each module or ``.py`` file once, here and in all workers started from now on."""
    sys.path += [folder for folder in _folders() if folder not in sys.path]
    for name in map(absolute, names):
        if name not in _loaded:
            _import(name)
            _loaded[name] = None
    if _loaded:
        os.environ[VARIABLE] = os.pathsep.join(_loaded)
        found = dict.fromkeys([*_folders(), *filter(None, map(_folder_of, _loaded))])
        os.environ[FOLDERS] = os.pathsep.join(found)


def loaded() -> tuple[str, ...]:
    """The names of those that were loaded, files by their whole path."""
    return tuple(_loaded)


def module_of(path: str) -> ModuleType | None:
    """The module that a plug-in's file was loaded as: to run it twice would register it twice."""
    wanted = Path(path).resolve()
    for name in _loaded:
        module = sys.modules.get(_module_name(Path(name)) if name.endswith(".py") else name)
        if module is not None and module.__file__ and Path(module.__file__).resolve() == wanted:
            return module
    return None


def load_from_environment() -> None:
    """What a worker does first."""
    load(tuple(name for name in PLUGINS.text().split(os.pathsep) if name))


def absolute(name: str) -> str:
    """A file is known by one name, wherever a worker may stand."""
    if not name.endswith(".py"):
        return name
    path = str(Path(name).absolute())
    if os.pathsep in path:
        raise UsageError(
            f"plugin file {path} has {os.pathsep!r} in its path, which stands between two plug-ins "
            f"in {VARIABLE}; move it, or name it by a symbolic link without one"
        )
    return path


def _folders() -> list[str]:
    return [folder for folder in PLUGIN_FOLDERS.text().split(os.pathsep) if folder]


def _folder_of(name: str) -> str:
    """Where a module was found, if not among those of this Python; empty for a file."""
    top = None if name.endswith(".py") else sys.modules.get(name.partition(".")[0])
    file = getattr(top, "__file__", None)
    if file is None:
        return ""
    path = Path(file).absolute()
    folder = path.parents[1] if path.stem == "__init__" else path.parent
    own = set(sysconfig.get_paths().values())
    return "" if str(folder) in own or os.pathsep in str(folder) else str(folder)


def _import(name: str) -> None:
    with importing(name):
        if name.endswith(".py"):
            _import_file(Path(name))
        else:
            importlib.import_module(name)


@contextlib.contextmanager
def importing(plugin: str) -> Iterator[None]:
    """What foreign code raises while it is imported becomes a `UsageError` that names it."""
    try:
        # Standard output is for results: what a plugin prints must not get between them.
        with _stdout_to_stderr:
            yield
    except UsageError:
        raise
    except SystemExit as error:
        raise UsageError(
            f"plugin {plugin} ends the program when it is imported (SystemExit: {error}); put what "
            'is to run as a script under if __name__ == "__main__":'
        ) from None
    except Exception as error:
        raise UsageError(f"plugin {plugin} cannot be imported: {error}") from error


class _StdoutToStderr(contextlib.AbstractContextManager[None]):
    """Prints to standard error while it is entered, in several threads perhaps.

    `contextlib.redirect_stdout` would leave standard output redirected where two threads enter it
    before the first one leaves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: TextIO = sys.stdout

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before, sys.stdout = sys.stdout, sys.stderr
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                sys.stdout = self._before


_stdout_to_stderr = _StdoutToStderr()


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise MissingFileError(f"plugin file {path} is not there")
    from skipjack.user_modules import load_file  # a program without such files needs none of it

    load_file(_module_name(path), path)


def _module_name(path: Path) -> str:
    return f"skipjack_plugin_{path.stem}"
