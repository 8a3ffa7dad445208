"""A whole sweep: baseline, search, confirmation and result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from skipjack.core import Config, Objective, Status, Study, Trial, did_you_mean
from skipjack.errors import SkipjackError, UsageError
from skipjack.ledger import Ledger
from skipjack.search import SearcherInterface
from skipjack.search.scripted import ScriptedSearcher
from skipjack.sweep.bench import SweepBench
from skipjack.sweep.configs import BaseConfig, is_allowed
from skipjack.sweep.engine.confirmation import (
    FINALISTS,
    Finalist,
    SweepConfirmation,
    confirm,
    ranked,
)
from skipjack.sweep.engine.history import SOLVER, SOLVER_VERSION, RunHistory, SweepContext
from skipjack.sweep.engine.measurer import SweepMeasurer
from skipjack.sweep.engine.options import LoadSearch, SweepOptions, load_candidates
from skipjack.sweep.engine.result import SweepResult, SweepTrial
from skipjack.sweep.engine.search_loop import ChosenSearch, SearchLoop, choose_search
from skipjack.sweep.files import SweepFile


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Everything that a sweep needs."""

    file: SweepFile
    base: BaseConfig
    bench: SweepBench
    context: SweepContext
    options: SweepOptions = field(default_factory=SweepOptions)
    searcher: str | None = None
    """The searcher's name; None: the file's own search, or every combination."""
    seed: int = 0
    load: LoadSearch | None = None
    """A search for the largest load that holds, which replaces `searcher`."""
    in_order: bool = False
    """Whether points are run in the order of the search."""
    as_grid: bool = False
    """Whether combinations come in grid.py's order even if `in_order` is set."""
    check_names: bool = True
    run_timeout_s: float = float("inf")
    start_over: bool = False
    retry_failed: bool = False
    user_conf: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda config: ()
    """Makes the lines of LoadGen's user.conf from the best config."""


def run_sweep(
    request: SweepRequest, ledger: Ledger, stop: Callable[[], bool] = lambda: False
) -> SweepResult:
    """Run a sweep or continue it; each run is in the ledger as soon as it has ended."""
    return _Sweep(request, ledger, stop).run()


