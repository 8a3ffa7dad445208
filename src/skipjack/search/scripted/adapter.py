"""Scripted searchers where searchers are wanted: asked for configs and told trials."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from skipjack.core.config import Config
from skipjack.core.space import Space
from skipjack.core.trial import Status, Trial
from skipjack.errors import UsageError, blaming
from skipjack.search.generator import MAX_IDLE, Batch, GeneratorSearcher
from skipjack.search.points import Points, Repeat, Run, SearcherInterface, plain
from skipjack.search.searcher import SearchContext, Searcher

log = logging.getLogger(__name__)

MAX_REFUSED = 100_000
"""So many points in a row that are not in the space are no search."""
BATCH = 16
"""Points of a search that does not depend on results that are handed out at once to kernels."""


class Script:
    """The running generator of a searcher: whole configs out, runs in."""

    def __init__(
        self,
        searcher: SearcherInterface,
        space: Space | None = None,
        defaults: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._searcher = searcher
        self._space = space
        self._defaults = defaults
        self._points: Points | None = None
        self.repeats = False
        """Whether the last config is wanted again though it is known."""

    def next(self, run: Run | None) -> Config | None:
        """The next config of the space; None at the end. `run` is what came of the one before.

        The searcher is told at once that points outside of the space are infeasible.
        """
        for _ in range(MAX_REFUSED):
            config = self._advance(run)
            run = None if config is None else self.refusal(config)
            if run is None:
                return config
        log.info("search ended: %d points in a row are not in the space", MAX_REFUSED)
        return None

    def _advance(self, run: Run | None) -> Config | None:
        with blaming(f"searcher {type(self._searcher).__name__}"):
            try:
                if self._points is None:
                    self._points = started(self._searcher)
                    point = next(self._points)
                else:
                    point = self._points.send(run)
            except StopIteration:
                return None
        self.repeats = isinstance(point, Repeat)
        return whole_point(self._searcher, point, self._space, self._defaults)

    def refusal(self, config: Config) -> Run | None:
        """What the searcher is told of a config that the space does not contain."""
        if self._space is None or self._space.contains(config):
            return None
        reason = "the space does not contain it"
        return Run.of(Trial(config, Status.INFEASIBLE, reason=reason))

    def key(self, config: Config) -> str:
        """Equal for configs that are the same point."""
        return config.key if self._space is None else self._space.key(config)


class ScriptedSearcher:
    """A scripted searcher, asked and told.

    One whose points do not depend on results gives as many as are asked for; any other gives one
    and waits until it is told. Points that were told before, perhaps in an earlier sitting, are
    answered from memory, unless yielded as `Repeat`: then the same config is asked again. Trials
    of an earlier sitting are told first, in their order; each further result of a config is the
    answer to one `Repeat`. Points outside of `space` are answered as infeasible and never asked.
    """

    def __init__(
        self,
        searcher: SearcherInterface,
        space: Space | None = None,
        defaults: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._script = Script(searcher, space, defaults)
        self._waits = searcher.is_dynamic
        self._answers: defaultdict[str, list[Trial]] = defaultdict(list)
        self._claimed: defaultdict[str, int] = defaultdict(int)
        """How many answers of each config the searcher has had, or waits for."""
        self._open: tuple[str, int] | None = None
        """The key of the config whose answer the searcher waits for, and which of its answers."""
        self._run: Run | None = None
        self._idle = 0
        self._done = False

    @property
    def done(self) -> bool:
        """Whether it will never ask again."""
        return self._done

    def tell(self, trial: Trial) -> None:
        """What came of a config, also of one that was not asked (yet)."""
        if self._script.refusal(trial.config) is None:
            self._answers[self._script.key(trial.config)].append(trial)

    def ask(self, n: int) -> list[Config]:
        """Up to `n` configs; none while it waits for a result."""
        configs: list[Config] = []
        while len(configs) < n and not self._done and self._is_free():
            config = self._script.next(self._run)
            self._run = None
            if config is None:
                self._done = True
            elif self._claim(self._script.key(config)):
                configs.append(config)
        return configs

    def settle(self) -> None:
        """Nothing is asked any more: let the search know the answer to its last point."""
        if not self._done and self._open is not None and self._is_free():
            self._script.next(self._run)
            self._done = True

    def _is_free(self) -> bool:
        """Whether the searcher may go on: the answer to its last point is here, or not needed."""
        if self._open is None:
            return True
        key, place = self._open
        answers = self._answers[key]
        if place >= len(answers):
            return False
        self._run = Run.of(answers[place])
        self._open = None
        return True

    def _claim(self, key: str) -> bool:
        """Whether the config has to be run for the searcher to have its next answer."""
        known = self._claimed[key] > 0 and not self._script.repeats
        if known:
            self._pass_time()
        else:
            self._claimed[key] += 1
            self._idle = 0
        place = self._claimed[key] - 1
        if self._waits:
            self._open = (key, place)
        return not known and place >= len(self._answers[key])

    def _pass_time(self) -> None:
        self._idle += 1
        if self._idle > MAX_IDLE:
            log.info("search ended: nothing new in %d points", MAX_IDLE)
            self._done = True


def as_search(make: Callable[[], SearcherInterface]) -> Callable[[SearchContext], Searcher]:
    """What `skipjack.search.register` takes, from a function that makes a scripted searcher.

    The default and the seeds are asked first; the budget is kept; configs that were tried before
    are answered from memory, also when they are yielded as `Repeat`.
    """
    return partial(GeneratorSearcher, partial(_search, make))


def _search(
    make: Callable[[], SearcherInterface], context: SearchContext
) -> Generator[Batch, list[Trial], None]:
    searcher = make()
    script = Script(searcher, context.space)
    width = 1 if searcher.is_dynamic else BATCH
    run: Run | None = None
    batch: list[Config] = []
    while (config := script.next(run)) is not None:
        batch.append(config)
        if len(batch) == width:
            trials = yield batch
            run = Run.of(trials[-1]) if searcher.is_dynamic else None
            batch = []
    if batch:
        yield batch


def started(searcher: SearcherInterface) -> Points:
    """The searcher's generator."""
    points = searcher.generate()
    if not hasattr(points, "send"):
        raise UsageError(
            f"generate of {_name(searcher)} must be a generator function: it must yield points"
        )
    return points


