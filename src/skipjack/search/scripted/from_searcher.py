"""The project's own searchers as scripted ones, so that a sweep file can return them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real

from skipjack import search
from skipjack.core.config import Config, Value
from skipjack.core.constraints import ConstraintLike
from skipjack.core.objective import Direction
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.trial import Status, Trial
from skipjack.errors import SkipjackError, UsageError
from skipjack.search.points import (
    MissingStatError,
    Point,
    Points,
    Run,
    SearcherInterface,
    listed,
)
from skipjack.search.ranking import best
from skipjack.search.searcher import SearchContext, Searcher

_BLIND = ("exhaustive", "random")
"""Searchers whose order does not depend on what they are told."""


class FromSearcher(SearcherInterface):
    """Any searcher that is asked and told; a run's value is its `metric`."""

    def __init__(
        self,
        make: Callable[[], Searcher],
        metric: str,
        direction: Direction = "max",
        is_dynamic: bool = True,
    ) -> None:
        if direction not in ("min", "max"):
            raise UsageError(f"direction of {self} must be 'min' or 'max', not {direction!r}")
        self.metric = metric
        self._make = make
        self._sign = 1 if direction == "min" else -1
        self._dynamic = is_dynamic
        self._trials: list[Trial] = []

    def __str__(self) -> str:
        return type(self).__name__

    @property
    def is_dynamic(self) -> bool:
        """Whether later points depend on earlier results."""
        return self._dynamic

    def generate(self) -> Points:
        """Ask for one config, run it, tell what came of it."""
        searcher = self._make()
        self._trials = []
        while configs := searcher.ask(1):
            run = yield dict(configs[0])
            trial = self._trial(configs[0], run)
            self._trials.append(trial)
            searcher.tell(trial)

    def get_best(self) -> Point:
        """The point with the best value."""
        trial = best(self._trials)
        if trial is None:
            raise SkipjackError(f"no feasible point: no run of {self} has a {self.metric!r}")
        return dict(trial.config)

    def _trial(self, config: Config, run: Run | None) -> Trial:
        if run is None:
            return Trial(config, Status.NO_RESULT)
        if not run.ok:
            return Trial(config, run.status)
        try:
            value = run[self.metric]
        except MissingStatError as error:
            raise UsageError(f"{self} looks for the metric {self.metric!r}, but {error}") from None
        if isinstance(value, bool) or not isinstance(value, Real):
            raise UsageError(
                f"{self} looks for the metric {self.metric!r}, but {value!r} is no number"
            )
        return Trial(config, value=self._sign * float(value))


class Named(FromSearcher):
    """A searcher by its name (genetic, simulated_annealing, ...) over lists of values.

    The first value of each list is where it starts. `constraints` are expressions over the
    parameters, or functions of them.
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
        space = ParameterSpace(
            [Parameter(each, listed(values, each, "Named")) for each, values in parameters.items()],
            constraints,
        )
        space.default()  # an empty space is refused now, not at the first run
        context = SearchContext(space, seed=seed, trials=trials)
        super().__init__(
            lambda: search.create(name, context), metric, direction, name not in _BLIND
        )

    def __str__(self) -> str:
        return f"Named({self.name!r})"
