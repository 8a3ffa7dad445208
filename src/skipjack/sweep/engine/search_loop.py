"""The searcher of a sweep, and the loop that runs the points it asks for."""

from __future__ import annotations

import inspect
import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from skipjack.core import Config, Parameter, ParameterSpace, Trial
from skipjack.errors import UsageError
from skipjack.search import SearchContext, Searcher, SearcherInterface, check_name, create
from skipjack.search.scripted import CartesianProduct, ScriptedSearcher
from skipjack.sweep.bench import fewest_builds
from skipjack.sweep.engine.measurer import SweepMeasurer
from skipjack.sweep.files import ALL, Scalar, SweepFile

# The loop of a sweep: it runs the points that the searcher asks for, with few builds.

log = logging.getLogger(__name__)

AHEAD = 256
"""Points requested at a time from a search that does not wait for results."""
MOST_REFUSED = 10_000
"""A search that asks for this many forbidden points in a row is an error."""
SOON = 16
"""Points announced to the benchmark, which may build them in advance."""

Refusal = Callable[[Config], str]
"""Returns why a point may not be run; empty if it may."""


class SearchLoop:
    """Runs a search until it ends or the budget is spent."""

    def __init__(
        self,
        measurer: SweepMeasurer,
        refusal: Refusal,
        stop: Callable[[], bool],
        on_tell: Callable[[Trial], None] = lambda trial: None,
    ) -> None:
        self._bench, self._measurer, self._options = measurer.bench, measurer, measurer.options
        self._refusal, self._stop, self._on_tell = refusal, stop, on_tell
        self._last_build = ""
        self.asked = self._refused = 0
        self.told: list[Trial] = []
        """The trials that the searcher was told, in order."""

    def search(self, searcher: Searcher, *, in_order: bool) -> None:
        """Ask and tell until the search is done or the budget is spent.

        `in_order` keeps the searcher's order; otherwise points that share a build run together.
        """
        while not self.over() and not searcher.done:
            if self._refused > MOST_REFUSED:
                raise UsageError(
                    f"the search has asked for {self._refused} forbidden points in a row"
                )
            batch = searcher.ask(self._room())
            if not batch:
                log.debug("the search returned no points and waits for none; it has ended")
                return
            points = self._allowed(searcher, batch)
            if not in_order:
                points = fewest_builds(
                    points, lambda one: self._bench.build_key(self._split(one)[0]), self._last_build
                )
            for at, point in enumerate(points):
                if self.over():
                    return
                self._announce(points[at : at + SOON])
                self._tell(searcher, self._measure(point))

    def over(self) -> bool:
        """Whether the budget is spent or the user pressed Ctrl-C."""
        budget = self._options.budget
        late = budget.seconds is not None and self._measurer.elapsed_s >= budget.seconds
        return self._stop() or late or self._room() <= 0

    def _room(self) -> int:
        trials = self._options.budget.trials
        return AHEAD if trials is None else min(AHEAD, trials - self.asked)

    def _measure(self, point: Config) -> Trial:
        self.asked += 1
        plain, settings = self._split(point)
        trial = self._measurer.measure(plain, "search", settings, self._options.repeats)
        self._last_build = self._bench.build_key(plain)
        return replace(trial, config=point)

    def _split(self, asked: Config) -> tuple[Config, Mapping[str, Any]]:
        """A point without the settings of a short run, and these settings."""
        joint = self._options.joint_screen
        if joint and all(asked.get(name) == value for name, value in joint.items()):
            kept = {name: value for name, value in asked.items() if name not in joint}
            return Config.of(kept), joint
        return asked, self._options.screen

    def _announce(self, points: Sequence[Config]) -> None:
        """Announce points whose builds will be needed."""
        split = [self._split(point) for point in points]
        self._bench.prepare([p for p, settings in split if not self._measurer.known(p, settings)])

    def _allowed(self, searcher: Searcher, batch: Sequence[Config]) -> list[Config]:
        """The points that may be run; the searcher is told at once that the others may not."""
        allowed = []
        for point in batch:
            plain, _ = self._split(point)
            if reason := self._refusal(plain):
                self._refused += 1
                trial = self._measurer.refuse(plain, reason)
                self._tell(searcher, replace(trial, config=point))
            else:
                self._refused = 0
                allowed.append(point)
        return allowed

    def _tell(self, searcher: Searcher, trial: Trial) -> None:
        self.told.append(trial)
        self._on_tell(trial)
        searcher.tell(trial)


