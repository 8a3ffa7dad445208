"""Jobs of MIOpen: nothing is built or timed by us, a program does both and leaves its databases.

The build stage passes such a job on. MIOpen can compile without running, by
``MIOPEN_DEBUG_COMPILE_ONLY`` and ``MIOPEN_DEVICE_ARCH``; but MIOpenDriver opens a stream on a GPU
before it reads its command, so that a machine without one needs a library that was built for that.
The evaluator compiles, into a cache that its GPU keeps.
"""

from __future__ import annotations

import hashlib
import json
import logging
from pathlib import Path
from typing import Any

from skipjack.core.config import Config
from skipjack.core.problem import Problem
from skipjack.errors import WorkerError
from skipjack.execute.commands import CommandRunner
from skipjack.execute.commands import Task as CommandTask
from skipjack.fleet.host import machine_name
from skipjack.fleet.records import MIOPEN, JobKind, Known
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Outcome, Task
from skipjack.fleet.work.assignment import DeviceAssignment
from skipjack.fleet.worker_log import printing_to
from skipjack.interop.miopen import Record
from skipjack.ledger import Ledger
from skipjack.operations import parse
from skipjack.reading import numbered, read_json
from skipjack.settings import MIOPEN_TIMEOUT_S, Settings
from skipjack.solvers import find_solver, refusal
from skipjack.solvers.miopen.command import Mode
from skipjack.solvers.miopen.databases import Harvest, Installation
from skipjack.solvers.miopen.driving import Bench, Driven, Entry, Finished, Invocation, drive, probe
from skipjack.solvers.miopen.environment import place_of
from skipjack.solvers.miopen.finding import find_driver
from skipjack.storage import user_directory
from skipjack.tuning.finding import OK, FindResult, FindStatus, RankedSolver

log = logging.getLogger(__name__)

_TIMEOUTS_S = {Mode.SEARCH: 4 * 3600.0, Mode.FIND: 1800.0, Mode.KERNELS: 1800.0}
"""MIOpen itself gives the search of one solver two hours."""
_MODES = {JobKind.TUNE: Mode.SEARCH, JobKind.FIND: Mode.FIND, JobKind.KERNELS: Mode.KERNELS}
_FORMAT = 1


def pass_on(task: Task) -> Outcome:
    """The build stage: there is nothing to build, but what cannot be done is said here."""
    problem = parse(task.plan.problem)
    reason = refusal(find_solver(MIOPEN), problem, task.device)
    if reason:
        return Outcome(task.job, Stage.BUILD, inapplicable=f"miopen cannot do it: {reason}")
    log.info("MIOpen compiles where it runs: nothing is built here")
    brought = {hashlib.sha256(data).hexdigest(): data for data in map(pack_known, task.known)}
    return Outcome(
        task.job, Stage.BUILD, facts=_no_facts(), digests=tuple(brought), artifacts=brought
    )


class MiopenJobs:
    """Runs MIOpenDriver for an evaluator, and remembers which MIOpen it is."""

    def __init__(self, settings: Settings) -> None:
        self._directory = user_directory(settings)
        self._runner = CommandRunner()
        self._known: dict[tuple[Path, str, str], Installation] = {}

    def evaluate(self, task: Task, assigned: DeviceAssignment) -> Outcome:
        """Do a job on a GPU, which is held by the caller."""
        problem = parse(task.plan.problem)
        mode = _MODES[task.plan.kind]
        # Of the very GPU: in containers that share a directory, each one's is the first.
        gpu = "-".join(map(str, (assigned.gpu, *assigned.units)))
        bench = Bench(
            find_driver(),
            place_of(self._directory, machine_name(), gpu),
            assigned.gpu,
            task.device.name,
            self._run,
            _timeout_s(mode),
        )
        driven = drive(bench, problem, mode, self._installation(bench), _harvest_of(task))
        result = result_of(problem, task.device.name, driven)
        timed = [entry.time_ms for entry in driven.entries if entry.time_ms is not None]
        return Outcome(
            task.job,
            Stage.EVALUATE,
            finished=True,
            facts=_no_facts(),
            digests=tuple(driven.code),
            artifacts=driven.code,
            trials=len(driven.entries),
            failed_trials=len(driven.entries) - len(timed),
            best_ns=min(timed) * 1e6 if timed else None,
            result=result,
        )

    def _installation(self, bench: Bench) -> Installation:
        """Asked once by each worker, so that a wrong GPU or program is told before hours pass."""
        key = bench.driver, bench.gpu, bench.device
        if key not in self._known:
            self._known[key] = probe(bench)
            log.info("MIOpen %s on %s", self._known[key].version, bench.device)
        return self._known[key]

    def _run(self, invocation: Invocation) -> Finished:
        task = CommandTask(
            invocation.argv,
            invocation.directory,
            invocation.output,
            invocation.environment,
            invocation.timeout_s,
        )
        with printing_to(invocation.output):
            ended = self._runner.run(task)
        try:
            text = ended.output.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ended.tail()
        return Finished(text, "" if ended.ok else ended.describe())

    def close(self) -> None:
        self._runner.close()


