"""Adapters from scripted searchers to `Searcher`, and from `Searcher` to scripted searchers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from skipjack import search
from skipjack.core import (
    Config,
    ConstraintLike,
    Direction,
    Parameter,
    ParameterSpace,
    Space,
    Status,
    Trial,
    Value,
)
from skipjack.errors import SkipjackError, UsageError, foreign_code
from skipjack.search.generator import Ask, Batches, GeneratorSearcher
from skipjack.search.points import (
    MissingStatError,
    Point,
    Points,
    Repeat,
    Run,
    SearcherInterface,
    listed,
    plain,
)
from skipjack.search.searcher import SearchContext, Searcher, best

log = logging.getLogger(__name__)

MAX_REFUSED = 100_000
"""A search is ended after this many points in a row that are not in the space."""


class _AnyPoint:
    """The space of a search that makes its own points: it contains every config."""

    def default(self) -> Config:
        return Config.of({})

    def contains(self, config: Config) -> bool:
        return True

    def sample(self, rng: np.random.Generator) -> Config:
        return self.default()

    def neighbours(self, config: Config) -> tuple[Config, ...]:
        return ()

    def key(self, config: Config) -> str:
        return config.key

    def features(self, config: Config) -> tuple[float, ...]:
        return ()


class ScriptedSearcher(GeneratorSearcher):
    """A scripted searcher as a `Searcher`.

    A search that does not depend on results returns as many points as requested; any other returns
    one and waits for its trial. Points that were told before, perhaps in an earlier run of the
    study, are answered from memory, unless yielded as `Repeat`: then the config is requested again.
    Trials of an earlier run are told first, in their order; each further trial of a config answers
    one `Repeat`. Points that are not in `space` are answered as infeasible.
    """

    def __init__(self, searcher: SearcherInterface, space: Space | None = None) -> None:
        context = SearchContext(space or _AnyPoint(), repeats=True)
        super().__init__(partial(_search, lambda: searcher), context, starts=False)


def as_search(make: Callable[[], SearcherInterface]) -> Callable[[SearchContext], Searcher]:
    """A factory for `skipjack.search.register` from one of scripted searchers.

    The default and the seeds are requested first, and the budget is observed. Configs that were
    tried before are answered from memory, also if they are yielded as `Repeat`.
    """
    return lambda context: GeneratorSearcher(partial(_search, make), context)


def _search(make: Callable[[], SearcherInterface], context: SearchContext) -> Batches:
    searcher, space = make(), context.space
    dynamic = searcher.is_dynamic
    points = _started(searcher)
    run: Run | None = None
    refused = 0
    while True:
        with foreign_code(_name(searcher)):
            try:
                point = next(points) if run is None else points.send(run)
            except StopIteration:
                return
        config = _whole_point(searcher, point, space)
        if space.contains(config):
            refused = 0
            trials = yield Ask([config], wait=dynamic, again=isinstance(point, Repeat))
            run = Run.of(trials[0]) if dynamic else None
            continue
        refused += 1
        if refused == MAX_REFUSED:
            log.info("search ended: %d points in a row are not in the space", MAX_REFUSED)
            return
        reason = "the space does not contain it"
        run = Run.of(Trial(config, Status.INFEASIBLE, reason=reason))


def _started(searcher: SearcherInterface) -> Points:
    with foreign_code(_name(searcher)):
        points = searcher.generate()
    if not hasattr(points, "send"):
        raise UsageError(
            f"generate of {_name(searcher)} must be a generator function that yields points"
        )
    return points


def _whole_point(searcher: SearcherInterface, point: object, space: Space) -> Config:
    """The config of a yielded point, with defaults for the parameters that it leaves out."""
    if not isinstance(point, Mapping):
        raise UsageError(f"{_name(searcher)} yielded {point!r}, which is not a dict of parameters")
    settings = {name: plain(value) for name, value in point.items()}
    whole = space.default()
    if not isinstance(space, _AnyPoint):
        settings = {
            name: _checked_value(searcher, whole, name, settings[name]) for name in settings
        }
    try:
        return Config.of({**whole, **settings})
    except TypeError as error:
        raise UsageError(
            f"{_name(searcher)} yielded {dict(point)}, which cannot be stored: {error}"
        ) from None


def _checked_value(searcher: SearcherInterface, whole: Config, name: str, value: Any) -> Any:
    if name not in whole:
        raise UsageError(
            f"{_name(searcher)} yielded {name}={value!r}, but there is no such parameter; "
            f"the parameters are {', '.join(whole)}"
        )
    kind = type(whole[name])
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise UsageError(
            f"{_name(searcher)} yielded {name}={value!r}, but values of {name} "
            f"are of type {kind.__name__}, not {type(value).__name__}"
        )
    return value


def _name(searcher: SearcherInterface) -> str:
    return f"searcher {type(searcher).__name__}"


class Named(SearcherInterface):
    """A searcher by name (genetic, simulated_annealing, ...) over lists of values.

    The search starts from the first value of each list. The value of a run is its `metric`.
    `constraints` are expressions over the parameters, or functions of them.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Sequence[Value]],
        *,
        metric: str,
        direction: Direction = "max",
        seed: int = 0,
        trials: int | None = None,
        constraints: Sequence[ConstraintLike] = (),
    ) -> None:
        self.name = search.check_name(name)
        if direction not in ("min", "max"):
            raise UsageError(f"direction of {self} must be 'min' or 'max', not {direction!r}")
        space = ParameterSpace(
            [Parameter(each, listed(values, each, "Named")) for each, values in parameters.items()],
            constraints,
        )
        space.default()  # report an empty space now and not at the first run
        self._context = SearchContext(space, seed=seed, trials=trials)
        self.metric = metric
        self._sign = 1 if direction == "min" else -1
        self._trials: list[Trial] = []

    def __str__(self) -> str:
        return f"Named({self.name!r})"

    @property
    def is_dynamic(self) -> bool:
        return self.name not in ("exhaustive", "random")

    def generate(self) -> Points:
        """Request a config, run it, and tell its trial, repeatedly."""
        searcher = search.create(self.name, self._context)
        self._trials = []
        while configs := searcher.ask(1):
            run = yield dict(configs[0])
            trial = self._trial(configs[0], run)
            self._trials.append(trial)
            searcher.tell(trial)

    def get_best(self) -> Point:
        trial = best(self._trials)
        if trial is None:
            raise SkipjackError(
                f"no feasible point: no run of {self} has the metric {self.metric!r}"
            )
        return dict(trial.config)

    def _trial(self, config: Config, run: Run | None) -> Trial:
        if run is None or not run.ok:
            return Trial(config, Status.NO_RESULT if run is None else run.status)
        try:
            value = run[self.metric]
        except MissingStatError as error:
            raise UsageError(f"{self} uses the metric {self.metric!r}, but {error}") from None
        if isinstance(value, bool) or not isinstance(value, Real):
            raise UsageError(
                f"{self} uses the metric {self.metric!r}, but {value!r} is not a number"
            )
        return Trial(config, value=self._sign * float(value))
