"""A benchmark that is two commands, as something that can be measured at points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skipjack.core.config import Config
from skipjack.core.trial import Status
from skipjack.errors import UsageError, WorkerError
from skipjack.execute.commands import CommandRunner, Ended, Task, says_out_of_memory
from skipjack.interop.loadgen_log import LoadgenLog, LoadgenVerdict
from skipjack.interop.power_log import average_watts, efficiency, read_power_log
from skipjack.interop.user_conf import user_conf_lines
from skipjack.sweep.commands import environment
from skipjack.sweep.commands.builder import CommandBuilder
from skipjack.sweep.commands.command_spec import CommandSpec
from skipjack.sweep.commands.environment import OUTPUT, RunDirectories
from skipjack.sweep.commands.failures import failure
from skipjack.sweep.commands.repair import (
    TRIES,
    Learned,
    repair_note,
    repair_settings,
    took_effect,
)
from skipjack.sweep.commands.results import ResultReading
from skipjack.sweep.heat.thermal import RunCondition, Thermal
from skipjack.sweep.outcome import Outcome


class CommandBench:
    """Builds and runs commands. A failing one is an outcome; a full disk is a `StorageError`.

    `stop` is looked at while a command runs. When it becomes true the command is ended and
    `measure` raises `KeyboardInterrupt`: there is no outcome then.
    """

    def __init__(
        self,
        spec: CommandSpec,
        stop: Callable[[], bool] = lambda: False,
        thermal: Thermal | None = None,
    ) -> None:
        spec.check()
        self._spec, self._stop, self._thermal = spec, stop, thermal
        self._warm = thermal is None
        self._directories = RunDirectories(spec.state_dir / "runs")
        self._watch = spec.source_watch()
        self.builder = CommandBuilder(spec, self._watch, stop, thermal) if spec.build else None
        self._runner = CommandRunner()
        self._runner.start()
        self._watch.begin()
        self._learned = Learned()
        self._withheld_told = False

    @property
    def builds(self) -> int:
        return self.builder.builds if self.builder else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the whole sweep should know."""
        thermal = self._thermal.remarks() if self._thermal else ()
        watch = (self._watch.note,) if self._watch.note else ()
        return (*(self.builder.notes if self.builder else ()), *watch, *thermal)

    def build_key(self, point: Config) -> str:
        return self._spec.build_key(point)

    def prepare(self, points: Sequence[Config]) -> None:
        if self.builder:
            self.builder.want(points)

    def measure(self, point: Config, settings: Mapping[str, Any]) -> Outcome:
        """Build if need be, and run once; again if LoadGen says that it measured too little."""
        build_dir, build_seconds = None, 0.0
        if self.builder:
            built, build_seconds = self.builder.ready(point)
            if isinstance(built, Outcome):
                return built
            build_dir = built.directory
        if not self._warm and self._thermal:
            self._warm = True
            config = self._spec.config(point, settings)
            self._thermal.warm_up(lambda: self._run(point, config, build_dir))
        outcome = self._run_until_it_counts(point, settings, build_dir)
        self._watch.note_changes()
        return replace(outcome, build_seconds=build_seconds)

    def close(self) -> None:
        self._runner.close()
        if self.builder:
            self.builder.close()
        self._watch.close()

    def _run_until_it_counts(
        self, point: Config, settings: Mapping[str, Any], build_dir: Path | None
    ) -> Outcome:
        repaired = self._learned.at(point, settings)
        notes = self._first_notes(point, repaired)
        before: ResultReading | None = None
        earlier: Outcome | None = None
        for tries_left in reversed(range(TRIES)):
            config = self._spec.config(point, {**settings, **repaired})
            outcome, reading = self._run(point, config, build_dir)
            if earlier and outcome.status is Status.TIMEOUT:
                notes.append("the longer run did not end in time; what counts is the one before it")
                outcome = earlier
                break
            if reading is None or reading.judgement is None:
                break
            if reading.judgement.verdict is not LoadgenVerdict.TOO_LITTLE:
                if before and outcome.status is Status.OK:
                    # With late queries, how many it then takes is a matter of that point alone.
                    late = before.log and before.log.number("result_overlatency_query_count")
                    self._learned.add(point, settings, repaired, late=bool(late))
                break
            if before and before.log and reading.log and not took_effect(before.log, reading.log):
                notes.append("the command did not take the settings over")
                break
            more = repair_settings(reading.judgement, config, point)
            if not more or not tries_left:
                break
            notes.append(repair_note(reading.judgement, more))
            repaired |= more
            before, earlier = reading, outcome
        return replace(outcome, notes=(*notes, *outcome.notes))

    def _first_notes(self, point: Config, repaired: Mapping[str, Any]) -> list[str]:
        notes = []
        if repaired:
            changes = ", ".join(f"{name}={value}" for name, value in repaired.items())
            notes.append(f"run with {changes}, which an earlier run needed to count")
        if not self._withheld_told:
            self._withheld_told = True
            names = environment.withheld(self._spec.config(point, {}))
            if names:
                notes.append(
                    f"not set as variables, since that could break commands: {', '.join(names)}; "
                    "they are in the file that $SKIPJACK_CONFIG names"
                )
        return notes

    def _run(
        self, point: Config, config: Mapping[str, Any], build_dir: Path | None
    ) -> tuple[Outcome, ResultReading | None]:
        spec = self._spec
        directory = self._directories.new()
        files = environment.write_files(
            directory, config, point, build_dir, directory, self._user_conf(config)
        )
        values = spec.placeholders(point, config, files)
        task = Task(
            spec.run.filled(values),
            spec.workdir,
            directory / OUTPUT,
            environment.environment(config, files, spec.environment),
            spec.run_timeout_s,
            cores=spec.run_cores,
        )
        before = spec.result.before(values, spec.workdir)
        try:
            ended, condition = self._run_watched(task)
        except WorkerError as error:
            return Outcome(Status.ERROR, reason=str(error), log=str(task.output)), None
        if ended.stopped:
            raise KeyboardInterrupt
        if ended.cause:
            return failure(ended, build=False), None
        reading = spec.result.read(before, ended)
        outcome = condition.added_to(_outcome(ended, reading))
        if ended.strays:
            ends = "could not be ended" if ended.left else "were ended"
            stray = f"it left processes running ({ended.strays}), which {ends}"
            outcome = replace(outcome, notes=(*outcome.notes, stray))
        if spec.power_log is not None:
            outcome = with_power(outcome, reading.log, spec.power_log)
        return outcome, reading

    def _run_watched(self, task: Task) -> tuple[Ended, RunCondition]:
        if self._thermal is None:
            return self._runner.run(task, self._stop), RunCondition()
        note = self._thermal.before_run()
        with self._thermal.watch() as watch:
            ended = self._runner.run(task, self._stop)
        return ended, watch.condition(note)

    def _user_conf(self, config: Mapping[str, Any]) -> tuple[str, ...] | None:
        lines = user_conf_lines(config)
        wanted = self._spec.result.kind == "loadgen" or "user_conf" in self._spec.run.placeholders
        return lines if lines or wanted else None


