"""Users' own operations, solvers and searchers: modules or files that register them when imported.

Named by ``SKIPJACK_PLUGINS`` or ``--plugin``; imported in the main process and in every worker.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
from pathlib import Path

from skipjack.errors import UsageError

VARIABLE = "SKIPJACK_PLUGINS"
_loaded: dict[str, None] = {}
"""In the order of loading, which workers keep: a plugin may build on the one before."""


def load(names: tuple[str, ...]) -> None:
    """Import each module or ``.py`` file once, here and in all workers started from now on."""
    for name in map(_absolute, names):
        if name not in _loaded:
            _import(name)
            _loaded[name] = None
    if _loaded:
        os.environ[VARIABLE] = os.pathsep.join(_loaded)


def load_from_environment() -> None:
    """What a worker does first."""
    load(tuple(name for name in os.environ.get(VARIABLE, "").split(os.pathsep) if name))


def _absolute(name: str) -> str:
    """A file is known by one name, wherever a worker may stand."""
    return str(Path(name).absolute()) if name.endswith(".py") else name


def _import(name: str) -> None:
    try:
        # Standard output is for results: what a plugin prints must not get between them.
        with contextlib.redirect_stdout(sys.stderr):
            if name.endswith(".py"):
                _import_file(Path(name))
            else:
                importlib.import_module(name)
    except UsageError:
        raise
    except SystemExit as error:
        raise UsageError(
            f"plugin {name} ends the program when it is imported (SystemExit: {error}); put what "
            'is to run as a script under if __name__ == "__main__":'
        ) from None
    except Exception as error:
        raise UsageError(f"plugin {name} cannot be imported: {error}") from error


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise UsageError(f"plugin file {path} is not there")
    spec = importlib.util.spec_from_file_location(f"skipjack_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise UsageError(f"plugin file {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # for what it imports from its own folder
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
