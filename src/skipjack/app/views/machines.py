"""Machines and devices of the fleet: what they do now, and which get no jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from skipjack.app.views.links import jobs_path, machine_path
from skipjack.app.views.tables import RecordTable, TableRequest, ViewColumn, table_of
from skipjack.app.views.workspace import UnknownNameError, Workspace
from skipjack.errors import UsageError
from skipjack.fleet.model import JobState, Machine, Registration
from skipjack.fleet.store import DeviceUse, JobSummary, MachineUse, Store, name_suggestions
from skipjack.settings import machine_name

MachineState = str
"""``working``, ``idle``, ``silent`` (not seen for a while), ``paused``, ``quarantined``,
``disabled``, ``aborted`` or ``never seen``."""
_SILENT_AFTER_S = 120.0


@dataclass(frozen=True, slots=True)
class MachineRow:
    """A machine in tables. Times are seconds since 1970."""

    name: str
    state: MachineState
    why: str
    """Why it gets no jobs; empty if it does."""
    devices: Sequence[str]
    engine: str
    cores: int
    memory_bytes: int
    building: int
    """Jobs that it builds."""
    evaluating: int
    slots: Sequence[str]
    """GPUs or cores that evaluate."""
    seen: float | None
    seen_ago_s: float | None
    failures: int
    """Failures in a row."""
    losses: int
    registered: bool
    enabled: bool
    remarks: str
    temperature_c: float | None = None
    """The highest of its devices; only for this machine, and if it reports it."""
    power_w: float | None = None
    throttled: Sequence[str] = ()
    """Why its clocks are throttled."""


MACHINE_COLUMNS: tuple[ViewColumn[MachineRow], ...] = (
    ViewColumn(
        "name",
        "machine",
        lambda one: one.name,
        filterable=True,
        link=lambda one: machine_path(one.name),
    ),
    ViewColumn("state", "state", lambda one: one.state, filterable=True),
    ViewColumn("why", "why", lambda one: one.why, sortable=False),
    ViewColumn("devices", "devices", lambda one: ", ".join(one.devices), filterable=True),
    ViewColumn("building", "building", lambda one: one.building, "count"),
    ViewColumn("evaluating", "evaluating", lambda one: one.evaluating, "count"),
    ViewColumn("cores", "cores", lambda one: one.cores, "count"),
    ViewColumn("memory_bytes", "memory", lambda one: one.memory_bytes, "bytes"),
    ViewColumn("seen", "last sign of life", lambda one: one.seen, "time"),
    ViewColumn("temperature_c", "temperature (°C)", lambda one: one.temperature_c),
    ViewColumn("engine", "engine", lambda one: one.engine, filterable=True),
)

DEVICE_COLUMNS: tuple[ViewColumn[DeviceUse], ...] = (
    ViewColumn(
        "name",
        "device",
        lambda one: one.name,
        filterable=True,
        link=lambda one: jobs_path(device=one.name),
    ),
    ViewColumn("classes", "classes", lambda one: len(one.classes), "count"),
    ViewColumn("waiting", "waiting", lambda one: _of(one, JobState.NEW, JobState.BUILT), "count"),
    ViewColumn(
        "working",
        "in work",
        lambda one: _of(one, JobState.BUILDING, JobState.EVALUATING),
        "count",
    ),
    ViewColumn("evaluated", "evaluated", lambda one: _of(one, JobState.EVALUATED), "count"),
    ViewColumn(
        "errors",
        "errors",
        lambda one: _of(one, JobState.ERROR),
        "count",
        link=lambda one: jobs_path(device=one.name, state="error"),
    ),
    ViewColumn("stopped", "aborted", lambda one: one.stopped),
)


def _of(use: DeviceUse, *states: JobState) -> int:
    return sum(use.jobs.get(str(state), 0) for state in states)


@dataclass(frozen=True, slots=True)
class MachinesPage:
    """The machines and devices of the fleet."""

    machines: RecordTable[MachineRow]
    devices: RecordTable[DeviceUse]
    stopped_architectures: Sequence[str]


def machines_page(
    workspace: Workspace,
    request: TableRequest | None = None,
    of_devices: TableRequest | None = None,
) -> MachinesPage:
    """All machines that were seen or are registered, and all devices."""
    return MachinesPage(
        machine_table(workspace, request or TableRequest()),
        device_table(workspace, of_devices or TableRequest()),
        stopped_architectures(workspace),
    )


def machine_table(workspace: Workspace, request: TableRequest) -> RecordTable[MachineRow]:
    """All machines that were seen or are registered."""
    rows = _machine_rows(workspace, workspace.store)
    return table_of("machines", MACHINE_COLUMNS, rows, request)


def device_table(workspace: Workspace, request: TableRequest) -> RecordTable[DeviceUse]:
    """All devices that jobs are for or that were seen."""
    return table_of("devices", DEVICE_COLUMNS, workspace.store.browsing.devices(), request)


def stopped_architectures(workspace: Workspace) -> Sequence[str]:
    """Architectures all of whose devices are aborted, including future ones."""
    return workspace.store.machines.stopped_architectures()


@dataclass(frozen=True, slots=True)
class MachinePage:
    """A machine and the jobs that it works on."""

    row: MachineRow
    registration: Registration | None
    jobs: Sequence[JobSummary]


def machine_page(workspace: Workspace, name: str) -> MachinePage:
    """A machine; `UnknownNameError` with similar names if there is none."""
    store = workspace.store
    rows = _machine_rows(workspace, store)
    for row in rows:
        if row.name == name:
            registered = {one.name: one for one in store.registrations.all()}
            return MachinePage(row, registered.get(name), store.browsing.running(name))
    hint = name_suggestions(name, [one.name for one in rows]) if rows else "there is none yet"
    raise UnknownNameError(f"unknown machine {name!r}: {hint}")


def _machine_rows(workspace: Workspace, store: Store) -> list[MachineRow]:
    registered = {one.name: one for one in store.registrations.all()}
    use = {one.name: one for one in store.browsing.machines()}
    rows = [
        _machine_row(one, use.get(one.name), registered.get(one.name))
        for one in store.machines.all()
    ]
    known = {one.name for one in rows}
    rows += [_unseen_row(one) for name, one in registered.items() if name not in known]
    here = _name_of_this_machine()
    rows = [_with_sensors(one, workspace) if one.name == here else one for one in rows]
    return sorted(rows, key=lambda one: one.name)


def _name_of_this_machine() -> str:
    try:
        return machine_name()
    except UsageError:
        return ""


def _with_sensors(row: MachineRow, workspace: Workspace) -> MachineRow:
    found = workspace.sensors.latest()
    return replace(
        row,
        temperature_c=found.temperature_c,
        power_w=found.power_w,
        throttled=found.throttled,
    )


def _machine_row(
    machine: Machine, use: MachineUse | None, registered: Registration | None
) -> MachineRow:
    building, evaluating = (use.building, use.evaluating) if use else (0, 0)
    ago = max(0.0, use.now - use.seen) if use else None
    state, why = _state(machine, registered, bool(building or evaluating), ago)
    return MachineRow(
        name=machine.name,
        state=state,
        why=why,
        devices=machine.devices,
        engine=machine.engine,
        cores=machine.cores,
        memory_bytes=machine.memory_bytes,
        building=building,
        evaluating=evaluating,
        slots=use.slots if use else (),
        seen=use.seen if use else None,
        seen_ago_s=ago,
        failures=machine.failures,
        losses=machine.losses,
        registered=registered is not None,
        enabled=registered is None or registered.enabled,
        remarks=registered.remarks if registered else "",
    )


def _state(
    machine: Machine, registered: Registration | None, works: bool, ago: float | None
) -> tuple[MachineState, str]:
    if machine.aborted:
        return "aborted", "it was aborted, and gets no jobs until it is resumed"
    if registered is not None and not registered.enabled:
        return "disabled", registered.disabled_why
    if machine.quarantined:
        return "quarantined", machine.quarantined
    if machine.pause:
        return "paused", machine.pause
    if works:
        return "working", ""
    if ago is not None and ago > _SILENT_AFTER_S:
        return "silent", ""
    return "idle", ""


def _unseen_row(one: Registration) -> MachineRow:
    state = "aborted" if one.aborted else "never seen" if one.enabled else "disabled"
    return MachineRow(
        name=one.name,
        state=state,
        why=one.disabled_why,
        devices=(one.device,) if one.device else (),
        engine="",
        cores=0,
        memory_bytes=0,
        building=0,
        evaluating=0,
        slots=(),
        seen=None,
        seen_ago_s=None,
        failures=0,
        losses=0,
        registered=True,
        enabled=one.enabled,
        remarks=one.remarks,
    )
