"""A whole sweep: the baseline, the search, the confirmation, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from skipjack.core.config import Config
from skipjack.core.naming import did_you_mean
from skipjack.core.objective import Objective
from skipjack.core.study import Study
from skipjack.core.trial import Status, Trial
from skipjack.errors import SkipjackError, UsageError
from skipjack.ledger import Ledger
from skipjack.search.scripted import ScriptedSearcher, SearcherInterface
from skipjack.sweep.choosing import Chosen, choose_search
from skipjack.sweep.configs.base_config import BaseConfig, is_allowed
from skipjack.sweep.confirming import FINALISTS, Finalist, SweepVerdict, confirm, ranked
from skipjack.sweep.files.sweep_file import SweepFile
from skipjack.sweep.history import SOLVER, SOLVER_VERSION, RunHistory, SweepPlace
from skipjack.sweep.load_goal import LoadSearch, load_candidates
from skipjack.sweep.measuring import Measuring
from skipjack.sweep.options import SweepOptions
from skipjack.sweep.outcome import Bench
from skipjack.sweep.result import SweepResult, SweepTrial
from skipjack.sweep.search_loop import SearchLoop


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """Everything that a sweep is made of."""

    file: SweepFile
    base: BaseConfig
    bench: Bench
    place: SweepPlace
    options: SweepOptions = field(default_factory=SweepOptions)
    searcher: str | None = None
    """By name; None: the file's own search, or every combination."""
    seed: int = 0
    load: LoadSearch | None = None
    """A search for the largest load that holds, instead of the above."""
    in_order: bool = False
    """Whether points are run in the order in which the search names them."""
    as_grid: bool = False
    """Whether all combinations come in grid.py's order, whatever else is in order."""
    check_names: bool = True
    run_timeout_s: float = float("inf")
    start_over: bool = False
    retry_failed: bool = False
    user_conf: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda config: ()
    """What a submitter pastes, given the best config."""


def run_sweep(
    request: SweepRequest, ledger: Ledger, stop: Callable[[], bool] = lambda: False
) -> SweepResult:
    """Run it, or go on with it; each run is in the ledger as soon as it ended."""
    return _Sweep(request, ledger, stop).run()


