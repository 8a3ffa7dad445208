"""The META functions of a sweep file: found, checked, and called so that an error names a line."""

from __future__ import annotations

import inspect
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from skipjack.core import Config, Status, did_you_mean
from skipjack.errors import ForeignError, UsageError
from skipjack.reading import numbered
from skipjack.search import Points, Run, SearcherInterface, Stats, config_of, do_send
from skipjack.sweep.files.legacy_imports import FileImports
from skipjack.sweep.files.sweep_file import check_parameter_names, locating_errors, location

# META_search_callback: three forms, distinguished by signature and returned value.
#
# =========================  ====================  ===============================================
# signature                  returns               what happens then
# =========================  ====================  ===============================================
# ``()``                     a searcher            the searcher is asked for points
# ``(past_runs)``            a point or None       the hook is called again before each point
# ``(past_runs)``            a searcher            as above; the list of runs is empty
# =========================  ====================  ===============================================

NAME = "META_search_callback"
MOST_REPEATS = 20
"""A search may repeat a point to see how much runs differ; more often is an error."""
PastRuns = list[tuple[dict[str, Any], Mapping[str, Any]]]
"""Points with the results of their runs, in the order of the runs."""
Guard = Callable[[], AbstractContextManager[None]]
"""The context in which a hook is called, see `Hooks.guard`."""


class SearchHook:
    """A factory of searchers, which calls the hook once already when it is created."""

    def __init__(self, callback: Callable[..., object], where: str, guard: Guard) -> None:
        self._callback, self._where, self._guard = callback, where, guard
        self._takes_past_runs = _takes_past_runs(callback, self._where)
        self._first: SearcherInterface | None = self._make()

    def __call__(self) -> SearcherInterface:
        """A new searcher; the first call returns the one made at creation."""
        searcher, self._first = self._first, None
        return GuardedSearcher(searcher or self._make(), self._guard)

    def _make(self) -> SearcherInterface:
        result = self._ask([])
        if _is_searcher(result):
            return cast(SearcherInterface, result)
        if self._takes_past_runs and (not result or isinstance(result, Mapping)):
            return _StatelessSearch(self._next_point, self._where)
        raise UsageError(f"{self._where}: {NAME} returned {_described(result)}; {self._wanted}")

    @property
    def _wanted(self) -> str:
        if self._takes_past_runs:
            return "return a searcher, a dict with the next point, or None to end the search"
        return "return a searcher such as Bisect(...); to return points, take past_runs"

    def _next_point(self, past_runs: PastRuns) -> Mapping[str, Any] | None:
        result = self._ask(past_runs)
        if not result:
            return None
        if not isinstance(result, Mapping) or not all(isinstance(name, str) for name in result):
            raise UsageError(
                f"{self._where}: {NAME} returned {_described(result)} after "
                f"{numbered(len(past_runs), 'run')}; return a dict with the next point, or None to "
                "end the search"
            )
        return result

    def _ask(self, past_runs: PastRuns) -> object:
        with self._guard():
            return self._callback(past_runs) if self._takes_past_runs else self._callback()


class _StatelessSearch(SearcherInterface):
    """The oldest form: a function from all past runs to the next point."""

    is_dynamic = True

    def __init__(self, ask: Callable[[PastRuns], Mapping[str, Any] | None], where: str) -> None:
        self._ask, self._where = ask, where

    def generate(self) -> Points:
        """Yield points until the hook returns none; each call gets a new list."""
        past: PastRuns = []
        asked: Counter[str] = Counter()
        while point := self._ask([(dict(cross), stats) for cross, stats in past]):
            key = config_of(point).key
            asked[key] += 1
            if asked[key] > MOST_REPEATS:
                raise ForeignError(
                    f"{self._where}: {NAME} returned the point {key} "
                    f"{asked[key]} times, so the search was stopped; return None to end a search"
                )
            run = yield dict(point)
            stats = Stats({}, Status.ERROR) if run is None else run.stats
            if not isinstance(stats, Mapping):
                stats = Stats(getattr(stats, "data", {}))
            past.append((dict(point), stats))


class GuardedSearcher(SearcherInterface):
    """A user's searcher whose errors name file and line."""

    def __init__(self, subject: SearcherInterface, guard: Guard) -> None:
        self.subject = subject
        self._guard = guard

    @property
    def is_dynamic(self) -> bool:
        with self._guard():
            return bool(self.subject.is_dynamic)

    def generate(self) -> Points:
        """Yield the points of the user's searcher."""
        with self._guard():
            points = self.subject.generate()
        run: Run | None = None
        while True:
            with self._guard():
                point = do_send(points, run)
            if point is None:
                return
            run = yield point

    def get_best(self) -> Mapping[str, Any]:
        """The best point of the user's searcher; NotImplementedError if it does not define one."""
        with self._guard():
            try:
                best = self.subject.get_best()
            except (NotImplementedError, AttributeError):
                best = None
        if not isinstance(best, Mapping):
            raise NotImplementedError(f"{type(self.subject).__name__} does not define a best point")
        return best


