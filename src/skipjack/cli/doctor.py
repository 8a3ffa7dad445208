"""``skipjack doctor`` and ``skipjack limits``: what works here, and by which numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from skipjack.cli.options import JsonOption, examples

LIMITS_EXAMPLES = examples("skipjack limits", "skipjack limits --json")
EXAMPLES = examples("skipjack doctor", "skipjack doctor --json")


def doctor(json: JsonOption = False) -> None:
    """Check the CPU, kernels, GPUs, optional packages and the disk."""
    from dataclasses import asdict

    from skipjack import plugins
    from skipjack.report import print_json
    from skipjack.report.doctor import examine, print_findings
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
    """List the limits of a tuning, and where each of them is from.

    Limits are its budgets, margins and patience.
    """
    from skipjack.report import TableColumn, print_json, print_rows
    from skipjack.settings import CONFIG_FILE, load_settings
    from skipjack.tuning import Limits

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
