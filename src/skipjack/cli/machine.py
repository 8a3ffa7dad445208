"""``skipjack device``, ``doctor`` and ``limits``: this machine, and whether all works on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from skipjack.cli.arguments import JsonOption, examples

# ``skipjack device``: this machine's devices and their peak rates.

DEVICE_EXAMPLES = examples("skipjack device", "skipjack device --json", "skipjack device --measure")


def device(
    json: JsonOption = False,
    measure: Annotated[bool, typer.Option("--measure", help="Measure the peaks again.")] = False,
) -> None:
    """Show this machine's CPU, the peaks of one core, and its GPUs."""
    from skipjack import plugins
    from skipjack.gpu import find_gpus
    from skipjack.report import device_record, print_device, print_json
    from skipjack.settings import load_settings
    from skipjack.tuning.study import measured_peaks

    settings = load_settings()
    plugins.load(settings.plugins)
    here, peaks = measured_peaks(
        settings, again=measure, say=lambda text: typer.echo(text, err=True)
    )
    if json:
        print_json("device", device_record(here, peaks, find_gpus()))
    else:
        print_device(here, peaks, find_gpus())


# ``skipjack doctor`` and ``skipjack limits``: whether all works here, and the limits in force.

LIMITS_EXAMPLES = examples("skipjack limits", "skipjack limits --json")
DOCTOR_EXAMPLES = examples("skipjack doctor", "skipjack doctor --json")


def doctor(json: JsonOption = False) -> None:
    """Check the CPU, kernels, GPUs, optional packages and the disk."""
    from dataclasses import asdict

    from skipjack import plugins
    from skipjack.report import examine, print_findings, print_json
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    findings = examine(settings)
    if json:
        for finding in findings:
            print_json("doctor", asdict(finding))
    else:
        print_findings(findings)
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(1)


def limits(json: JsonOption = False) -> None:
    """List the limits of a tuning run, and where each one comes from.

    Limits are budgets, margins and timeouts.
    """
    from skipjack.report import TableColumn, print_json, print_rows
    from skipjack.settings import CONFIG_FILE, load_settings
    from skipjack.tuning.study import Limits

    settings = load_settings()
    records = Limits.of(settings).records()
    if json:
        print_json("limits", {"limits": records})
        return
    for title, own in (("yours to set", True), ("of the engine", False)):
        typer.echo(f"{title}:")
        print_rows(
            ["limit", TableColumn("value", right=True), TableColumn("meaning", folded=True)],
            [_limit_row(one) for one in records if one["settable"] is own],
        )
    typer.echo(f"set them in a table [limits] of {settings.user_dir / CONFIG_FILE}")


def _limit_row(one: Mapping[str, Any]) -> tuple[str, str, str]:
    measured = f" ({one['measured_by']})" if one["measured_by"] else ""
    return one["name"], f"{one['value']:g}", f"{one['meaning']}{measured}"