def whole_point(
    searcher: SearcherInterface, point: object, space: Space | None, defaults: Mapping[str, Any]
) -> Config:
    """The config that a yielded point stands for: what it leaves out is filled in."""
    if not isinstance(point, Mapping):
        raise UsageError(f"{_name(searcher)} yielded {point!r}, which is no dict of parameters")
    settings = {name: plain(value) for name, value in point.items()}
    if space is not None:
        whole = space.default()
        settings = {name: _fitting(searcher, whole, name, settings[name]) for name in settings}
        defaults = {**whole, **{name: defaults[name] for name in defaults if name in whole}}
    try:
        return Config.of({**defaults, **settings})
    except TypeError as error:
        raise UsageError(
            f"{_name(searcher)} yielded {dict(point)}, which cannot be written down: {error}"
        ) from None


def _fitting(searcher: SearcherInterface, whole: Config, name: str, value: Any) -> Any:
    if name not in whole:
        raise UsageError(
            f"{_name(searcher)} yielded {name}={value!r}, but there is no such parameter; "
            f"there are {', '.join(whole)}"
        )
    kind = type(whole[name])
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise UsageError(
            f"{_name(searcher)} yielded {name}={value!r}, but values of {name} "
            f"are of kind {kind.__name__}, not {type(value).__name__}"
        )
    return value


def _name(searcher: SearcherInterface) -> str:
    return f"searcher {type(searcher).__name__}"
