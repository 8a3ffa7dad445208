"""Programs that ran with tuned kernels: hits, misses, and the time that they saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from skipjack.app.views.links import problem_path, program_path
from skipjack.app.views.tables import RecordTable, TableRequest, ViewColumn, table_of
from skipjack.app.views.workspace import UnknownNameError, Workspace
from skipjack.errors import SkipjackError, StorageError
from skipjack.integrations.torch.outcomes import ProgramTime, ReadResult, ResultRow, read_result
from skipjack.runtime import MissedProblem, MissFile


@dataclass(frozen=True, slots=True)
class ProgramRow:
    """A run of a program, from its result file."""

    name: str
    """The name of the file."""
    command: str
    policy: str
    has_ended: bool
    operations: int
    hits: int
    """Operations that a bank answered."""
    tuned: int
    """Operations that a search was made for."""
    ours: int
    """Operations that our kernels run."""
    failed: int
    saved_us: float
    """The time that calls saved, by the times of single calls."""
    gain: float | None
    """How many times as fast the whole program is, if it was run without our kernels, too."""
    written: float
    """In seconds since 1970."""
    error: str = ""
    """Why the file cannot be read."""


PROGRAM_COLUMNS: tuple[ViewColumn[ProgramRow], ...] = (
    ViewColumn(
        "name",
        "file",
        lambda one: one.name,
        filterable=True,
        link=lambda one: None if one.error else program_path(one.name),
    ),
    ViewColumn("command", "command", lambda one: one.command, filterable=True),
    ViewColumn("policy", "policy", lambda one: one.policy, filterable=True),
    ViewColumn("operations", "operations", lambda one: one.operations, "count"),
    ViewColumn("hits", "hits", lambda one: one.hits, "count"),
    ViewColumn("tuned", "tuned", lambda one: one.tuned, "count"),
    ViewColumn("ours", "our kernels", lambda one: one.ours, "count"),
    ViewColumn("failed", "failed", lambda one: one.failed, "count"),
    ViewColumn("saved_us", "saved", lambda one: 1000.0 * one.saved_us, "ns"),
    ViewColumn("gain", "gain", lambda one: one.gain, "ratio"),
    ViewColumn("written", "written", lambda one: one.written, "time"),
    ViewColumn("error", "error", lambda one: one.error, sortable=False),
)

MISS_COLUMNS: tuple[ViewColumn[MissedProblem], ...] = (
    ViewColumn(
        "problem",
        "problem",
        lambda one: one.problem,
        filterable=True,
        link=lambda one: problem_path(one.problem),
    ),
    ViewColumn("device", "device", lambda one: one.device, filterable=True),
    ViewColumn("lookups", "lookups", lambda one: one.lookups, "count"),
    ViewColumn("calls", "calls", lambda one: one.calls, "count"),
    ViewColumn("time_ns", "time in calls", lambda one: one.time_ns, "ns"),
    ViewColumn("sent", "sent to the fleet", lambda one: one.sent),
)


@dataclass(frozen=True, slots=True)
class ProgramsPage:
    """Programs that were run, and problems that no bank knew."""

    programs: RecordTable[ProgramRow]
    misses: RecordTable[MissedProblem]


def programs_page(
    workspace: Workspace,
    request: TableRequest | None = None,
    of_misses: TableRequest | None = None,
) -> ProgramsPage:
    """Result files of programs, the newest first, and the most valuable misses."""
    rows = [
        workspace.remembered("program", path, partial(_row, path))
        for path in workspace.program_results()
    ]
    misses = MissFile(workspace.user_dir).missed()
    return ProgramsPage(
        table_of("programs", PROGRAM_COLUMNS, rows, request or TableRequest()),
        table_of("misses", MISS_COLUMNS, misses, of_misses or TableRequest()),
    )


def _row(path: Path) -> ProgramRow:
    written = path.stat().st_mtime
    try:
        result = _read(path)
    except SkipjackError as error:
        nothing = (0, 0, 0, 0, 0, 0.0, None)
        return ProgramRow(path.name, "", "", False, *nothing, written, str(error))
    return summary_of(path.name, result, written)


def _read(path: Path) -> ReadResult:
    try:
        return read_result(path)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from None


def summary_of(name: str, result: ReadResult, written: float) -> ProgramRow:
    """A result file as a row."""
    counts = result.summary
    return ProgramRow(
        name,
        " ".join(result.command),
        result.policy,
        result.has_ended,
        counts.get("total", 0),
        counts.get("bank_hit", 0),
        sum(counts.get(f"bank_{one}", 0) for one in ("append", "update", "reserved")),
        counts.get("with_skipjack_kernel", 0),
        counts.get("failed", 0),
        sum(row.saved_us for row in result.rows),
        result.time.gain if result.time else None,
        written,
    )


OPERATION_COLUMNS: tuple[ViewColumn[ResultRow], ...] = (
    ViewColumn("op", "operation", lambda one: one.op.removeprefix("aten::"), filterable=True),
    ViewColumn("description", "sizes", lambda one: one.description, filterable=True),
    ViewColumn(
        "problem",
        "problem",
        lambda one: one.problem,
        filterable=True,
        link=lambda one: problem_path(one.problem) if one.problem else None,
    ),
    ViewColumn("status", "status", lambda one: one.status, filterable=True),
    ViewColumn("kernel", "kernel", lambda one: one.kernel, filterable=True),
    ViewColumn("solver", "solver", lambda one: one.solver, filterable=True),
    ViewColumn("searcher", "searcher", lambda one: one.searcher, filterable=True),
    ViewColumn("calls", "calls", lambda one: one.calls, "count"),
    ViewColumn("before", "before", lambda one: _ns(one.before_us), "ns"),
    ViewColumn("after", "after", lambda one: _ns(one.after_us), "ns"),
    ViewColumn("gain", "gain", lambda one: one.gain, "ratio"),
    ViewColumn("saved", "saved", lambda one: _ns(one.saved_us), "ns"),
    ViewColumn("reason", "reason", lambda one: one.reason, filterable=True, sortable=False),
)


def _ns(microseconds: float | None) -> float | None:
    return None if microseconds is None else 1000.0 * microseconds


@dataclass(frozen=True, slots=True)
class ProgramPage:
    """A run of a program: how its operations were tuned."""

    row: ProgramRow
    directory: str
    pid: int
    counts: Mapping[str, int]
    """The number of operations by status."""
    time: ProgramTime | None
    reasons: Sequence[tuple[str, int]]
    """Why operations are left to PyTorch, the most frequent reason first."""
    operations: RecordTable[ResultRow]


def program_page(
    workspace: Workspace, name: str, request: TableRequest | None = None
) -> ProgramPage:
    """A run of a program by the name of its file; `UnknownNameError` if there is none."""
    for path in workspace.program_results():
        if path.name == name:
            return program_page_of(path, request)
    raise UnknownNameError(f"there is no result file {name!r} in the folders of programs")


def program_page_of(path: Path, request: TableRequest | None = None) -> ProgramPage:
    """A run of a program from its result file."""
    result = _read(path)
    rows = sorted(result.rows, key=lambda one: (-one.value_us, -one.calls, one.op))
    reasons: dict[str, int] = {}
    for row in rows:
        if row.kernel == "torch":
            reasons[row.reason] = reasons.get(row.reason, 0) + 1
    return ProgramPage(
        summary_of(path.name, result, path.stat().st_mtime),
        result.directory,
        result.pid,
        result.summary,
        result.time,
        sorted(reasons.items(), key=lambda one: -one[1]),
        table_of("operations", OPERATION_COLUMNS, rows, request or TableRequest()),
    )