class _Sweep:
    def __init__(self, request: SweepRequest, ledger: Ledger, stop: Callable[[], bool]) -> None:
        self._request, self._ledger, self._stop = request, ledger, stop
        history = RunHistory(ledger, request.context, request.run_timeout_s)
        if request.start_over:
            history.forget_all()
        elif request.retry_failed:
            history.forget_failures()
        self._search_summary = ""
        """A sentence about the best point, from the search for a load or the file's search."""
        self._own_best = False
        self._notes: tuple[str, ...] = ()
        self._base_trials: list[Trial] = []
        """Trials of the base config if it is not one of the points; it may be the best."""
        self._measurer = SweepMeasurer(request.bench, history, request.options)
        self._chosen = choose_search(
            request.file,
            request.searcher,
            request.seed,
            request.options.budget.trials,
            self._refusal,
            request.load,
            as_listed=request.in_order and not request.as_grid,
        )
        self._study = self._start_study(self._chosen)

    def run(self) -> SweepResult:
        empty = [name for name, values in self._request.file.parameters.items() if not values]
        if empty and self._chosen.own is None:
            self._notes += (f"there is nothing to run: no values for {', '.join(empty)}",)
            return self._result(SweepConfirmation(None, None, None, ""), [], None)
        baseline = self._run_baseline()
        before = len(self._measurer.trials)
        self._measurer.at_most = self._chosen.at_most
        if self._chosen.planned is not None:
            self._measurer.planned = before + self._chosen.planned * self._request.options.repeats
        loop = SearchLoop(self._measurer, self._refusal, self._stop, self._log_tell)
        with self._until_stopped():
            loop.search(self._chosen.searcher, in_order=self._request.in_order)
        if isinstance(self._chosen.searcher, ScriptedSearcher):
            self._chosen.searcher.finish()
        self._measurer.planned = None
        if self._chosen.own is not None and self._request.options.baseline:
            baseline = self._baseline_of([trial.config for trial in loop.told])
        candidates = self._finalists([*self._base_trials, *loop.told])
        confirmation = SweepConfirmation(None, None, None, "")
        with self._until_stopped():
            confirmation = confirm(
                candidates,
                baseline,
                self._measurer,
                self._request.options.confirm,
                at_a_time=self._finalists_at_a_time(),
                stop=self._stop,
            )
        return self._result(confirmation, candidates, baseline)

    def _finalists_at_a_time(self) -> int | None:
        """1 if the search names the best point; several after short runs; else None."""
        if self._request.load is not None or self._own_best:
            return 1
        return FINALISTS if self._request.options.screen else None

    @contextmanager
    def _until_stopped(self) -> Iterator[None]:
        """Suppress the interrupt of Ctrl-C, so that what was measured before is reported."""
        try:
            yield
        except KeyboardInterrupt:
            if not self._stop():
                raise

    # the baseline

    def _run_baseline(self) -> Config | None:
        """Run the base config first, unless it is one of the points; gains are relative to it."""
        file, options = self._request.file, self._request.options
        # The load in a base config is what was requested, not the largest that holds.
        if not options.baseline or not file.parameters or self._request.load or file.search:
            return None
        baseline = self._baseline_of([Config.of(dict.fromkeys(file.parameters))])
        if baseline is None:
            return None
        listed = all(_among(baseline[name], values) for name, values in file.parameters.items())
        if not listed and not self._stop():
            with self._until_stopped():
                first = self._measurer.measure(
                    baseline, "baseline", options.screen, options.repeats
                )
                self._base_trials = [first]
        return baseline

    def _baseline_of(self, points: list[Config]) -> Config | None:
        """The base config's values of the parameters that the points vary."""
        if not points:
            return None
        found = self._request.base.point(points[0])
        return None if not found or self._refusal(found) else found

    def _refusal(self, point: Config) -> str:
        """Why a point may not be run; empty if it may.

        A parameter that the base config lacks is a `UsageError`.
        """
        base, file = self._request.base, self._request.file
        unknown = [name for name in point if not base.has(name)]
        if unknown and self._request.check_names and base.where:
            raise UsageError(
                f"the search of {file.path} uses {', '.join(unknown)}, which is not in the base "
                f"config {base.where}{did_you_mean(unknown[0], base.config)}; correct the name, or "
                "use --no-check-keys"
            )
        return "" if is_allowed(file, base, point) else "the file's rule forbids it"

    # the result

    def _finalists(self, told: list[Trial]) -> list[Finalist]:
        """The points to confirm, best first: as measured, or as the search for a load says."""
        if self._chosen.own is not None:
            return self._by_own_best(self._chosen.own, ranked(told))
        if self._request.load is None:
            return ranked(told)
        points, self._search_summary = load_candidates(self._request.load)
        name = self._request.options.load
        if points and not self._request.options.confirm:
            # Without confirmation the best must be a load that was run.
            others = {key: value for key, value in points[0].items() if key != name}
            return [f for f in ranked(told) if others.items() <= dict(f.point).items()]
        return [Finalist(point, -float(point[name])) for point in points]

    def _by_own_best(self, search: SearcherInterface, candidates: list[Finalist]) -> list[Finalist]:
        """The best point of the file's search, followed by those that measured worse."""
        try:
            best = dict(search.get_best())
        except NotImplementedError:
            return candidates
        except SkipjackError as error:
            self._search_summary = str(error)
            return []
        for index, finalist in enumerate(candidates):
            if all(finalist.point.get(name) == value for name, value in best.items()):
                self._own_best = True
                return candidates[index:]
        return candidates

    def _result(
        self, confirmation: SweepConfirmation, candidates: list[Finalist], baseline: Config | None
    ) -> SweepResult:
        request, measurer = self._request, self._measurer
        best = confirmation.best
        notes = (*self._notes, *request.bench.notes)
        if best is None and candidates and self._stop():
            # Interrupted before the confirmation: report the best of the search.
            best = candidates[0]
        sign = -1.0 if measurer.objective and measurer.objective.direction == "max" else 1.0
        config = request.base.with_point(best.point) if best else {}
        base_value = None
        if confirmation.baseline and confirmation.baseline.values:
            base_value = sign * confirmation.baseline.value
        elif baseline is not None:
            base_value = self._measured(baseline)
        trials = measurer.trials
        return SweepResult(
            name=request.file.name,
            objectives=measurer.objectives,
            trials=tuple(trials),
            best=best.point if best else None,
            best_value=sign * best.value if best else None,
            best_spread=best.spread if best else 0.0,
            baseline=baseline,
            baseline_value=base_value,
            gain=confirmation.gain,
            confirmed="; ".join(filter(None, (confirmation.sentence, self._search_summary))),
            builds=request.bench.builds,
            build_hits=sum(self._reused(trial) for trial in trials),
            seconds=measurer.elapsed_s,
            interrupted=self._stop(),
            full_config=config,
            user_conf=request.user_conf(config) if best else (),
            notes=tuple(notes),
        )

    def _reused(self, trial: SweepTrial) -> bool:
        """Whether a run used a kept build."""
        ran = not trial.cached and trial.status is not Status.INFEASIBLE
        return ran and not trial.built and bool(self._request.bench.build_key(trial.point))

    def _measured(self, point: Config) -> float | None:
        for trial in reversed(self._measurer.trials):
            if trial.point == point and trial.value is not None:
                return trial.value
        return None

    # the study in the ledger

    def _start_study(self, chosen: ChosenSearch) -> Study:
        request = self._request
        objectives = request.options.objectives
        study = Study(
            request.context.workload,
            SOLVER,
            request.context.device_class,
            chosen.name,
            request.seed,
            request.file.digest,
            objectives[0] if objectives else Objective("loadgen", "max"),
        )
        self._ledger.start_study(study, SOLVER_VERSION)
        if request.start_over or request.retry_failed:
            self._ledger.forget_study(study.id)
        self._told_before = len(self._ledger.trials(study.id))
        return study

    def _log_tell(self, trial: Trial) -> None:
        """Log a trial, unless an earlier session logged it."""
        if self._told_before:
            self._told_before -= 1
            return
        self._ledger.log_tells(self._study.id, [trial])


def _among(value: object, values: tuple[object, ...]) -> bool:
    """Whether a value is listed with the same type: 1 is not True."""
    return any(type(one) is type(value) and one == value for one in values)
