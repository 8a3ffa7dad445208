"""The setting that holds the largest load, searched jointly with the load."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np

from skipjack.core import Status
from skipjack.search.load.bisect import no_feasible_value
from skipjack.search.load.boundary import (
    Boundary,
    JointAnswer,
    Load,
    LoadLimit,
    LoadRange,
    range_of,
    settings_of,
    valid,
)
from skipjack.search.load.posterior import Belief, Floats, SettingModel
from skipjack.search.points import (
    Point,
    Points,
    Predicate,
    Repeat,
    Run,
    SearcherInterface,
    config_of,
    do_send,
    is_good,
)

_NO_BUILD = (Status.BUILD_ERROR, Status.BUILD_TIMEOUT, Status.BUILD_CRASH)
_LEAST_CHANCE = 0.02
"""A setting with a smaller chance to beat the bar is neither run again nor built."""
_LEAST_CHANCE_UNTRIED = 0.005
"""A built setting that was never run is run if its chance is larger than this."""
_DOUBT = 0.5
"""Standard deviations by which the bar is below the expected limit of the best setting."""
_SHARP = 0.03
"""Settings whose limit is known more precisely than this are left to the confirming runs."""
_MOST_FORBIDDEN = 8
"""A setting is dropped after a rule has forbidden this many loads of it."""
_CHANCES = 2
"""A setting is dropped after this many failures at the lowest load."""
_CONFIRMING = 4
"""At most one part in this many of the runs is reserved for confirming a setting."""
_CONFIRM_WITHIN = 1.35
"""The factor around the expected limit within which confirming runs search for it."""

Steps = Generator[Point, Run | None, Run | None]


@dataclass(frozen=True, slots=True)
class _LoadRun:
    """A run of the setting with this index."""

    setting: int
    load: Load
    held: bool
    screened: bool


class JointLoad(SearcherInterface):
    """Search settings and load jointly.

    Bisecting the load of every setting takes far too many runs. Here the best load known so far is
    the bar: a setting is first run a little above it, and dropped if it does not hold that load.
    Each run also informs about similar settings (`SettingModel`, a Gaussian process from which the
    expected improvement is computed: Jones, Schonlau and Welch, Efficient Global Optimization,
    1998), so the most promising settings come first, and settings without promise are never built.
    The best setting is confirmed at the end.

    Args:
        load: a `LoadRange`, or its parameter, lower and upper bound.
        parameters: names with their values; settings are all combinations.
        points: the settings themselves, instead of `parameters`.
        build_parameters: parameters whose change needs a build.
        predicate: whether a run held; by default, whether it is not reported as invalid.
        screen: settings of short runs, laid over points of the search but not over confirming ones.
        runs: the most runs of all kinds.
        confirm: how many of them confirm a setting.
        improvement: the relative improvement that a setting must promise to be run.
        build_runs: the cost of a build, in runs.
        confidence: as for `Boundary`, like `holds` and `safe`.

    Example::

        JointLoad(("qps", 500, 9000), {"batch": [32, 64], "streams": [1, 2, 4]}, runs=40)
    """

    is_dynamic = True

    def __str__(self) -> str:
        return f"JointLoad of {self.load.param!r}"

    def __init__(
        self,
        load: LoadRange | tuple[str, Load, Load],
        parameters: Mapping[str, Sequence[Any]] | None = None,
        *,
        points: Sequence[Point] | None = None,
        build_parameters: Sequence[str] = (),
        predicate: Predicate | None = None,
        screen: Mapping[str, Any] | None = None,
        runs: int | None = None,
        confirm: int = 8,
        improvement: float = 0.01,
        build_runs: float = 1.0,
        confidence: float = 0.9,
        holds: float = 0.5,
        safe: float = 0.95,
    ) -> None:
        self.load = range_of(load)
        integer = self.load.integer
        self.settings = settings_of(parameters, points, self.load.param)
        self.predicate = predicate or valid
        self._build_parameters = tuple(build_parameters)
        self._screen = dict(screen or {})
        self.most_runs = runs if runs is not None else len(self.settings) + 16 + confirm
        """How many runs it makes at most."""
        self._confirm = max(1, min(confirm, self.most_runs // _CONFIRMING))
        self._improvement = improvement
        self._build_runs = build_runs
        self._confidences: dict[str, Any] = {"confidence": confidence, "holds": holds, "safe": safe}
        # Check the values before anything is run.
        Boundary(
            self.load.param, self.load.lower, self.load.upper, integer=integer, **self._confidences
        )
        self._start()

    def _start(self) -> None:
        self._model = SettingModel(self.settings, log(self.load.lower), log(self.load.upper))
        self._runs: list[_LoadRun] = []
        self._asked: set[str] = set()
        self._built: set[str] = set()
        self._excluded: dict[int, str] = {}
        self._answers: dict[int, LoadLimit] = {}
        self._forbidden: dict[int, int] = {}

    def generate(self) -> Points:
        """Yield settings with loads; each yield returns its run."""
        self._start()
        while len(self._runs) < self.most_runs:
            belief = self._model.believe()
            choice = self._choose(belief) if self._may_search() else None
            if choice is not None:
                yield from self._run(*choice, screened=True)
            elif (best := self._best_unconfirmed(belief)) is not None:
                yield from self._confirm_setting(best)
            else:
                return

    def _may_search(self) -> bool:
        """Whether enough runs are left to confirm a setting, or two after short runs."""
        settings = 2 if self._screen and not self._answers else 1
        return len(self._runs) < self.most_runs - self._confirm * settings

    def _choose(self, belief: Belief) -> tuple[int, Load] | None:
        """The setting with the largest expected gain for its cost, and the load to run it at."""
        bar = self._bar(belief)
        if bar is None:
            aim = belief.mean
            score = np.exp(belief.mean - belief.mean.max())
        else:
            needed = self._above(bar)
            if needed > log(self.load.upper):
                return None  # nothing in the range is better
            aim = np.maximum(belief.mean, needed)
            chance = belief.chance_above(needed)
            score = belief.gain_above(needed) * (chance > self._least_chances())
            score[belief.deviation < _SHARP] = 0.0
        score = score / (1.0 + self._build_runs * self._unbuilt())
        score[[*self._excluded, *self._answers]] = 0.0
        if score.max() <= 0.0:
            return None
        # Among equals choose the most central, which informs most about the others.
        equals = np.flatnonzero(score >= score.max() * (1.0 - 1e-9))
        best = int(max(equals, key=lambda setting: self._model.centrality[setting]))
        return best, self.load.at(float(aim[best]))

    def _least_chances(self) -> Floats:
        """For each setting, the chance to beat the bar below which it is not run."""
        again = np.zeros(len(self.settings))
        again[[run.setting for run in self._runs]] = 1.0
        return np.where(
            np.maximum(again, self._unbuilt()) > 0.0, _LEAST_CHANCE, _LEAST_CHANCE_UNTRIED
        )

    def _unbuilt(self) -> Floats:
        unbuilt = [self._build(setting) not in self._built for setting in self.settings]
        return np.array(unbuilt, dtype=np.float64)

    def _bar(self, belief: Belief) -> float | None:
        """The log of the largest load that was confirmed, or that seems to hold."""
        if (confirmed := self._confirmed()) is not None:
            return confirmed
        sure = belief.mean - _DOUBT * belief.deviation
        return max((float(sure[setting]) for setting in self._holding()), default=None)

    def _holding(self) -> set[int]:
        return {run.setting for run in self._runs if run.held} - set(self._excluded)

    def _build(self, setting: Point) -> str:
        return config_of({name: setting.get(name) for name in self._build_parameters}).key

    def _run(self, setting: int, load: Load, *, screened: bool) -> Steps:
        """Make one run and return it."""
        extra = self._screen if screened else {}
        point = {**self.settings[setting], self.load.param: load, **extra}
        key = config_of(point).key
        run = yield Repeat(point) if key in self._asked else point
        self._asked.add(key)
        self._learn(setting, load, run, screened)
        return run

    def _learn(self, setting: int, load: Load, run: Run | None, screened: bool) -> None:
        status = run.status if run is not None else Status.OK
        if status is Status.INFEASIBLE:
            self._forbid(setting, load)
            return
        build = self._build(self.settings[setting])
        good = is_good(run, self.predicate, str(self))
        self._runs.append(_LoadRun(setting, load, good, screened))
        if status in _NO_BUILD:
            alike = (n for n, other in enumerate(self.settings) if self._build(other) == build)
            self._excluded.update((n, "it cannot be built") for n in alike)
            return
        self._built.add(build)
        if screened or not self._screen:
            self._model.add(setting, log(load), good)
        mine = [done for done in self._runs if done.setting == setting and not done.held]
        if sum(done.load <= self.load.lower for done in mine) >= _CHANCES:
            self._excluded[setting] = f"it does not sustain a load of {self.load.lower}"

    def _forbid(self, setting: int, load: Load) -> None:
        """Record that a rule forbids this load; lower loads are tried a few times."""
        self._forbidden[setting] = self._forbidden.get(setting, 0) + 1
        if load <= self.load.lower or self._forbidden[setting] > _MOST_FORBIDDEN:
            self._excluded[setting] = "a rule forbids it"
        else:
            self._model.add(setting, log(load), False)

    def _confirm_setting(self, setting: int) -> Points:
        """Make full runs near the expected limit of the setting."""
        left = self.most_runs - len(self._runs)
        boundary = self._boundary(setting, min(left, self._confirm))
        points = boundary.generate()
        point = do_send(points)
        while point is not None:
            run = yield from self._run(setting, point[self.load.param], screened=False)
            point = do_send(points, run)
        self._answers[setting] = boundary.answer

    def _best_unconfirmed(self, belief: Belief) -> int | None:
        """The best unconfirmed setting, if it seems better than the confirmed ones."""
        left = self._holding() - set(self._answers)
        best = max(left, key=belief.mean.__getitem__, default=None)
        bar = self._confirmed()
        if best is None or (bar is not None and belief.mean[best] < self._above(bar)):
            return None
        return best

    def _confirmed(self) -> float | None:
        """The log of the largest load that was confirmed."""
        found = [answer.value for answer in self._answers.values() if answer.value]
        return log(max(found)) if found else None

    def _above(self, bar: float) -> float:
        return bar + log(1.0 + self._improvement)

    def _best(self) -> int | None:
        """The setting confirmed at the largest load, or else expected to hold the largest."""
        if any(answer.value for answer in self._answers.values()):
            return max(self._answers, key=lambda setting: self._answers[setting].value or 0)
        return max(self._holding(), key=self._model.believe().mean.__getitem__, default=None)

    def _boundary(self, setting: int, runs: int) -> Boundary:
        """A search for the limit of one setting near its expected limit, with the known runs."""
        middle = float(self._model.believe().mean[setting])
        near = (middle - log(_CONFIRM_WITHIN), middle + log(_CONFIRM_WITHIN))
        lower, upper = (self.load.at(end) for end in near)
        if not lower < upper:
            lower, upper = self.load.lower, self.load.upper
        known = [
            (done.load, done.held)
            for done in self._runs
            if done.setting == setting and not (done.screened and self._screen)
        ]
        integer = self.load.integer
        return Boundary(
            self.load.param,
            lower,
            upper,
            runs=runs,
            integer=integer,
            known=known,
            **self._confidences,
        )

    @property
    def answer(self) -> JointAnswer:
        """The best setting and its limit as known so far, also during the search."""
        best = self._best()
        if best is None:
            raise no_feasible_value(self.load.param, self.load.lower, self.load.upper)
        load = self._answers.get(best) or self._boundary(best, 1).answer
        top = [done.held for done in self._runs if self._is_top(done, best)]
        if top and all(top):
            upper = self.load.upper
            load = replace(load, verdict="above", value=upper, low=upper, high=upper, safe=upper)
        tried = len({done.setting for done in self._runs})
        return JointAnswer(self.settings[best], load, len(self._runs), tried, len(self.settings))

    def _is_top(self, done: _LoadRun, setting: int) -> bool:
        """Whether a run was a full run of this setting at the upper bound."""
        full = not (done.screened and self._screen)
        return done.setting == setting and done.load >= self.load.upper and full

    @property
    def dropped(self) -> list[tuple[Point, str]]:
        """Settings that were run and are not the best, each with the reason."""
        best = self._best()
        reasons = {}
        for done in self._runs:
            if not done.held and done.setting != best:
                reasons[done.setting] = f"it does not sustain a load of {done.load}"
        return [(self.settings[n], why) for n, why in {**reasons, **self._excluded}.items()]

    def get_best(self) -> Point:
        """The best setting with the largest load that it holds."""
        answer = self.answer
        if answer.load.value is None:
            raise no_feasible_value(self.load.param, answer.load.low, answer.load.high)
        return {**answer.setting, self.load.param: answer.load.value}