def _outcome(ended: Ended, reading: ResultReading) -> Outcome:
    """What a run that came to its own end amounts to."""
    judgement = reading.judgement
    invalid = judgement is not None and judgement.verdict is not LoadgenVerdict.VALID
    if not ended.ok and not invalid:
        return failure(ended, build=False)
    outcome = Outcome(Status.OK, reading.metrics, "", ended.seconds, log=str(ended.output))
    if reading.missing:
        if says_out_of_memory(ended.tail()):
            reason = f"the run ran out of memory and {reading.missing}"
            return replace(outcome, status=Status.OUT_OF_MEMORY, reason=reason)
        return replace(outcome, status=Status.NO_RESULT, reason=reading.missing)
    if judgement is not None and invalid:
        advice = (f"set {name}={value:g}" for name, value in judgement.repair.items())
        reason = f"{judgement.verdict.value}: {'; '.join((*judgement.reasons, *advice))}"
        return replace(outcome, status=Status.INVALID, reason=reason)
    return outcome


def with_power(outcome: Outcome, log: LoadgenLog | None, power_log: Path) -> Outcome:
    """The outcome with ``power_w`` and results per watt; a note where they cannot be had."""
    if log is None:
        return _no_power(outcome, "there is no LoadGen log that says when to look at the power")
    begin, end = log.values.get("power_begin"), log.values.get("power_end")
    if begin is None or end is None:
        return _no_power(outcome, "the LoadGen log does not say when power counts")
    try:
        samples = read_power_log(power_log)
        watts = average_watts(samples, str(begin), str(end))
        if watts is None:
            return _no_power(outcome, f"{power_log} has no samples between {begin} and {end}")
        metrics = {**outcome.metrics, "power_w": watts}
        if outcome.status is Status.OK:
            metrics |= efficiency(outcome.metrics, watts, log.scenario)
    except (UsageError, ValueError) as error:
        return _no_power(outcome, str(error))
    return replace(outcome, metrics=metrics, notes=(*outcome.notes, *samples.remarks()))


def _no_power(outcome: Outcome, note: str) -> Outcome:
    return replace(outcome, notes=(*outcome.notes, f"no power: {note}"))
