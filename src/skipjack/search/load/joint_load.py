"""The setting that holds the largest load, searched together with the load."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import numpy as np

from skipjack.core.trial import Status
from skipjack.search.load.bisect import no_feasible_value
from skipjack.search.load.boundary import Answer, Boundary, Load, valid
from skipjack.search.load.load_range import JointAnswer, LoadRange, range_of, settings_of
from skipjack.search.load.setting_model import Belief, Floats, SettingModel
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
_HOPELESS = 0.02
"""A setting with less than this chance to beat the bar is not run again, nor built."""
_HOPELESS_FIRST = 0.005
"""One that was never run, and is built, is run if its chance is more than this."""
_DOUBT = 0.5
"""The bar is so many standard deviations below what the best setting is believed to hold."""
_SHARP = 0.03
"""What is known as well as this is left to the confirming runs."""
_MOST_FORBIDDEN = 8
"""A setting of which a rule forbids so many loads is done with."""
_CHANCES = 2
"""A setting that fails so often at the lowest load is done with."""
_CONFIRMING = 4
"""No more than this part of the runs is kept for confirming a setting."""
_CONFIRM_WITHIN = 1.35
"""The confirming runs look for the limit in this range around where it is believed."""

Steps = Generator[Point, Run | None, Run | None]


@dataclass(frozen=True, slots=True)
class _Done:
    """A run of the setting with this number."""

    setting: int
    load: Load
    held: bool
    screened: bool


class JointLoad(SearcherInterface):
    """Search settings and load together.

    To bisect the load of every setting takes far too many runs. Here the best load known so far is
    the bar: a setting is first run a little above it, and one that does not hold that is done with.
    What each run says counts for similar settings as well (`setting_model`, a Gaussian process on
    which expected improvement is judged: Jones, Schonlau and Welch, Efficient Global Optimization,
    1998), so the most promising settings come first, and those that promise nothing are never
    built. The winner is confirmed at the end.

    Args:
        load: a `LoadRange`, or its parameter, lower and upper bound.
        parameters: names with their values; settings are all combinations.
        points: the settings themselves, instead of `parameters`.
        build_parameters: those whose change needs a build.
        predicate: whether a run held; without it, whether it says VALID or nothing about that.
        screen: laid over the points of the search (shorter runs, say), not over confirming ones.
        runs: the most runs of all kinds.
        confirm: how many of them confirm a setting.
        improvement: how much better a setting must promise to be, relative, to be run.
        build_runs: how many runs a build costs.
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
        self._sure: dict[str, Any] = {"confidence": confidence, "holds": holds, "safe": safe}
        # Complains about bad values before anything is run.
        Boundary(self.load.param, self.load.lower, self.load.upper, integer=integer, **self._sure)
        self._start()

    def _start(self) -> None:
        self._model = SettingModel(self.settings, log(self.load.lower), log(self.load.upper))
        self._runs: list[_Done] = []
        self._asked: set[str] = set()
        self._built: set[str] = set()
        self._out: dict[int, str] = {}
        self._answers: dict[int, Answer] = {}
        self._forbidden: dict[int, int] = {}

    def generate(self) -> Points:
        """Yield settings with loads; each is answered with its run."""
        self._start()
        while len(self._runs) < self.most_runs:
            belief = self._model.believe()
            choice = self._choose(belief) if self._may_search() else None
            if choice is not None:
                yield from self._run(*choice, screened=True)
            elif (best := self._promising(belief)) is not None:
                yield from self._confirm_setting(best)
            else:
                return

    def _may_search(self) -> bool:
        """Whether enough runs are left to confirm; short ones flatter, so two settings then."""
        settings = 2 if self._screen and not self._answers else 1
        return len(self._runs) < self.most_runs - self._confirm * settings

    def _choose(self, belief: Belief) -> tuple[int, Load] | None:
        """The setting that promises the largest gain for its cost, and the load to run it at."""
        bar = self._bar(belief)
        if bar is None:
            aim = belief.mean
            promise = np.exp(belief.mean - belief.mean.max())
        else:
            needed = self._above(bar)
            if needed > log(self.load.upper):
                return None  # nothing in the range is better
            aim = np.maximum(belief.mean, needed)
            chance = belief.chance_above(needed)
            promise = belief.gain_above(needed) * (chance > self._hopeless())
            promise[belief.deviation < _SHARP] = 0.0
        promise = promise / (1.0 + self._build_runs * self._unbuilt())
        promise[[*self._out, *self._answers]] = 0.0
        if promise.max() <= 0.0:
            return None
        # Among equals the most central: what is learnt there says most about the others.
        equals = np.flatnonzero(promise >= promise.max() * (1.0 - 1e-9))
        best = int(max(equals, key=lambda setting: self._model.centrality[setting]))
        return best, self.load.at(float(aim[best]))

    def _hopeless(self) -> Floats:
        """Below which chance to beat the bar a setting is not run: less if it costs no more."""
        again = np.zeros(len(self.settings))
        again[[run.setting for run in self._runs]] = 1.0
        return np.where(np.maximum(again, self._unbuilt()) > 0.0, _HOPELESS, _HOPELESS_FIRST)

    def _unbuilt(self) -> Floats:
        unbuilt = [self._build(setting) not in self._built for setting in self.settings]
        return np.array(unbuilt, dtype=np.float64)

    def _bar(self, belief: Belief) -> float | None:
        """The largest load that was confirmed, or seems to hold in a setting that did hold one."""
        if (confirmed := self._confirmed()) is not None:
            return confirmed
        sure = belief.mean - _DOUBT * belief.deviation
        return max((float(sure[setting]) for setting in self._holding()), default=None)

    def _holding(self) -> set[int]:
        return {run.setting for run in self._runs if run.held} - set(self._out)

    def _build(self, setting: Point) -> str:
        return config_of({name: setting.get(name) for name in self._build_parameters}).key

    def _run(self, setting: int, load: Load, *, screened: bool) -> Steps:
        """One run; gives it back."""
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
        self._runs.append(_Done(setting, load, good, screened))
        if status in _NO_BUILD:
            alike = (n for n, other in enumerate(self.settings) if self._build(other) == build)
            self._out.update((n, "it cannot be built") for n in alike)
            return
        self._built.add(build)
        if screened or not self._screen:
            self._model.add(setting, log(load), good)
        mine = [done for done in self._runs if done.setting == setting and not done.held]
        if sum(done.load <= self.load.lower for done in mine) >= _CHANCES:
            self._out[setting] = f"it does not hold {self.load.lower}"

    def _forbid(self, setting: int, load: Load) -> None:
        """A rule forbids this load here: lower ones may be allowed, but not for ever."""
        self._forbidden[setting] = self._forbidden.get(setting, 0) + 1
        if load <= self.load.lower or self._forbidden[setting] > _MOST_FORBIDDEN:
            self._out[setting] = "a rule forbids it"
        else:
            self._model.add(setting, log(load), False)

    def _confirm_setting(self, setting: int) -> Points:
        """Full runs near the load that the setting is believed to hold."""
        left = self.most_runs - len(self._runs)
        boundary = self._boundary(setting, min(left, self._confirm))
        points = boundary.generate()
        point = do_send(points)
        while point is not None:
            run = yield from self._run(setting, point[self.load.param], screened=False)
            point = do_send(points, run)
        self._answers[setting] = boundary.answer

    def _promising(self, belief: Belief) -> int | None:
        """The best setting that is not confirmed, if it seems better than those that are."""
        left = self._holding() - set(self._answers)
        best = max(left, key=belief.mean.__getitem__, default=None)
        bar = self._confirmed()
        if best is None or (bar is not None and belief.mean[best] < self._above(bar)):
            return None
        return best

    def _confirmed(self) -> float | None:
        """The largest load that was confirmed, as a logarithm."""
        found = [answer.value for answer in self._answers.values() if answer.value]
        return log(max(found)) if found else None

    def _above(self, bar: float) -> float:
        return bar + log(1.0 + self._improvement)

    def _best(self) -> int | None:
        """The setting that was confirmed at the largest load, or believed to hold most."""
        if any(answer.value for answer in self._answers.values()):
            return max(self._answers, key=lambda setting: self._answers[setting].value or 0)
        return max(self._holding(), key=self._model.believe().mean.__getitem__, default=None)

    def _boundary(self, setting: int, runs: int) -> Boundary:
        """The load of one setting, near where it is believed to be; what is known counts."""
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
            self.load.param, lower, upper, runs=runs, integer=integer, known=known, **self._sure
        )

    @property
    def answer(self) -> JointAnswer:
        """What is known by now; also while the search goes on."""
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

    def _is_top(self, done: _Done, setting: int) -> bool:
        """Whether a run was of this setting at the upper bound, and as long as an answer takes."""
        full = not (done.screened and self._screen)
        return done.setting == setting and done.load >= self.load.upper and full

    @property
    def dropped(self) -> list[tuple[Point, str]]:
        """Settings that were run and are not the best, each with a reason."""
        best = self._best()
        reasons = {}
        for done in self._runs:
            if not done.held and done.setting != best:
                reasons[done.setting] = f"it does not hold {done.load}"
        return [(self.settings[n], why) for n, why in {**reasons, **self._out}.items()]

    def get_best(self) -> Point:
        """The best setting with the largest load that it holds."""
        answer = self.answer
        if answer.load.value is None:
            raise no_feasible_value(self.load.param, answer.load.low, answer.load.high)
        return {**answer.setting, self.load.param: answer.load.value}
