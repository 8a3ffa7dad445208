"""Jobs of MIOpen: MIOpenDriver builds and times, and leaves its databases.

The build stage builds nothing. MIOpen can compile without running, with
``MIOPEN_DEBUG_COMPILE_ONLY`` and ``MIOPEN_DEVICE_ARCH``; but MIOpenDriver opens a stream on a GPU
before it reads its command, so a machine without GPU would need a specially built library. The
evaluator compiles, into a cache for its GPU.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from skipjack.core import Config, Problem
from skipjack.errors import WorkerError
from skipjack.execute import CommandRequest, CommandRunner
from skipjack.fleet.model import MIOPEN, JobKind, JobStage, PriorResult, Task, TaskOutcome
from skipjack.fleet.work.task_context import DeviceAssignment
from skipjack.fleet.work.worker_log import including_file
from skipjack.interop.miopen import DatabaseRecord
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.reading import numbered, read_json
from skipjack.settings import MIOPEN_TIMEOUT_S, Settings, machine_name
from skipjack.solvers import find_solver, refusal
from skipjack.solvers.miopen import (
    DriverResult,
    DriverSetup,
    Finished,
    Installation,
    Invocation,
    Mode,
    ProblemRecords,
    SolverTime,
    drive,
    find_driver,
    probe,
    worker_folders,
)
from skipjack.storage import user_directory
from skipjack.tuning import OK, FindResult, FindStatus, RankedSolver

log = logging.getLogger(__name__)

_TIMEOUTS_S = {Mode.SEARCH: 4 * 3600.0, Mode.FIND: 1800.0, Mode.KERNELS: 1800.0}
"""MIOpen's own limit for the search of one solver is two hours."""
_MODES = {JobKind.TUNE: Mode.SEARCH, JobKind.FIND: Mode.FIND, JobKind.KERNELS: Mode.KERNELS}
_FORMAT = 1


def pass_on(task: Task) -> TaskOutcome:
    """The build stage: it builds nothing, but refuses problems that MIOpen does not support."""
    problem = parse(task.plan.problem)
    reason = refusal(find_solver(MIOPEN), problem, task.device)
    if reason:
        return TaskOutcome(
            task.job, JobStage.BUILD, inapplicable=f"miopen does not support it: {reason}"
        )
    log.info("MIOpen compiles where it runs: nothing is built here")
    brought = {hashlib.sha256(data).hexdigest(): data for data in map(pack_known, task.known)}
    return TaskOutcome(
        task.job, JobStage.BUILD, facts=_no_facts(), digests=tuple(brought), artifacts=brought
    )


class MiopenJobs:
    """Runs MIOpenDriver for an evaluator, and caches the version of MIOpen."""

    def __init__(self, settings: Settings) -> None:
        self._directory = user_directory(settings)
        self._runner = CommandRunner()
        self._known: dict[tuple[Path, str, str], Installation] = {}

    def evaluate(self, task: Task, assigned: DeviceAssignment) -> TaskOutcome:
        """Run a job on a GPU that the caller has locked."""
        problem = parse(task.plan.problem)
        mode = _MODES[task.plan.kind]
        # With the GPU's id: in containers that share a directory, each GPU is the first.
        gpu = "-".join(map(str, (assigned.gpu, *assigned.units)))
        bench = DriverSetup(
            find_driver(),
            worker_folders(self._directory, machine_name(), gpu),
            assigned.gpu,
            task.device.name,
            self._run,
            _timeout_s(mode),
        )
        driven = drive(bench, problem, mode, self._installation(bench), _harvest_of(task))
        result = result_of(problem, task.device.name, driven)
        timed = [entry.time_ms for entry in driven.entries if entry.time_ms is not None]
        return TaskOutcome(
            task.job,
            JobStage.EVALUATE,
            finished=True,
            facts=_no_facts(),
            digests=tuple(driven.code),
            artifacts=driven.code,
            trials=len(driven.entries),
            failed_trials=len(driven.entries) - len(timed),
            best_ns=min(timed) * 1e6 if timed else None,
            result=result,
        )

    def _installation(self, bench: DriverSetup) -> Installation:
        """Probed once by each worker, so that a wrong GPU or program fails before a long run."""
        key = bench.driver, bench.gpu, bench.device
        if key not in self._known:
            self._known[key] = probe(bench)
            log.info("MIOpen %s on %s", self._known[key].version, bench.device)
        return self._known[key]

    def _run(self, invocation: Invocation) -> Finished:
        task = CommandRequest(
            invocation.argv,
            invocation.directory,
            invocation.output,
            invocation.environment,
            invocation.timeout_s,
        )
        with including_file(invocation.output):
            ended = self._runner.run(task)
        try:
            text = ended.output.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ended.tail()
        return Finished(text, "" if ended.ok else ended.describe())

    def close(self) -> None:
        self._runner.close()


