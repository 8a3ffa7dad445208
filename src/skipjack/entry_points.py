"""Plug-ins of installed distributions, named by entry points of `GROUPS`.

A registry keeps an `EntryPoints` of its group. It asks it for names that it does not know, and for
all names where it lists or tries everything: a built-in operation is found without looking at
distributions, which takes 25 ms the first time. A plug-in that cannot be loaded is left out with
one warning, and the others are loaded.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from skipjack.errors import UsageError
from skipjack.plugins import importing

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logging.getLogger(__name__)

PREFIX = "skipjack."
GROUPS = tuple(f"{PREFIX}{kind}" for kind in ("operations", "solvers", "searchers", "formats"))


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """An entry point, and why it cannot be used; that is empty if it can."""

    group: str
    name: str
    value: str
    """``module:attribute``, or ``module`` for one that registers what the name says."""
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
        """`held` gives what the registry has under a name, `add` puts an object into it."""
        self.kind = kind
        self.group = group
        self._held = held
        self._add = add
        self._outcomes: dict[EntryPoint, str] = {}
        """Why each that was loaded cannot be used; empty if it can."""
        self._under_way = threading.local()
        self._hidden = False

    def is_empty(self) -> bool:
        """Whether no distribution has any; none is loaded for that."""
        return not self._found()

    def load(self, name: str) -> None:
        """Add the plug-in of this name to the registry, if there is one that works."""
        for entry in self._found():
            if entry.name == name and self._outcome(entry) == "":
                return

    def load_all(self) -> None:
        """Load all, and add those that work to the registry."""
        for entry in self._found():
            self._outcome(entry)

    def plugins(self) -> list[InstalledPlugin]:
        """All plug-ins of the group, after they were loaded."""
        return [_described(entry, self._outcome(entry)) for entry in self._found()]

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """The group is empty inside."""
        before, self._hidden = self._hidden, True
        try:
            yield
        finally:
            self._hidden = before

    def _found(self) -> tuple[EntryPoint, ...]:
        return () if self._hidden else _scan(self.group, tuple(sys.path))

    def _outcome(self, entry: EntryPoint) -> str:
        """Why an entry point cannot be used, after it was loaded once.

        Threads that load one at the same time all find the same object: no lock is held while
        foreign code is imported.
        """
        under_way: set[EntryPoint] = self._under_way.__dict__.setdefault("entries", set())
        if entry in under_way:
            return ""  # the plug-in asks for itself while it is imported
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
                        f"it when the module is imported, or name it: {entry.value}:attribute"
                    )
            else:
                self._add_found(entry.name, found, before)

    def _add_found(self, name: str, found: object, before: object | None) -> None:
        """Add an object, unless its module has registered it itself."""
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
    """An object, made if its class is given, whose name is the entry point's."""
    try:
        made = found() if isinstance(found, type) else found
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UsageError(f"its {kind} {found.__name__} cannot be made: {reason}") from error
    own = getattr(made, "name", None)
    if not isinstance(own, str):
        raise UsageError(f"it is {made!r:.60}; name the class of the {kind}, or an object of it")
    if own != name:
        raise UsageError(f"its {kind} is named {own!r}; give the entry point this name")
    return made


def strays() -> list[InstalledPlugin]:
    """Entry points of groups that look like ours and that nothing reads."""
    from importlib.metadata import distributions

    known = ", ".join(GROUPS)
    return [
        _described(entry, f"nothing reads the group {entry.group}; choose from {known}")
        for distribution in distributions()
        for entry in distribution.entry_points
        if entry.group.startswith(PREFIX) and entry.group not in GROUPS
    ]


@functools.lru_cache(maxsize=2 * len(GROUPS))
def _scan(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points in the folders of `path`: when `sys.path` changes, they are read again."""
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def _described(entry: EntryPoint, failure: str = "") -> InstalledPlugin:
    name = entry.dist.name if entry.dist else "an unnamed distribution"
    version = entry.dist.version if entry.dist else ""
    return InstalledPlugin(entry.group, entry.name, entry.value, name, version, failure)