def _takes_past_runs(callback: Callable[..., object], where: str) -> bool:
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY]
    if needed or len([p for p in positional if p.default is p.empty]) > 1:
        raise UsageError(
            f"{where}: {NAME} takes {len(positional) + len(needed)} arguments; "
            "it must take none, or one for the past runs"
        )
    return bool(positional)


def _is_searcher(result: object) -> bool:
    if isinstance(result, SearcherInterface):
        return True
    if isinstance(result, type):
        return False
    return callable(getattr(result, "generate", None)) and hasattr(result, "is_dynamic")


def _described(result: object) -> str:
    if isinstance(result, type):
        return f"the class {result.__name__} instead of an instance"
    if result is None:
        return "None"
    return f"a {type(result).__name__}"


# The META functions of a sweep file: found, checked, and wrapped so that errors name a line.

_log = logging.getLogger(__name__)

SEARCH = NAME
NO_REBUILD = "META_get_no_rebuild_params"
IS_VALID = "META_is_config_valid"
SYNTHETIC = "META_get_synthetic"
KNOWN = (NO_REBUILD, IS_VALID, SEARCH, SYNTHETIC)


@dataclass(frozen=True, slots=True)
class Hooks:
    """The hooks of a file by name. Each is called within `guard`."""

    path: Path
    functions: Mapping[str, Callable[..., Any]]
    lines: Mapping[str, int]
    imports: FileImports

    @contextmanager
    def guard(self, name: str) -> Iterator[None]:
        """The context of every call of a hook: its imports, and errors with its line."""
        with locating_errors(self.path, name, self.lines.get(name, 0)), self.imports.active():
            yield

    def where(self, name: str) -> str:
        """File and line of a hook."""
        return location(self.path, self.lines.get(name))

    def search(self) -> Callable[[], SearcherInterface] | None:
        """A factory of searchers; calls the hook once to check that it returns one."""
        callback = self.functions.get(SEARCH)
        if callback is None:
            return None
        return SearchHook(callback, self.where(SEARCH), lambda: self.guard(SEARCH))

    def no_rebuild(self, parameters: Mapping[str, Any]) -> tuple[str, ...] | None:
        """Parameters whose change needs no build.

        Unknown names are an error, or a warning if a searcher may define further parameters.
        """
        if NO_REBUILD not in self.functions:
            return None
        with self.guard(NO_REBUILD):
            names = self.functions[NO_REBUILD]()
        where = self.where(NO_REBUILD)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            what = "a list with other values" if isinstance(names, list) else type(names).__name__
            raise UsageError(
                f"{where}: {NO_REBUILD} returned {what}; return a list of parameter names"
            )
        if SEARCH not in self.functions:
            check_parameter_names(names, parameters, NO_REBUILD, where)
        elif missing := [name for name in names if name not in parameters]:
            _log.warning(
                "%s: cannot check whether %s are parameters, because %s makes the points",
                where,
                ", ".join(missing),
                SEARCH,
            )
        return tuple(dict.fromkeys(names))

    def is_valid(self, parameters: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool] | None:
        """The rule for whole configs; its errors name the values of `parameters`."""
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
        """The function that makes synthetic results."""
        hook = self.functions.get(SYNTHETIC)
        if hook is None:
            return None

        def synthetic(point: Mapping[str, Any]) -> Stats:
            with self.guard(SYNTHETIC):
                value = hook(dict(point))
            return _as_stats(value, self.where(SYNTHETIC))

        return synthetic


def check_hook_names(
    names: Mapping[str, object], lines: Mapping[str, int], path: Path
) -> dict[str, Callable[..., Any]]:
    """The hooks among a file's globals; an unknown name is a `UsageError`."""
    hooks: dict[str, Callable[..., Any]] = {}
    for name, value in names.items():
        where = location(path, lines.get(name))
        if name in KNOWN and not callable(value):
            raise UsageError(f"{where}: {name} is a {type(value).__name__}; define a function")
        if not name.startswith("META") or not callable(value):
            continue
        if name not in KNOWN:
            raise UsageError(
                f"{where}: unknown hook {name}; the hooks are {', '.join(KNOWN)}"
                f"{did_you_mean(name, KNOWN)}"
            )
        hooks[name] = value
    return hooks


def _as_stats(value: object, where: str) -> Stats:
    if isinstance(value, Stats):
        return value
    data = value if isinstance(value, Mapping) else getattr(value, "data", None)
    if not isinstance(data, Mapping):
        raise UsageError(
            f"{where}: {SYNTHETIC} returned {type(value).__name__}; return a dict of metrics, "
            "such as {'result_validity': 'VALID'}"
        )
    invalid = data.get("result_validity", "VALID") != "VALID"
    return Stats(data, Status.INVALID if invalid else Status.OK)