def pack_known(known: PriorResult) -> bytes:
    """Database lines of earlier jobs as an artifact, which the evaluator of the job gets."""
    return json.dumps({"format": _FORMAT, "miopen": dict(known.config)}, sort_keys=True).encode()


def _harvest_of(task: Task) -> ProblemRecords:
    for data in task.artifacts.values():
        known = read_json(data, "lines of MIOpen's databases", surrogates=True)
        if known["format"].plain != _FORMAT:
            raise WorkerError(
                f"lines of MIOpen's databases from the builder have format "
                f"{known['format'].plain}, but this Skipjack reads {_FORMAT}; use the same version "
                "for builders and evaluators"
            )
        lines = known["miopen"].fields()
        find, perf = (lines[name].text() if name in lines else "" for name in (FIND_DB, PERF_DB))
        return ProblemRecords(_record(find), _record(perf))
    return ProblemRecords()


def _record(line: str) -> DatabaseRecord | None:
    key, _, contents = line.partition("=")
    return DatabaseRecord.of_texts(key, contents) if contents else None


def _timeout_s(mode: Mode) -> float:
    return MIOPEN_TIMEOUT_S.value() or _TIMEOUTS_S[mode]


def _no_facts() -> str:
    """Empty facts: MIOpen's times are not our measurements, and not stored in ledgers."""
    with Ledger.in_memory() as ledger:
        return ledger.facts_since(ledger.snapshot())


FIND_DB, PERF_DB = "find_db", "perf_db"
"""Keys of database lines in a result, and in the artifact of a task."""
UNTIMED = "untimed"
"""The status of a solver without a valid time: its result is wrong, or the time that MIOpen stored
is impossible."""


def result_of(problem: Problem, device: str, driven: DriverResult) -> dict[str, Any]:
    """The result as JSON; `WorkerError` if no solver has a valid time."""
    if not any(entry.time_ms is not None for entry in driven.entries):
        remarks = "; ".join(entry.remark for entry in driven.entries[:1])
        raise WorkerError(
            f"none of the {numbered(len(driven.entries), 'solver')} that MIOpen stored has a valid "
            f"time: {remarks or 'the record is empty'}"
        )
    ranked = tuple(map(_ranked, driven.entries))
    found = FindResult(problem, device, FindStatus.OK, ranked, seconds=driven.seconds)
    log.info("ranked: %s", ", ".join(f"{one.solver} {one.time_ns:,.0f} ns" for one in found.ranked))
    record = found.to_json()
    for row, entry in zip(record["solvers"], driven.entries, strict=True):
        row |= {"algorithm": entry.algorithm, "verified": entry.verified}
    first = record["solvers"][0]
    return {
        **record,
        # The winner as in other jobs, without a version of a solver of ours.
        **{name: first[name] for name in ("solver", "config", "time_ns", "spread")},
        "solver_version": None,
        "trials": len(driven.entries),
        "failed": len(driven.entries) - len(found.ranked),
        "runs": driven.runs,
        "toolchain": f"MIOpen {driven.installation.version}",
        "miopen": _databases(driven),
    }


def _ranked(entry: SolverTime) -> RankedSolver:
    return RankedSolver(
        entry.solver,
        UNTIMED if entry.time_ms is None else OK,
        None if entry.time_ms is None else entry.time_ms * 1e6,
        entry.workspace_bytes,
        Config({"params": entry.params} if entry.params else {}),
        reason=entry.remark,
    )


def _databases(driven: DriverResult) -> dict[str, Any]:
    problem_records = driven.problem_records
    return {
        "version": driven.installation.version,
        "features": driven.installation.features,
        FIND_DB: _lines(problem_records.find),
        PERF_DB: _lines(problem_records.perf),
        "kernels": [
            {"name": one.name, "args": one.args, "digest": one.digest}
            for one in problem_records.kernels
        ],
        "unbelieved": driven.invalid_times,
    }


def _lines(record: DatabaseRecord | None) -> list[str]:
    """The line verbatim, for exports."""
    return [record.line] if record else []
