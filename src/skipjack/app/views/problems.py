"""The table of problems: those of the fleet with their tags, or those of the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from skipjack.app.views.fleet_pages import seconds_of
from skipjack.app.views.jobs import row_page
from skipjack.app.views.links import problem_path
from skipjack.app.views.tables import (
    RecordTable,
    RowsByKey,
    TableRequest,
    ViewColumn,
    check_request,
)
from skipjack.app.views.workspace import Workspace
from skipjack.fleet.store import PROBLEM_FILTERS, PROBLEM_SORTS, ProblemSummary
from skipjack.ledger import PROBLEM_ORDERS, LedgerBrowser, LedgerProblem

ProblemSource = Literal["store", "ledger"]


def _column(name: str, title: str, value: Any, unit: Any = "") -> ViewColumn[ProblemSummary]:
    return ViewColumn(
        name, title, value, unit, sortable=name in PROBLEM_SORTS, filterable=name in PROBLEM_FILTERS
    )


def _joined(*texts: str) -> str:
    return ", ".join(dict.fromkeys(filter(None, texts)))


PROBLEM_COLUMNS: tuple[ViewColumn[ProblemSummary], ...] = (
    replace(_column("key", "problem", lambda one: one.key), link=lambda one: problem_path(one.key)),
    _column("operation", "operation", lambda one: one.operation),
    _column("direction", "direction", lambda one: one.direction),
    _column("dtype", "dtype", lambda one: one.dtype),
    _column("tag", "tags", lambda one: _joined(*(tag.tag for tag in one.tags))),
    _column("source", "from", lambda one: _joined(*(tag.source for tag in one.tags))),
    _column("model", "model", lambda one: _joined(*(tag.model for tag in one.tags))),
    _column("calls", "calls", lambda one: one.calls, "count"),
    _column("recurrent", "recurrent", lambda one: one.recurrent),
    _column("retired", "retired", lambda one: one.retired),
    _column("jobs", "jobs", lambda one: one.jobs, "count"),
    _column("evaluated", "evaluated", lambda one: one.evaluated, "count"),
    _column("trials", "trials", lambda one: one.trials, "count"),
    _column("best_ns", "best", lambda one: one.best_ns, "ns"),
    _column("device", "device", lambda one: one.device),
    _column("measured", "measured", lambda one: one.measured, "time"),
    _column("created", "imported", lambda one: one.created, "time"),
)

LEDGER_PROBLEM_COLUMNS: tuple[ViewColumn[LedgerProblem], ...] = (
    ViewColumn(
        "key",
        "problem",
        lambda one: one.key,
        filterable=True,
        link=lambda one: problem_path(one.key),
    ),
    ViewColumn("studies", "searches", lambda one: one.studies, "count"),
    ViewColumn("solvers", "solvers", lambda one: one.solvers, "count"),
    ViewColumn("devices", "devices", lambda one: one.devices, "count"),
    ViewColumn("trials", "trials", lambda one: one.trials, "count", sortable=False),
    ViewColumn("decisions", "decisions", lambda one: one.decisions, "count", sortable=False),
    ViewColumn("newest", "last search", lambda one: seconds_of(one.newest), "time"),
)


def problem_table(workspace: Workspace, request: TableRequest) -> RecordTable[ProblemSummary]:
    """A page of the fleet's problems, the newest first."""
    check_request(request, PROBLEM_COLUMNS)
    browsing = workspace.store.browsing
    if request.whole:
        ids = browsing.problem_ids(row_page(request))
        rows_by_id = RowsByKey(ids, lambda some: workspace.store.browsing.problems_of(some))
        return RecordTable("problems", PROBLEM_COLUMNS, rows_by_id, len(ids), request)
    rows, total = browsing.problems(row_page(request))
    return RecordTable("problems", PROBLEM_COLUMNS, rows, total, request)


def ledger_problem_table(workspace: Workspace, request: TableRequest) -> RecordTable[LedgerProblem]:
    """A page of the ledger's problems, those with the newest search first."""
    check_request(request, LEDGER_PROBLEM_COLUMNS)
    assert {one.name for one in LEDGER_PROBLEM_COLUMNS if one.sortable} == set(PROBLEM_ORDERS)
    browser = LedgerBrowser(workspace.ledger)
    contains, sort = request.filters.get("key", ""), request.sort or "newest"
    down = request.descending if request.sort else True
    if request.whole:
        keys = browser.problem_keys(contains=contains, sort=sort, descending=down)
        # A ledger belongs to a thread; other threads read other parts.
        rows_by_key = RowsByKey(
            keys, lambda some: LedgerBrowser(workspace.ledger).problems_of(some)
        )
        return RecordTable("problems", LEDGER_PROBLEM_COLUMNS, rows_by_key, len(keys), request)
    rows, total = browser.problems(
        contains=contains, sort=sort, descending=down, offset=request.offset, limit=request.size
    )
    return RecordTable("problems", LEDGER_PROBLEM_COLUMNS, rows, total, request)
