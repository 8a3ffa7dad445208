"""Users' operations, solvers, searchers and formats: how plug-ins are found and imported."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import logging
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TextIO

from skipjack.errors import MissingFileError, UsageError
from skipjack.settings import PLUGIN_FOLDERS, PLUGINS

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


# Users' own operations, solvers and searchers: modules or files that register them on import.
#
# They are named by ``SKIPJACK_PLUGINS`` or ``--plugin``, and imported in the main process and in
# all workers. Those of installed distributions are found by their `entry_points` and need not be
# named.

VARIABLE = PLUGINS.name
FOLDERS = PLUGIN_FOLDERS.name
"""Set for workers: the folders of plug-in modules, which workers search last. They search neither
the current directory nor that of the program that started them."""
_loaded: dict[str, None] = {}
"""In the order of loading, which workers keep, as a plug-in may need an earlier one."""


def load(names: tuple[str, ...]) -> None:
    """Import each module or ``.py`` file once, here and in all workers that start later."""
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
    """The names of loaded plug-ins; files by their absolute paths."""
    return tuple(_loaded)


def module_of(path: str) -> ModuleType | None:
    """The module of a plug-in's file, if it is loaded: loading it again would register it twice."""
    wanted = Path(path).resolve()
    for name in _loaded:
        module = sys.modules.get(_module_name(Path(name)) if name.endswith(".py") else name)
        if module is not None and module.__file__ and Path(module.__file__).resolve() == wanted:
            return module
    return None


def load_from_environment() -> None:
    """Load the plug-ins of the environment; the first step of a worker."""
    load(tuple(name for name in PLUGINS.text().split(os.pathsep) if name))


def absolute(name: str) -> str:
    """The name with an absolute path if it is a file, as workers may have another directory."""
    if not name.endswith(".py"):
        return name
    path = str(Path(name).absolute())
    if os.pathsep in path:
        raise UsageError(
            f"plugin file {path} has {os.pathsep!r} in its path, which separates plug-ins in "
            f"{VARIABLE}; move it, or use a symbolic link without {os.pathsep!r}"
        )
    return path


def _folders() -> list[str]:
    return [folder for folder in PLUGIN_FOLDERS.text().split(os.pathsep) if folder]


def _folder_of(name: str) -> str:
    """A module's folder, unless it is one of this Python's; empty for a file."""
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
    """Turn exceptions of foreign code during import into a `UsageError` that names it."""
    try:
        # Standard output is for results: output of a plug-in must not mix with them.
        with _stdout_to_stderr:
            yield
    except UsageError:
        raise
    except SystemExit as error:
        raise UsageError(
            f"plugin {plugin} ends the program when it is imported (SystemExit: {error}); put code "
            'of a script under if __name__ == "__main__":'
        ) from None
    except Exception as error:
        raise UsageError(f"plugin {plugin} cannot be imported: {error}") from error


