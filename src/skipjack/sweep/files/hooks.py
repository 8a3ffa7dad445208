"""The META functions of a sweep file: found, checked, and wrapped so that mistakes have a line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skipjack.core.config import Config
from skipjack.core.naming import did_you_mean
from skipjack.core.trial import Status
from skipjack.errors import ForeignError, UsageError
from skipjack.search.scripted import SearcherInterface, Stats
from skipjack.sweep.files import search_hook
from skipjack.sweep.files.blame import blaming_file, place
from skipjack.sweep.files.legacy_imports import FileImports
from skipjack.sweep.files.values import check_parameter_names

_log = logging.getLogger(__name__)

SEARCH = search_hook.NAME
NO_REBUILD = "META_get_no_rebuild_params"
IS_VALID = "META_is_config_valid"
SYNTHETIC = "META_get_synthetic"
KNOWN = (NO_REBUILD, IS_VALID, SEARCH, SYNTHETIC)


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of one file, by their names. Each is called through `guard`."""

    path: Path
    functions: Mapping[str, Callable[..., Any]]
    lines: Mapping[str, int]
    imports: FileImports

    @contextmanager
    def guard(self, name: str) -> Iterator[None]:
        """What surrounds every call of a hook."""
        with blaming_file(self.path, name, self.lines.get(name, 0)), self.imports.active():
            yield

    def where(self, name: str) -> str:
        """File and line of a hook."""
        return place(self.path, self.lines.get(name))

    def search(self) -> Callable[[], SearcherInterface] | None:
        """A factory of searchers; calls the hook once to see that it gives one."""
        callback = self.functions.get(SEARCH)
        if callback is None:
            return None
        return search_hook.SearchHook(callback, self.where(SEARCH), lambda: self.guard(SEARCH))

    def no_rebuild(self, parameters: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Names that need no build. Those that are no parameters are refused, or, as a searcher
        may have parameters of its own, only remarked upon."""
        if NO_REBUILD not in self.functions:
            return None
        with self.guard(NO_REBUILD):
            names = self.functions[NO_REBUILD]()
        where = self.where(NO_REBUILD)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            what = "a list with other things" if isinstance(names, list) else type(names).__name__
            raise UsageError(
                f"{where}: {NO_REBUILD} returned {what}; return a list of parameter names"
            )
        if SEARCH not in self.functions:
            check_parameter_names(names, parameters, NO_REBUILD, where)
        elif missing := [name for name in names if name not in parameters]:
            _log.warning(
                "%s: whether %s are parameters is not known, as %s makes the points",
                where,
                ", ".join(missing),
                SEARCH,
            )
        return tuple(dict.fromkeys(names))

    def is_valid(self, parameters: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool] | None:
        """Whether a whole config may be run; where it fails, values of `parameters` are told."""
        hook = self.functions.get(IS_VALID)
        if hook is None:
            return None

        def is_valid(config: Mapping[str, Any]) -> bool:
            try:
                with self.guard(IS_VALID):
                    return bool(hook(dict(config)))
            except ForeignError as error:
                point = {name: config[name] for name in parameters if name in config}
                at = f"; the point was {Config.of(point)}" if point else ""
                raise ForeignError(f"{error}{at}") from error

        return is_valid

    def synthetic(self) -> Callable[[Mapping[str, Any]], Stats] | None:
        """What a run would say."""
        hook = self.functions.get(SYNTHETIC)
        if hook is None:
            return None

        def synthetic(point: Mapping[str, Any]) -> Stats:
            with self.guard(SYNTHETIC):
                said = hook(dict(point))
            return _stats(said, self.where(SYNTHETIC))

        return synthetic


def check_hook_names(
    names: Mapping[str, object], lines: Mapping[str, int], path: Path
) -> dict[str, Callable[..., Any]]:
    """The hooks among a file's globals; one that is not known is refused by name."""
    hooks: dict[str, Callable[..., Any]] = {}
    for name, value in names.items():
        where = place(path, lines.get(name))
        if name in KNOWN and not callable(value):
            raise UsageError(f"{where}: {name} is a {type(value).__name__}; write a function")
        if not name.startswith("META") or not callable(value):
            continue
        if name not in KNOWN:
            raise UsageError(
                f"{where}: there is no hook {name}; the hooks are {', '.join(KNOWN)}"
                f"{did_you_mean(name, KNOWN)}"
            )
        hooks[name] = value
    return hooks


def _stats(said: object, where: str) -> Stats:
    if isinstance(said, Stats):
        return said
    data = said if isinstance(said, Mapping) else getattr(said, "data", None)
    if not isinstance(data, Mapping):
        raise UsageError(
            f"{where}: {SYNTHETIC} returned {type(said).__name__}; return a dict of what the run "
            "would say, as {'result_validity': 'VALID'}"
        )
    invalid = data.get("result_validity", "VALID") != "VALID"
    return Stats(data, Status.INVALID if invalid else Status.OK)
