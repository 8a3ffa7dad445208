"""``skipjack status``: where the jobs stand."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.fleet.options import (
    ArchOption,
    DeviceOption,
    LabelOption,
    UnitsOption,
    device_of,
    state_of,
)
from skipjack.cli.options import JsonOption, examples
from skipjack.cli.parsing import Work, in_two_steps

if TYPE_CHECKING:
    from skipjack.app import StatusRequest

EXAMPLES = examples(
    "skipjack status",
    "skipjack status -l resnet_2026_11",
    "skipjack status -l resnet_2026_11 --by device,state,build_machine,eval_machine,gpu",
    "skipjack status -l resnet_2026_11 --state error --jobs",
)


@in_two_steps
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
) -> Work:
    """Count jobs, or without a label list labels and machines."""
    from skipjack.app import StatusRequest

    request = StatusRequest(
        label,
        tuple(name.strip() for name in by.split(",") if name.strip()),
        state_of(state) if state else None,
        device_of(device, arch, units),
        jobs,
        limit,
    )
    return partial(_status, request, json)


def _status(request: StatusRequest, json: bool) -> None:
    from skipjack import app
    from skipjack.report.fleet.status import render_status

    render_status(app.status(request), json)
