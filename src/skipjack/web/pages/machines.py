"""Machines and devices."""

from __future__ import annotations

from urllib.parse import quote

from skipjack.app.views import (
    JOB_COLUMNS,
    MachineRow,
    Workspace,
    device_table,
    machine_page,
    machine_table,
    stopped_architectures,
    table_of,
)
from skipjack.web.content import (
    Fact,
    FactSection,
    NoteSection,
    PageCall,
    PageContent,
    PageLink,
    Section,
    TableSection,
)
from skipjack.web.pages.overview import JOBS_SHOWN, action_section

MACHINES = PageLink("Machines", "/machines")


def machines(workspace: Workspace, call: PageCall) -> PageContent:
    """All machines and devices."""
    sections: list[Section] = [
        TableSection(
            "machines",
            "Machines",
            lambda request: machine_table(workspace, request),
            empty="No machine was seen or registered yet: skipjack machine add registers one.",
            main=True,
        ),
        TableSection(
            "devices",
            "Devices",
            lambda request: device_table(workspace, request),
            empty="No jobs were loaded for any device yet.",
        ),
    ]
    if stopped := stopped_architectures(workspace):
        said = f"Devices of these architectures get no jobs: {', '.join(stopped)}."
        sections.insert(0, NoteSection("stopped", "Aborted architectures", said, warning=True))
    return PageContent("Machines", sections)


def machine(workspace: Workspace, call: PageCall) -> PageContent:
    """One machine."""
    name = call.name("name")
    page = machine_page(workspace, name)
    row, registered = page.row, page.registration
    facts = [
        Fact("devices", ", ".join(row.devices)),
        Fact("at work in", ", ".join(row.slots)),
        Fact("last sign of life", row.seen, "time"),
        Fact("engine", row.engine),
        Fact("cores", row.cores or None, "count"),
        Fact("memory", row.memory_bytes or None, "bytes"),
        Fact("failures in a row", row.failures, "count"),
        Fact("lost workers in a row", row.losses, "count"),
        Fact("temperature (°C)", row.temperature_c),
        Fact("power (W)", row.power_w),
        Fact("clocks held back by", ", ".join(row.throttled)),
        Fact("remarks", row.remarks),
    ]
    if registered is not None:
        facts += [Fact("registered as", registered.place), Fact("GPUs", registered.gpus, "count")]
    sections: list[Section] = [
        FactSection("about", "About", [one for one in facts if one.value not in ("", None)]),
        TableSection(
            "jobs",
            "Jobs that it works on",
            lambda request: table_of("jobs", JOB_COLUMNS, page.jobs, request),
            empty="It works on no job now.",
            shown=JOBS_SHOWN,
        ),
        action_section(workspace, "machine", name),
    ]
    return PageContent(
        name,
        sections,
        (MACHINES,),
        lead=row.why,
        actions=_machine_actions(row) if call.may_act else (),
        badge=row.state,
    )


def _machine_actions(row: MachineRow) -> list[PageLink]:
    path = f"/actions/machine/{quote(row.name, safe='')}"
    links = []
    if row.state in ("aborted", "quarantined") and row.enabled:
        links.append(PageLink("Resume …", f"{path}/resume"))
    elif row.state != "aborted":
        links.append(PageLink("Abort …", f"{path}/abort"))
    if row.registered:
        change = "disable" if row.enabled else "enable"
        links.append(PageLink(f"{change.capitalize()} …", f"{path}/{change}"))
    return links
