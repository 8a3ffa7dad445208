"""One run after the other: from the history where it has one, else for real; judged and noted."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from skipjack.core.config import Config
from skipjack.core.expressions import Expression
from skipjack.core.objective import Metric, Objective, spelled
from skipjack.core.trial import Status, Trial
from skipjack.errors import ExpressionError, UsageError
from skipjack.sweep.goals import loadgen_objective, missing_metric
from skipjack.sweep.history import RunHistory
from skipjack.sweep.options import SweepOptions
from skipjack.sweep.outcome import Bench, Outcome
from skipjack.sweep.progress import SweepProgress, seconds_left
from skipjack.sweep.result import SweepTrial

_RECENT = 50
"""Runs that the estimated end is from."""


class Measuring:
    """The runs of a sitting. What `run` returns is in the ledger already."""

    def __init__(self, bench: Bench, history: RunHistory, options: SweepOptions) -> None:
        self.bench, self._history, self.options = bench, history, options
        self.objectives = options.objectives
        self.trials: list[SweepTrial] = []
        self.planned: int | None = None
        """How many runs the search takes, where that is known."""
        self.at_most = False
        """Whether the search may take fewer."""
        self._started = time.monotonic()
        self._metric_seen = self._required_seen = False
        self._counts: Counter[Status] = Counter()
        self.best: SweepTrial | None = None
        """The best single run so far."""

    @property
    def objective(self) -> Objective | None:
        """What is searched for, once it is known."""
        return self.objectives[0] if self.objectives else None

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def known(self, point: Config, settings: Mapping[str, Any]) -> bool:
        """Whether running this costs nothing."""
        return self._history.known(point, settings)

    def measure(
        self, point: Config, purpose: str, settings: Mapping[str, Any], repeats: int = 1
    ) -> Trial:
        """Run a point so often and judge it; a run that fails is not repeated."""
        trials = []
        for attempt in range(repeats):
            # Short runs are never taken for full ones, whatever they are for.
            label = "screen" if settings else purpose if attempt == 0 else "repeat"
            trials.append(self._run(point, label, settings))
            if trials[-1].status not in (Status.OK, Status.INVALID):
                break
        return self._judged(point, trials)

    def refuse(self, point: Config, reason: str) -> Trial:
        """Note a point that is not run."""
        self._note(SweepTrial(len(self.trials) + 1, point, Status.INFEASIBLE, {}, None, reason))
        return Trial(point, Status.INFEASIBLE, reason=reason)

    def _run(self, point: Config, purpose: str, settings: Mapping[str, Any]) -> SweepTrial:
        outcome = self._history.take(point, settings)
        cached = outcome is not None
        if outcome is None:
            self._report(running=point)
            outcome = self.bench.measure(point, settings)
            self._history.add(point, settings, outcome)
        judged = self._judge(self._with_load(point, outcome))
        wanted = self.objective if judged.status is Status.OK else None
        trial = SweepTrial(
            len(self.trials) + 1,
            point,
            judged.status,
            judged.metrics,
            Objective(wanted.metric).value(judged.metrics) if wanted else None,
            judged.reason,
            judged.seconds,
            judged.build_seconds,
            not cached and judged.build_seconds > 0.0,
            cached,
            purpose,
            judged.log,
            judged.notes,
        )
        self._note(trial)
        return trial

    def _with_load(self, point: Config, outcome: Outcome) -> Outcome:
        """The load that a run was made at, as one of its metrics."""
        load: Any = point.get(self.options.load)
        if load is None or isinstance(load, str):  # a base config may say "auto"
            return outcome
        return replace(outcome, metrics={**outcome.metrics, self.options.load: float(load)})

    # judging

    def _judge(self, outcome: Outcome) -> Outcome:
        """A run that ended well may still lack the metric, or break a requirement."""
        if outcome.status is not Status.OK:
            return outcome
        if not self.objectives:
            found = loadgen_objective(outcome.metrics, self.options.requirements)
            if found is None:
                return outcome  # a search of the file's own may need no metric
            self.objectives = (found,)
        for objective in self.objectives:
            if objective.metric not in outcome.metrics:
                return self._without(objective.metric, outcome)
        self._metric_seen = True
        if outcome.metrics.get("result_validity", "VALID") != "VALID":
            reason = f"it says itself that it is {outcome.metrics['result_validity']}"
            return replace(outcome, status=Status.INVALID, reason=reason)
        if broken := self._broken(outcome.metrics):
            return replace(outcome, status=Status.INVALID, reason=broken)
        if Objective(self.objectives[0].metric).value(outcome.metrics) is None:
            value = outcome.metrics[self.objectives[0].metric]
            reason = f"{self.objectives[0].metric} is {value!r}, not a finite number"
            return replace(outcome, status=Status.NO_RESULT, reason=reason)
        return outcome

    def _without(self, metric: str, outcome: Outcome) -> Outcome:
        """A metric that no run ever had is a slip of the user's: better to say so at once."""
        sentence = missing_metric(metric, outcome.metrics, outcome.log)
        if not self._metric_seen:
            raise UsageError(f"{sentence}; the run is kept, say --metric and run again")
        return replace(outcome, status=Status.NO_RESULT, reason=sentence)

    def _broken(self, metrics: Mapping[str, Metric]) -> str:
        """The first requirement that does not hold, as a sentence."""
        named = spelled(metrics)
        for text in self.objectives[0].constraints:
            try:
                if not Expression(text).holds(named):
                    return f"requirement `{text}` is not met"
            except ExpressionError as error:
                if not self._required_seen:
                    raise UsageError(f"--require {text!r}: {error}; the run is kept") from None
                return f"requirement `{text}` cannot be checked: {error}"
        self._required_seen = True
        return ""

    def _judged(self, point: Config, trials: Sequence[SweepTrial]) -> Trial:
        """What a searcher is told of the runs of one point: their median, or their failure."""
        good = [trial for trial in trials if trial.status is Status.OK]
        failed = [trial for trial in trials if trial.status is not Status.OK]
        if len(good) <= len(failed):
            last = failed[-1]
            return Trial(point, last.status, reason=last.reason, metrics=last.metrics)
        values = [trial.value for trial in good if trial.value is not None]
        if not values:
            return Trial(point, Status.OK, metrics=good[-1].metrics)
        median = statistics.median_low(values)
        spread = (max(values) - min(values)) / 2
        typical = good[values.index(median)]
        direction = self.objectives[0].direction
        value = median if direction == "min" else -median
        return Trial(point, Status.OK, value, spread, metrics=typical.metrics)

    # telling

    def _note(self, trial: SweepTrial) -> None:
        self.trials.append(trial)
        self._counts[trial.status] += 1
        if trial.value is not None and (self.best is None or self._better(trial.value)):
            self.best = trial
        self._report(trial=trial)

    def _report(self, trial: SweepTrial | None = None, running: Config | None = None) -> None:
        self.options.observer(
            SweepProgress(
                phase=trial.purpose if trial else "search",
                done=len(self.trials),
                planned=self.planned,
                trial=trial,
                running=running,
                best=self.best,
                elapsed_s=self.elapsed_s,
                eta_s=self._eta_s(),
                counts=dict(self._counts),
                metric=self.objective.metric if self.objective else "",
                at_most=self.at_most,
            )
        )

    def _better(self, value: float) -> bool:
        assert self.best is not None and self.best.value is not None  # the caller looked
        least = self.objectives[0].direction == "min"
        return value < self.best.value if least else value > self.best.value

    def _eta_s(self) -> float | None:
        if self.planned is None:
            return None
        recent = self.trials[-_RECENT:]
        runs = max(0, self.planned - len(self.trials))
        # As many of those to come need a build as of those that were made.
        builds = round(runs * sum(trial.built for trial in recent) / max(1, len(recent)))
        return seconds_left(recent, runs, builds)
