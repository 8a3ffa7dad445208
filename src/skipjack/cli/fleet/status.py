"""``skipjack status``: where the jobs stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.fleet.options import (
    ArchOption,
    DeviceOption,
    LabelOption,
    UnitsOption,
    device_of,
    state_of,
    the_store,
)
from skipjack.cli.options import JsonOption, examples

if TYPE_CHECKING:
    from skipjack.fleet.store.store import Store
    from skipjack.report.fleet.status import Idle

EXAMPLES = examples(
    "skipjack status",
    "skipjack status -l resnet_2026_11",
    "skipjack status -l resnet_2026_11 --by device,state,build_machine,eval_machine,gpu",
    "skipjack status -l resnet_2026_11 --state error --jobs",
)


def status(
    label: LabelOption = None,
    by: Annotated[
        str,
        typer.Option(
            help="What to count by, with commas between: label, device, arch, units, state, stage, "
            "solver, kind, operation, direction, build_machine, eval_machine, gpu."
        ),
    ] = "state",
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    device: DeviceOption = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="List the jobs, with reasons.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Jobs to list at most.")] = 50,
    json: JsonOption = False,
) -> None:
    """Count jobs, or without a label list labels and machines."""
    named = device_of(device, arch, units)
    only = state_of(state) if state else None
    with the_store(to_read=True) as store:
        from skipjack.report.fleet import status as report

        known = store.label(label) if label is not None else None
        if label is None and by == "state" and not (only or named or jobs):
            report.overview(store.labels(), _idle(store), store.url_for_people, json)
        elif jobs:
            found = store.jobs(label=label, state=only, device=named, limit=limit)
            report.job_list(found, json)
        else:
            columns = [name.strip() for name in by.split(",") if name.strip()]
            counts = store.counts(label=label, by=columns, state=only, device=named)
            report.counts(known, columns, counts, _idle(store), json)


def _idle(store: Store) -> Idle:
    from skipjack.fleet.records import Machine
    from skipjack.report.fleet.status import Idle

    registered, workers = store.registrations(), store.machines()
    seen = {one.name for one in workers}
    unseen = [
        Machine(0, one.name, aborted=one.aborted, set_aside=one.disabled_why)
        for one in registered
        if one.name not in seen
    ]
    return Idle(
        [*workers, *unseen],
        {one.name for one in registered if not one.enabled},
        store.stopped_devices(),
        store.stopped_architectures(),
    )