# The searcher of a sweep: the file's own search, a named searcher, or all combinations.

_LARGEST_FILTERED = 200_000
"""Up to this many combinations, the rule filters all in advance; beyond, it checks each point."""


@dataclass(frozen=True, slots=True)
class ChosenSearch:
    """The searcher of a sweep, and what is known about it in advance."""

    searcher: Searcher
    name: str
    planned: int | None
    own: SearcherInterface | None = None
    """The search that the file defines; its `get_best` may name the best point."""
    at_most: bool = True
    """Whether the search may end before `planned` points."""


def choose_search(
    file: SweepFile,
    name: str | None,
    seed: int,
    trials: int | None,
    refusal: Refusal,
    load_search: SearcherInterface | None = None,
    *,
    as_listed: bool = False,
) -> ChosenSearch:
    """Choose the search: for a load, by name, the file's own, or every combination.

    With `as_listed`, the build parameters of a file of lists do not vary slowest either.
    """
    if load_search is not None:
        return ChosenSearch(ScriptedSearcher(load_search), "load", trials)
    if name in (None, ALL) and file.search is not None:
        own = file.search()
        return ChosenSearch(ScriptedSearcher(own), f"{file.name}:search", trials, own)
    if name in (None, ALL):
        product = CartesianProduct(
            {key: list(values) for key, values in file.parameters.items()},
            list(file.no_rebuild) if file.no_rebuild is not None and not as_listed else None,
        )
        count = math.prod(map(len, file.parameters.values()))
        planned = count if trials is None else min(count, trials)
        return ChosenSearch(ScriptedSearcher(product), ALL, planned, at_most=False)
    if not file.parameters:
        raise UsageError(f"{file.path} lists no parameter values; searcher {name} needs some")
    name = check_name(str(name))
    return ChosenSearch(_NamedSearch(file.parameters, name, seed, trials, refusal), name, trials)


class _NamedSearch:
    """A named searcher over the values of a file, which may be None or of mixed types."""

    def __init__(
        self,
        parameters: Mapping[str, Sequence[Scalar]],
        name: str,
        seed: int,
        trials: int | None,
        refusal: Refusal,
    ) -> None:
        self._mixed = {key for key, values in parameters.items() if not _uniform(values)}
        given = [
            Parameter(key, tuple(dict.fromkeys(self._code(key, v) for v in values)))
            for key, values in parameters.items()
        ]

        def allowed(**settings: Any) -> bool:
            return not refusal(self._decoded(Config(settings)))

        # A constraint names the parameters that it reads by its signature: here all of them.
        kinds = inspect.Parameter.KEYWORD_ONLY
        allowed.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(key, kinds) for key in parameters]
        )
        few = math.prod(map(len, parameters.values())) <= _LARGEST_FILTERED
        space = ParameterSpace(given, [allowed] if few else [])
        self._searcher = create(name, SearchContext(space, seed, trials))

    def ask(self, n: int) -> list[Config]:
        return [self._decoded(config) for config in self._searcher.ask(n)]

    def tell(self, trial: Trial) -> None:
        config = {key: self._code(key, value) for key, value in trial.config.items()}
        self._searcher.tell(replace(trial, config=Config(config)))

    @property
    def done(self) -> bool:
        return self._searcher.done

    def _code(self, key: str, value: Scalar) -> Any:
        return json.dumps(value) if key in self._mixed else value

    def _decoded(self, config: Config) -> Config:
        items = {k: json.loads(str(v)) if k in self._mixed else v for k, v in config.items()}
        return Config.of(items)


def _uniform(values: Sequence[Scalar]) -> bool:
    return len({type(value) for value in values}) == 1 and None not in values