class _StdoutToStderr(contextlib.AbstractContextManager[None]):
    """Redirects standard output to standard error; several threads may enter it.

    `contextlib.redirect_stdout` would leave standard output redirected if two threads enter it
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
        raise MissingFileError(f"plugin file {path} does not exist")
    pass  # only needed for files

    load_file(_module_name(path), path)


def _module_name(path: Path) -> str:
    return f"skipjack_plugin_{path.stem}"


# Plug-ins of installed distributions, named by entry points of `GROUPS`.
#
# Each registry has an `EntryPoints` of its group. It uses it for names that it does not know, and
# for all names when it lists or tries everything: built-in operations are found without scanning
# distributions, which takes 25 ms the first time. A plug-in that cannot be loaded is left out with
# one warning, and the others are loaded.

log = logging.getLogger(__name__)

PREFIX = "skipjack."
GROUPS = tuple(f"{PREFIX}{kind}" for kind in ("operations", "solvers", "searchers", "formats"))


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """An entry point, and why it cannot be used; `failure` is empty if it can."""

    group: str
    name: str
    value: str
    """``module:attribute``, or ``module`` if importing it registers the plug-in."""
    distribution: str
    version: str
    failure: str = ""


class EntryPoints:
    """The entry points of one group, loaded by name or all at once, each at most once."""

    def __init__(
        self,
        kind: str,
        group: str,
        held: Callable[[str], object | None],
        add: Callable[[str, Any], None],
    ) -> None:
        """`held` returns what the registry has under a name, `add` adds an object to it."""
        self.kind = kind
        self.group = group
        self._held = held
        self._add = add
        self._outcomes: dict[EntryPoint, str] = {}
        """For each loaded entry point, why it cannot be used; empty if it can."""
        self._under_way = threading.local()
        self._hidden = False

    def is_empty(self) -> bool:
        """Whether no distribution has entry points of the group; loads none of them."""
        return not self._found()

    def load(self, name: str) -> None:
        """Add the plug-in of this name to the registry, if one exists and works."""
        for entry in self._found():
            if entry.name == name and self._outcome(entry) == "":
                return

    def load_all(self) -> None:
        """Load all, and add those that work to the registry."""
        for entry in self._found():
            self._outcome(entry)

    def plugins(self) -> list[InstalledPlugin]:
        """All plug-ins of the group, after loading them."""
        return [_described(entry, self._outcome(entry)) for entry in self._found()]

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide all entry points of the group within this context."""
        before, self._hidden = self._hidden, True
        try:
            yield
        finally:
            self._hidden = before

    def _found(self) -> tuple[EntryPoint, ...]:
        return () if self._hidden else _scan(self.group, tuple(sys.path))

    def _outcome(self, entry: EntryPoint) -> str:
        """Why an entry point cannot be used, after loading it once.

        Threads that load one at the same time find the same object. No lock is held while foreign
        code is imported.
        """
        under_way: set[EntryPoint] = self._under_way.__dict__.setdefault("entries", set())
        if entry in under_way:
            return ""  # the plug-in looks itself up while it is imported
        if entry not in self._outcomes:
            under_way.add(entry)
            try:
                self._register(entry)
                self._outcomes[entry] = ""
            except UsageError as error:
                self._outcomes[entry] = str(error)
                one = _described(entry)
                log.warning(
                    "%s %s of %s %s is left out: %s",
                    *(self.kind, one.name, one.distribution, one.version, error),
                )
            finally:
                under_way.discard(entry)
        return self._outcomes[entry]

    def _register(self, entry: EntryPoint) -> None:
        before = self._held(entry.name)
        with importing(entry.value):
            found = entry.load()
            if isinstance(found, ModuleType):
                if self._held(entry.name) is None:
                    raise UsageError(
                        f"module {entry.value} registers no {self.kind} {entry.name!r}; register "
                        f"it on import, or name it in the entry point: {entry.value}:attribute"
                    )
            else:
                self._add_found(entry.name, found, before)

    def _add_found(self, name: str, found: object, before: object | None) -> None:
        """Add an object, unless its module has already registered it."""
        held = self._held(name)
        if held is not None and (held is not before or held is found or type(held) is found):
            return
        try:
            self._add(name, found)
        except UsageError:
            if self._held(name) is held:
                raise
            # Another thread has added it since.


def named_instance(kind: str, name: str, found: Any) -> Any:
    """An object with the entry point's name; a class is instantiated."""
    try:
        made = found() if isinstance(found, type) else found
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"its {kind} {found.__name__} cannot be created: {reason}") from error
    own = getattr(made, "name", None)
    if not isinstance(own, str):
        raise UsageError(f"it is {made!r:.60}; name a class of {kind}s, or an instance")
    if own != name:
        raise UsageError(f"its {kind} is named {own!r}; give the entry point this name")
    return made


def unknown_entry_points() -> list[InstalledPlugin]:
    """Entry points of groups that look like those of Skipjack but are not read."""
    from importlib.metadata import distributions

    known = ", ".join(GROUPS)
    return [
        _described(entry, f"unknown group {entry.group}; choose from {known}")
        for distribution in distributions()
        for entry in distribution.entry_points
        if entry.group.startswith(PREFIX) and entry.group not in GROUPS
    ]


@functools.lru_cache(maxsize=2 * len(GROUPS))
def _scan(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points in the folders of `path`; read again when `sys.path` changes."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _described(entry: EntryPoint, failure: str = "") -> InstalledPlugin:
    name = entry.dist.name if entry.dist else "an unnamed distribution"
    version = entry.dist.version if entry.dist else ""
    return InstalledPlugin(entry.group, entry.name, entry.value, name, version, failure)


# Python files of users, loaded by their paths: plug-ins, and kernels to be tuned.


class _CurrentSource(importlib.machinery.SourceFileLoader):
    """Always compiles the current text of a file.

    Cached byte code is checked by seconds and size only, so it may be that of an earlier text.
    """

    def path_stats(self, path: str) -> Mapping[str, object]:
        """Raise, so that byte code is neither read nor written."""
        raise OSError(f"byte code of {path} is not cached")


def load_file(name: str, path: Path) -> ModuleType:
    """Run a file as the module of this name; it may import from its own folder."""
    loader = _CurrentSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    try:
        loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
