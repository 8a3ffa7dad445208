"""A benchmark that consists of commands; LoadGen runs that were too short are repeated."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from skipjack.core import Config, Status
from skipjack.errors import UsageError, WorkerError
from skipjack.execute import CommandRequest, CommandResult, CommandRunner, says_out_of_memory
from skipjack.interop.loadgen import (
    Judgement,
    LoadgenLog,
    RunValidity,
    average_watts,
    efficiency,
    read_power_log,
    user_conf_lines,
)
from skipjack.sweep.bench import RunCondition, RunOutcome, Thermal
from skipjack.sweep.commands import command
from skipjack.sweep.commands.builder import CommandBuilder, failure
from skipjack.sweep.commands.command import OUTPUT, RunDirectories
from skipjack.sweep.commands.command_spec import CommandSpec
from skipjack.sweep.commands.results import ResultReading

# Repair of runs that were too short: settings that make the next run long enough.

TRIES = 3
"""The most attempts at a run that measured too little."""
_SPELLINGS: dict[str, tuple[str, ...]] = {
    "offline_expected_qps": ("offline_expected_qps", "offline_target_qps", "target_qps"),
    "single_stream_expected_latency_ns": ("single_stream_expected_latency_ns",),
    "multi_stream_expected_latency_ns": ("multi_stream_expected_latency_ns",),
    "min_query_count": ("min_query_count",),
}
_LIMITS = {"min_query_count": "max_query_count"}
_SHARED = ("min_query_count", "max_query_count")
"""Settings that hold for all points: how many queries a percentile needs, not how fast they are."""
_EFFECTIVE = ("effective_target_qps", "effective_min_query_count", "effective_min_duration_ms")


def repair_settings(
    judgement: Judgement, config: Mapping[str, Any], point: Mapping[str, Any]
) -> dict[str, Any]:
    """Settings to lay over the config for the next attempt; empty if nothing can be done.

    A setting has the name that the config uses for it, otherwise LoadGen's own, which goes to
    user.conf. Swept parameters are never changed.
    """
    if judgement.verdict is not RunValidity.TOO_LITTLE:
        return {}
    settings: dict[str, Any] = {}
    for name, value in judgement.repair.items():
        spellings = _SPELLINGS.get(name, (name,))
        known = next((spelling for spelling in spellings if spelling in config), name)
        if known in point:
            continue
        settings[known] = int(value) if float(value).is_integer() else value
        limit = _LIMITS.get(name, "")
        if isinstance(config.get(limit), int | float) and 0 < config[limit] < value:
            settings[limit] = settings[known]
    return {name: value for name, value in settings.items() if config.get(name) != value}


class LearnedRepairs:
    """Settings that repaired earlier runs, for later ones."""

    def __init__(self) -> None:
        self._everywhere: dict[str, dict[str, Any]] = {}
        self._at: dict[tuple[str, str], dict[str, Any]] = {}

    def at(self, point: Config, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings to lay over the config of a run from the start."""
        rung = json.dumps(dict(settings), default=str)
        known = self._everywhere.get(rung, {}) | self._at.get((rung, point.key), {})
        return {name: value for name, value in known.items() if name not in point}

    def add(
        self, point: Config, settings: Mapping[str, Any], repaired: Mapping[str, Any], *, late: bool
    ) -> None:
        """Learn settings that made a run valid; after `late` queries, for this point only."""
        rung = json.dumps(dict(settings), default=str)
        self._at[rung, point.key] = dict(repaired)
        if not late:
            shared = {name: value for name, value in repaired.items() if name in _SHARED}
            self._everywhere.setdefault(rung, {}).update(shared)


def took_effect(before: LoadgenLog, after: LoadgenLog) -> bool:
    """Whether a repaired run was made with different settings than the one before."""
    return any(before.values.get(name) != after.values.get(name) for name in _EFFECTIVE)


def repair_note(judgement: Judgement, settings: Mapping[str, Any]) -> str:
    """For example ``measured again with min_query_count=574: 144 queries ...``."""
    changes = ", ".join(f"{name}={value}" for name, value in settings.items())
    return f"measured again with {changes}: {'; '.join(judgement.reasons)}"


# A benchmark that consists of a build command and a run command.


