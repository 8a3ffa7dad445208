"""The routes of the API, in one table, from which its OpenAPI file is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skipjack.app import recorded_actions
from skipjack.app.views import (
    BANK_COLUMNS,
    DEVICE_COLUMNS,
    JOB_COLUMNS,
    LABEL_COLUMNS,
    LEDGER_PROBLEM_COLUMNS,
    MACHINE_COLUMNS,
    MISS_COLUMNS,
    OPERATION_COLUMNS,
    PROBLEM_COLUMNS,
    PROGRAM_COLUMNS,
    SWEEP_COLUMNS,
    TRAINING_COLUMNS,
    EntryPage,
    EpisodePage,
    FleetPage,
    JobPage,
    LabelPage,
    LogTail,
    MachinePage,
    ProblemPage,
    ProgramPage,
    RecordTable,
    SearchPage,
    SweepPage,
    TableRequest,
    TrainingPage,
    ViewColumn,
    Workspace,
    WorkspaceSource,
    bank_page,
    entry_page,
    episode_page,
    fleet_page,
    job_log,
    job_number,
    job_page,
    job_table,
    label_page,
    label_table,
    ledger_problem_table,
    machine_page,
    machines_page,
    problem_page,
    problem_table,
    program_page,
    programs_page,
    search_page,
    sweep_page,
    sweep_table,
    table_of,
    training_page,
    training_table,
    trials_mark,
)
from skipjack.web.action_requests import ACTIONS
from skipjack.web.pages import (
    ACTION_COLUMNS,
    CurveData,
    episode_number,
    search_curve,
    training_curve,
)


@dataclass(frozen=True, slots=True)
class ApiParameter:
    """A parameter in the path or in the query."""

    name: str
    text: str
    example: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class ApiCall:
    """The parameters of a request."""

    names: Mapping[str, str]
    query: Mapping[str, str]

    def get(self, name: str) -> str:
        """A parameter in the path or in the query; empty if it is not given."""
        return self.names.get(name) or self.query.get(name, "")


@dataclass(frozen=True, slots=True)
class TableRoute:
    """A table, a page of rows at a time."""

    path: str
    text: str
    columns: Sequence[ViewColumn[Any]]
    read: Callable[[Workspace, ApiCall, TableRequest], RecordTable[Any]]
    parameters: Sequence[ApiParameter] = ()


@dataclass(frozen=True, slots=True)
class RecordRoute:
    """A record, or a list of records."""

    path: str
    text: str
    record: Any
    """The type of what is read."""
    read: Callable[[Workspace, ApiCall], Any]
    parameters: Sequence[ApiParameter] = ()
    mark: Callable[[Workspace, ApiCall], str] | None = None
    """Reads a text that changes with the record, at less cost than the record."""


@dataclass(frozen=True, slots=True)
class ActionRoute:
    """Something that is done to a target."""

    path: str
    text: str
    kind: str
    action: str
    parameters: Sequence[ApiParameter]
    is_reset: bool = False
    asks_state: bool = False


_NAME = ApiParameter("name", "the name", required=True)
_ID = ApiParameter("id", "the number of a job", "17", required=True)
_RUN = ApiParameter("run", "the name of a training run", required=True)
_ITERATION = ApiParameter("iteration", "the number of an iteration", "1", required=True)
_EPISODE = ApiParameter("episode", "the number of an episode in it", "1", required=True)
_PROBLEM = ApiParameter("problem", "the key of a problem", "matmul:64x64x64:f32", required=True)
_SEARCH = ApiParameter("search", "a search of the problem, from its record", required=True)
_BANK = ApiParameter("bank", "one of the banks in use; user if it is not given", "user")


def _bank(call: ApiCall) -> str:
    return call.get("bank") or "user"


def _actions(workspace: Workspace, call: ApiCall, request: TableRequest) -> RecordTable[Any]:
    done = recorded_actions(workspace.store, limit=1_000)
    return table_of("actions", ACTION_COLUMNS, done, request)


TABLES: tuple[TableRoute, ...] = (
    TableRoute("/labels", "Labels", LABEL_COLUMNS, lambda w, _, r: label_table(w, r)),
    TableRoute("/jobs", "Jobs", JOB_COLUMNS, lambda w, _, r: job_table(w, r)),
    TableRoute(
        "/machines", "Machines", MACHINE_COLUMNS, lambda w, _, r: machines_page(w, r).machines
    ),
    TableRoute(
        "/devices",
        "Devices",
        DEVICE_COLUMNS,
        lambda w, _, r: machines_page(w, of_devices=r).devices,
    ),
    TableRoute("/actions", "What people did", ACTION_COLUMNS, _actions),
    TableRoute(
        "/problems", "Problems of the fleet", PROBLEM_COLUMNS, lambda w, _, r: problem_table(w, r)
    ),
    TableRoute(
        "/ledger/problems",
        "Problems of the ledger",
        LEDGER_PROBLEM_COLUMNS,
        lambda w, _, r: ledger_problem_table(w, r),
    ),
    TableRoute("/sweeps", "Sweeps", SWEEP_COLUMNS, lambda w, _, r: sweep_table(w, r)),
    TableRoute(
        "/training", "Training runs", TRAINING_COLUMNS, lambda w, _, r: training_table(w, r)
    ),
    TableRoute(
        "/bank/entries",
        "Entries of a bank",
        BANK_COLUMNS,
        lambda w, call, r: bank_page(w, _bank(call), r).entries,
        (_BANK,),
    ),
    TableRoute(
        "/programs",
        "Runs of programs with tuned kernels",
        PROGRAM_COLUMNS,
        lambda w, _, r: programs_page(w, r).programs,
    ),
    TableRoute(
        "/programs/{name}/operations",
        "Operations of a program",
        OPERATION_COLUMNS,
        lambda w, call, r: program_page(w, call.get("name"), r).operations,
        (_NAME,),
    ),
    TableRoute(
        "/misses",
        "Problems that no bank knew",
        MISS_COLUMNS,
        lambda w, _, r: programs_page(w, of_misses=r).misses,
    ),
)

RECORDS: tuple[RecordRoute, ...] = (
    RecordRoute(
        "/sources",
        "What is shown, and how to get what is missing",
        list[WorkspaceSource],
        lambda w, _: w.sources(),
    ),
    RecordRoute("/fleet", "All jobs of the fleet", FleetPage, lambda w, _: fleet_page(w)),
    RecordRoute(
        "/labels/{name}",
        "A label",
        LabelPage,
        lambda w, call: label_page(w, call.get("name")),
        (_NAME,),
    ),
    RecordRoute(
        "/jobs/{id}",
        "A job with its history",
        JobPage,
        lambda w, call: job_page(w, job_number(call.get("id"))),
        (_ID,),
    ),
    RecordRoute(
        "/jobs/{id}/log",
        "The log of a job, or what was added since a cursor",
        LogTail,
        lambda w, call: job_log(w, job_number(call.get("id")), call.get("cursor")),
        (_ID, ApiParameter("cursor", "that of an earlier answer")),
    ),
    RecordRoute(
        "/machines/{name}",
        "A machine and the jobs that it works on",
        MachinePage,
        lambda w, call: machine_page(w, call.get("name")),
        (_NAME,),
    ),
    RecordRoute(
        "/problem",
        "All that is known about a problem",
        ProblemPage,
        lambda w, call: problem_page(w, call.get("problem")),
        (_PROBLEM,),
    ),
    RecordRoute(
        "/search",
        "A search with its trials",
        SearchPage,
        lambda w, call: search_page(w, call.get("problem"), call.get("search")),
        (_PROBLEM, _SEARCH),
    ),
    RecordRoute(
        "/curves/search",
        "The times of a search's trials, and the best until then",
        CurveData,
        lambda w, call: search_curve(w, call.get("problem"), call.get("search")),
        (_PROBLEM, _SEARCH),
        mark=lambda w, call: trials_mark(w, call.get("search")),
    ),
    RecordRoute(
        "/curves/training",
        "A curve of a training run",
        CurveData,
        lambda w, call: training_curve(w, call.get("run"), call.get("curve")),
        (_RUN, ApiParameter("curve", "its name, such as speed-up", "speed-up", required=True)),
    ),
    RecordRoute(
        "/sweep",
        "A sweep with its points",
        SweepPage,
        lambda w, call: sweep_page(w, call.get("sweep")),
        (ApiParameter("sweep", "the key of a sweep", required=True),),
    ),
    RecordRoute(
        "/training/{name}",
        "A training run with its curves",
        TrainingPage,
        lambda w, call: training_page(w, call.get("name")),
        (_NAME,),
    ),
    RecordRoute(
        "/training/{name}/episodes/{iteration}/{episode}",
        "An episode of a training run, step by step",
        EpisodePage,
        lambda w, call: episode_page(
            w,
            call.get("name"),
            episode_number(call.get("iteration")),
            episode_number(call.get("episode")),
        ),
        (_NAME, _ITERATION, _EPISODE),
    ),
    RecordRoute(
        "/programs/{name}",
        "A run of a program",
        ProgramPage,
        lambda w, call: program_page(w, call.get("name")),
        (_NAME,),
    ),
    RecordRoute(
        "/bank/entry",
        "The entries of a problem in a bank, with their evidence",
        EntryPage,
        lambda w, call: entry_page(w, _bank(call), call.get("problem")),
        (_PROBLEM, _BANK),
    ),
)

_STARTS = {"label": "/labels/{name}", "job": "/jobs/{id}", "machine": "/machines/{name}"}
ACTION_ROUTES: tuple[ActionRoute, ...] = tuple(
    ActionRoute(
        f"{_STARTS[kind]}/{name}",
        action.says,
        kind,
        name,
        (_ID if kind == "job" else _NAME,),
        is_reset=name == "reset",
        asks_state=name == "reset" and kind == "label",
    )
    for kind, actions in ACTIONS.items()
    for name, action in actions.items()
)