def pack_known(known: Known) -> bytes:
    """Lines that earlier jobs have found, as an artifact: an evaluator gets those of its job."""
    return json.dumps({"format": _FORMAT, "miopen": dict(known.config)}, sort_keys=True).encode()


def _harvest_of(task: Task) -> Harvest:
    for data in task.artifacts.values():
        known = read_json(data, "lines of MIOpen's databases", surrogates=True)
        if known["format"].plain != _FORMAT:
            raise WorkerError(
                f"lines of MIOpen's databases that the builder passed on are of format "
                f"{known['format'].plain}, this Skipjack reads {_FORMAT}; builders and evaluators "
                "need the same version"
            )
        lines = known["miopen"].fields()
        find, perf = (lines[name].text() if name in lines else "" for name in (FIND_DB, PERF_DB))
        return Harvest(_record(find), _record(perf))
    return Harvest()


def _record(line: str) -> Record | None:
    key, _, contents = line.partition("=")
    return Record.of_texts(key, contents) if contents else None


def _timeout_s(mode: Mode) -> float:
    return MIOPEN_TIMEOUT_S.value() or _TIMEOUTS_S[mode]


def _no_facts() -> str:
    """MIOpen's times are no measurements of ours: nothing of them goes into ledgers."""
    with Ledger.in_memory() as ledger:
        return ledger.facts_beyond(ledger.snapshot())


FIND_DB, PERF_DB = "find_db", "perf_db"
"""Where a result has the lines of databases; a task that builds upon them, too."""
UNTIMED = "untimed"
"""The status of a solver without a time that is believed: its result is wrong, or the time that
MIOpen stored cannot be one."""


def result_of(problem: Problem, device: str, driven: Driven) -> dict[str, Any]:
    """One record for machines; `WorkerError` if no solver has a time that can be believed."""
    if not any(entry.time_ms is not None for entry in driven.entries):
        remarks = "; ".join(entry.remark for entry in driven.entries[:1])
        raise WorkerError(
            f"none of the {numbered(len(driven.entries), 'solver')} that MIOpen stored has a time "
            f"that can be believed: {remarks or 'the record is empty'}"
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
        # As other jobs say who won; no version of ours is behind it.
        **{name: first[name] for name in ("solver", "config", "time_ns", "spread")},
        "solver_version": None,
        "trials": len(driven.entries),
        "failed": len(driven.entries) - len(found.ranked),
        "runs": driven.runs,
        "toolchain": f"MIOpen {driven.installation.version}",
        "miopen": _databases(driven),
    }


def _ranked(entry: Entry) -> RankedSolver:
    return RankedSolver(
        entry.solver,
        UNTIMED if entry.time_ms is None else OK,
        None if entry.time_ms is None else entry.time_ms * 1e6,
        entry.workspace_bytes,
        Config({"params": entry.params} if entry.params else {}),
        reason=entry.remark,
    )


def _databases(driven: Driven) -> dict[str, Any]:
    harvest = driven.harvest
    return {
        "version": driven.installation.version,
        "features": driven.installation.features,
        FIND_DB: _lines(harvest.find),
        PERF_DB: _lines(harvest.perf),
        "kernels": [
            {"name": one.name, "args": one.args, "digest": one.digest} for one in harvest.kernels
        ],
        "unbelieved": driven.unbelieved,
    }


def _lines(record: Record | None) -> list[str]:
    """Verbatim, as exports pass them on."""
    return [record.line] if record else []