class CommandBench:
    """Builds and runs commands. A failure is an outcome; a full disk is a `StorageError`.

    `stop` is polled while a command runs. When it becomes true, the command is ended and `measure`
    raises `KeyboardInterrupt`.
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
        self._tracker = spec.source_tracker()
        self.builder = CommandBuilder(spec, self._tracker, stop, thermal) if spec.build else None
        self._runner = CommandRunner()
        self._runner.start()
        self._tracker.begin()
        self._learned = LearnedRepairs()
        self._withheld_noted = False

    @property
    def builds(self) -> int:
        return self.builder.builds if self.builder else 0

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the whole sweep."""
        thermal = self._thermal.remarks() if self._thermal else ()
        sources = (self._tracker.note,) if self._tracker.note else ()
        return (*(self.builder.notes if self.builder else ()), *sources, *thermal)

    def build_key(self, point: Config) -> str:
        return self._spec.build_key(point)

    def prepare(self, points: Sequence[Config]) -> None:
        if self.builder:
            self.builder.prefetch(points)

    def measure(self, point: Config, settings: Mapping[str, Any]) -> RunOutcome:
        """Build if needed, and run; run again if LoadGen reports that it measured too little."""
        build_dir, build_seconds = None, 0.0
        if self.builder:
            built, build_seconds = self.builder.build_for(point)
            if isinstance(built, RunOutcome):
                return built
            build_dir = built.directory
        if not self._warm and self._thermal:
            self._warm = True
            config = self._spec.config(point, settings)
            self._thermal.warm_up(lambda: self._run(point, config, build_dir))
        outcome = self._run_until_it_counts(point, settings, build_dir)
        self._tracker.note_changes()
        return replace(outcome, build_seconds=build_seconds)

    def close(self) -> None:
        self._runner.close()
        if self.builder:
            self.builder.close()
        self._tracker.close()

    def _run_until_it_counts(
        self, point: Config, settings: Mapping[str, Any], build_dir: Path | None
    ) -> RunOutcome:
        repaired = self._learned.at(point, settings)
        notes = self._first_notes(point, repaired)
        before: ResultReading | None = None
        earlier: RunOutcome | None = None
        for tries_left in reversed(range(TRIES)):
            config = self._spec.config(point, {**settings, **repaired})
            outcome, reading = self._run(point, config, build_dir)
            if earlier and outcome.status is Status.TIMEOUT:
                notes.append("the longer run did not end in time, so the run before it counts")
                outcome = earlier
                break
            if reading is None or reading.judgement is None:
                break
            if reading.judgement.verdict is not RunValidity.TOO_LITTLE:
                if before and outcome.status is Status.OK:
                    # With late queries, the number that is needed depends on the point.
                    late = before.log and before.log.number("result_overlatency_query_count")
                    self._learned.add(point, settings, repaired, late=bool(late))
                break
            if before and before.log and reading.log and not took_effect(before.log, reading.log):
                notes.append("the command did not apply the changed settings")
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
            notes.append(f"run with {changes}, which an earlier run needed to be valid")
        if not self._withheld_noted:
            self._withheld_noted = True
            names = command.withheld(self._spec.config(point, {}))
            if names:
                notes.append(
                    f"not set as environment variables, because that could break commands: "
                    f"{', '.join(names)}; read them from the file $SKIPJACK_CONFIG"
                )
        return notes

    def _run(
        self, point: Config, config: Mapping[str, Any], build_dir: Path | None
    ) -> tuple[RunOutcome, ResultReading | None]:
        spec = self._spec
        directory = self._directories.new()
        files = command.write_files(
            directory, config, point, build_dir, directory, self._user_conf(config)
        )
        values = spec.placeholders(point, config, files)
        task = CommandRequest(
            spec.run.filled(values),
            spec.workdir,
            directory / OUTPUT,
            command.environment(config, files, spec.environment),
            spec.run_timeout_s,
            cores=spec.run_cores,
        )
        before = spec.result.before(values, spec.workdir)
        try:
            ended, condition = self._run_watched(task)
        except WorkerError as error:
            return RunOutcome(Status.ERROR, reason=str(error), log=str(task.output)), None
        if ended.stopped:
            raise KeyboardInterrupt
        if ended.cause:
            return failure(ended, build=False), None
        reading = spec.result.read(before, ended)
        outcome = condition.added_to(_outcome(ended, reading))
        if ended.strays:
            ends = "could not be ended" if ended.left else "were ended"
            stray = f"the run left processes running ({ended.strays}), which {ends}"
            outcome = replace(outcome, notes=(*outcome.notes, stray))
        if spec.power_log is not None:
            outcome = with_power(outcome, reading.log, spec.power_log)
        return outcome, reading

    def _run_watched(self, task: CommandRequest) -> tuple[CommandResult, RunCondition]:
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


def _outcome(ended: CommandResult, reading: ResultReading) -> RunOutcome:
    """The outcome of a run that ended on its own."""
    judgement = reading.judgement
    invalid = judgement is not None and judgement.verdict is not RunValidity.VALID
    if not ended.ok and not invalid:
        return failure(ended, build=False)
    outcome = RunOutcome(Status.OK, reading.metrics, "", ended.seconds, log=str(ended.output))
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


def with_power(outcome: RunOutcome, log: LoadgenLog | None, power_log: Path) -> RunOutcome:
    """The outcome with ``power_w`` and results per watt, or with a note why there are none."""
    if log is None:
        return _no_power(outcome, "there is no LoadGen log with the time span of the measurement")
    begin, end = log.values.get("power_begin"), log.values.get("power_end")
    if begin is None or end is None:
        return _no_power(outcome, "the LoadGen log has no power_begin or power_end")
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


def _no_power(outcome: RunOutcome, note: str) -> RunOutcome:
    return replace(outcome, notes=(*outcome.notes, f"no power: {note}"))
