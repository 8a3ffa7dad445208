"""Runs of points: taken from the history or made, then judged, recorded and reported."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from skipjack.core import (
    Config,
    Expression,
    Metric,
    Objective,
    Status,
    Trial,
    metrics_by_identifier,
)
from skipjack.errors import ExpressionError, UsageError
from skipjack.sweep.bench import RunOutcome, SweepBench
from skipjack.sweep.engine.history import RunHistory
from skipjack.sweep.engine.options import SweepOptions, loadgen_objective, missing_metric
from skipjack.sweep.engine.result import SweepProgress, SweepTrial, seconds_left

_RECENT = 50
"""The number of last runs from which the remaining time is estimated."""


class SweepMeasurer:
    """Makes the runs of a session. A run is in the ledger before `measure` returns."""

    def __init__(self, bench: SweepBench, history: RunHistory, options: SweepOptions) -> None:
        self.bench, self._history, self.options = bench, history, options
        self.objectives = options.objectives
        self.trials: list[SweepTrial] = []
        self.planned: int | None = None
        """How many runs the search takes, if known."""
        self.at_most = False
        """Whether the search may take fewer runs than planned."""
        self._started = time.monotonic()
        self._metric_seen = self._required_seen = False
        self._counts: Counter[Status] = Counter()
        self.best: SweepTrial | None = None
        """The best single run so far."""

    @property
    def objective(self) -> Objective | None:
        """The objective of the search, once it is known."""
        return self.objectives[0] if self.objectives else None

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def known(self, point: Config, settings: Mapping[str, Any]) -> bool:
        """Whether the next run of this point is in the history."""
        return self._history.known(point, settings)

    def measure(
        self, point: Config, purpose: str, settings: Mapping[str, Any], repeats: int = 1
    ) -> Trial:
        """Run a point `repeats` times and judge it; a run that fails is not repeated."""
        trials = []
        for attempt in range(repeats):
            # Short runs are labelled as such whatever their purpose, so none counts as a full run.
            label = "screen" if settings else purpose if attempt == 0 else "repeat"
            trials.append(self._run(point, label, settings))
            if trials[-1].status not in (Status.OK, Status.INVALID):
                break
        return self._judged(point, trials)

    def refuse(self, point: Config, reason: str) -> Trial:
        """Record a point that is not run."""
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

    def _with_load(self, point: Config, outcome: RunOutcome) -> RunOutcome:
        """The outcome with the load of the run as a metric."""
        load: Any = point.get(self.options.load)
        if load is None or isinstance(load, str):  # a base config may say "auto"
            return outcome
        return replace(outcome, metrics={**outcome.metrics, self.options.load: float(load)})

    # judging

    def _judge(self, outcome: RunOutcome) -> RunOutcome:
        """The outcome with the status that its metrics give it.

        A run that succeeded may lack the metric or break a requirement.
        """
        if outcome.status is not Status.OK:
            return outcome
        if not self.objectives:
            found = loadgen_objective(outcome.metrics, self.options.requirements)
            if found is None:
                return outcome  # a search that the file defines may need no metric
            self.objectives = (found,)
        for objective in self.objectives:
            if objective.metric not in outcome.metrics:
                return self._without(objective.metric, outcome)
        self._metric_seen = True
        if outcome.metrics.get("result_validity", "VALID") != "VALID":
            reason = f"the run reports that its result is {outcome.metrics['result_validity']}"
            return replace(outcome, status=Status.INVALID, reason=reason)
        if broken := self._broken(outcome.metrics):
            return replace(outcome, status=Status.INVALID, reason=broken)
        if Objective(self.objectives[0].metric).value(outcome.metrics) is None:
            value = outcome.metrics[self.objectives[0].metric]
            reason = f"{self.objectives[0].metric} is {value!r}, not a finite number"
            return replace(outcome, status=Status.NO_RESULT, reason=reason)
        return outcome

    def _without(self, metric: str, outcome: RunOutcome) -> RunOutcome:
        """The outcome of a run without the metric; `UsageError` if no run ever had it."""
        sentence = missing_metric(metric, outcome.metrics, outcome.log)
        if not self._metric_seen:
            raise UsageError(f"{sentence}; the run is kept: correct --metric and run again")
        return replace(outcome, status=Status.NO_RESULT, reason=sentence)

    def _broken(self, metrics: Mapping[str, Metric]) -> str:
        """A sentence about the first requirement that does not hold; empty if all hold."""
        named = metrics_by_identifier(metrics)
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
        """The trial that a searcher is told for the runs of one point: their median or failure."""
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

    # reporting

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
        # The share of runs that need a build is taken to stay the same.
        builds = round(runs * sum(trial.built for trial in recent) / max(1, len(recent)))
        return seconds_left(recent, runs, builds)