class _Sweep:
    def __init__(self, request: SweepRequest, ledger: Ledger, stop: Callable[[], bool]) -> None:
        self._request, self._ledger, self._stop = request, ledger, stop
        history = RunHistory(ledger, request.place, request.run_timeout_s)
        if request.start_over:
            history.forget_all()
        elif request.retry_failed:
            history.forget_failures()
        self._said = ""
        """What the search for a load, or the file's own, says of its answer."""
        self._own_best = False
        self._notes: tuple[str, ...] = ()
        self._base_trials: list[Trial] = []
        """The base config where it is none of the points: it may turn out to be the best."""
        self._measuring = Measuring(request.bench, history, request.options)
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
            self._notes += (f"{', '.join(empty)} has no values, so there is nothing to run",)
            return self._result(SweepVerdict(None, None, None, ""), [], None)
        baseline = self._run_baseline()
        before = len(self._measuring.trials)
        self._measuring.at_most = self._chosen.at_most
        if self._chosen.planned is not None:
            self._measuring.planned = before + self._chosen.planned * self._request.options.repeats
        loop = SearchLoop(self._measuring, self._refusal, self._stop, self._log_tell)
        with self._until_stopped():
            loop.search(self._chosen.searcher, in_order=self._request.in_order)
        if isinstance(self._chosen.searcher, ScriptedSearcher):
            self._chosen.searcher.settle()
        self._measuring.planned = None
        if self._chosen.own is not None and self._request.options.baseline:
            baseline = self._baseline_of([trial.config for trial in loop.told])
        field_ = self._finalists([*self._base_trials, *loop.told])
        verdict = SweepVerdict(None, None, None, "")
        with self._until_stopped():
            verdict = confirm(
                field_,
                baseline,
                self._measuring,
                self._request.options.confirm,
                at_a_time=self._finalists_at_a_time(),
                stop=self._stop,
            )
        return self._result(verdict, field_, baseline)

    def _finalists_at_a_time(self) -> int | None:
        """One after the other where it is known which is best; the first few after short runs."""
        if self._request.load is not None or self._own_best:
            return 1
        return FINALISTS if self._request.options.screen else None

    @contextmanager
    def _until_stopped(self) -> Iterator[None]:
        """A run that was ended by Ctrl-C has no outcome; what was measured before is reported."""
        try:
            yield
        except KeyboardInterrupt:
            if not self._stop():
                raise

    # the baseline

    def _run_baseline(self) -> Config | None:
        """The base config itself, first: what it gives is what there is to gain on."""
        file, options = self._request.file, self._request.options
        # The load of a base config is what somebody asked for, not what it can carry.
        if not options.baseline or not file.parameters or self._request.load or file.search:
            return None
        baseline = self._baseline_of([Config.of(dict.fromkeys(file.parameters))])
        if baseline is None:
            return None
        listed = all(_among(baseline[name], values) for name, values in file.parameters.items())
        if not listed and not self._stop():
            with self._until_stopped():
                first = self._measuring.measure(
                    baseline, "baseline", options.screen, options.repeats
                )
                self._base_trials = [first]
        return baseline

    def _baseline_of(self, points: list[Config]) -> Config | None:
        """The settings of the base config for the parameters that points vary."""
        if not points:
            return None
        found = self._request.base.point(points[0])
        return None if not found or self._refusal(found) else found

    def _refusal(self, point: Config) -> str:
        """Why a point may not be run, or nothing: the file's rule forbids it.

        One that names what the base config does not have is the user's mistake.
        """
        base, file = self._request.base, self._request.file
        unknown = [name for name in point if not base.has(name)]
        if unknown and self._request.check_names and base.where:
            raise UsageError(
                f"the search of {file.path} names {', '.join(unknown)}, which is not in the base "
                f"config {base.where}{did_you_mean(unknown[0], base.config)}; correct it, or say "
                "--no-check-keys"
            )
        return "" if is_allowed(file, base, point) else "the file's rule forbids it"

    # the verdict

    def _finalists(self, told: list[Trial]) -> list[Finalist]:
        """The best points by what was measured; a search for a load knows better what holds."""
        if self._chosen.own is not None:
            return self._by_its_own_word(self._chosen.own, ranked(told))
        if self._request.load is None:
            return ranked(told)
        points, self._said = load_candidates(self._request.load)
        name = self._request.options.load
        if points and not self._request.options.confirm:
            # Nothing will be confirmed, so it has to be a load that was run.
            others = {key: value for key, value in points[0].items() if key != name}
            return [f for f in ranked(told) if others.items() <= dict(f.point).items()]
        return [Finalist(point, -float(point[name])) for point in points]

    def _by_its_own_word(self, search: SearcherInterface, field_: list[Finalist]) -> list[Finalist]:
        """What the file's search calls the best, then those that measured worse than it."""
        try:
            best = dict(search.get_best())
        except NotImplementedError:
            return field_
        except SkipjackError as error:
            self._said = str(error)
            return []
        for place, finalist in enumerate(field_):
            if all(finalist.point.get(name) == value for name, value in best.items()):
                self._own_best = True
                return field_[place:]
        return field_

    def _result(
        self, verdict: SweepVerdict, field_: list[Finalist], baseline: Config | None
    ) -> SweepResult:
        request, measuring = self._request, self._measuring
        best = verdict.best
        notes = (*self._notes, *request.bench.notes)
        if best is None and field_ and self._stop():
            # There was no time to confirm: the search's own best is better than no answer.
            best = field_[0]
        sign = -1.0 if measuring.objective and measuring.objective.direction == "max" else 1.0
        config = request.base.with_point(best.point) if best else {}
        base_value = None
        if verdict.baseline and verdict.baseline.values:
            base_value = sign * verdict.baseline.value
        elif baseline is not None:
            base_value = self._measured(baseline)
        trials = measuring.trials
        return SweepResult(
            name=request.file.name,
            objectives=measuring.objectives,
            trials=tuple(trials),
            best=best.point if best else None,
            best_value=sign * best.value if best else None,
            best_spread=best.spread if best else 0.0,
            baseline=baseline,
            baseline_value=base_value,
            gain=verdict.gain,
            confirmed="; ".join(filter(None, (verdict.sentence, self._said))),
            builds=request.bench.builds,
            build_hits=sum(self._reused(trial) for trial in trials),
            seconds=measuring.elapsed_s,
            interrupted=self._stop(),
            full_config=config,
            user_conf=request.user_conf(config) if best else (),
            notes=tuple(notes),
        )

    def _reused(self, trial: SweepTrial) -> bool:
        """Whether a run was made with a build that was there."""
        ran = not trial.cached and trial.status is not Status.INFEASIBLE
        return ran and not trial.built and bool(self._request.bench.build_key(trial.point))

    def _measured(self, point: Config) -> float | None:
        for trial in reversed(self._measuring.trials):
            if trial.point == point and trial.value is not None:
                return trial.value
        return None

    # the study in the ledger

    def _start_study(self, chosen: Chosen) -> Study:
        request = self._request
        objectives = request.options.objectives
        study = Study(
            request.place.workload,
            SOLVER,
            request.place.device_class,
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
        """What was told in an earlier sitting is in the log already."""
        if self._told_before:
            self._told_before -= 1
            return
        self._ledger.log_tells(self._study.id, [trial])


def _among(value: object, values: tuple[object, ...]) -> bool:
    """Whether a value is listed, as the kind it is: 1 is not True."""
    return any(type(one) is type(value) and one == value for one in values)
