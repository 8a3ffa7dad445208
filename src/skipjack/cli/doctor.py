"""``skipjack doctor`` and ``skipjack limits``: what works here, and by which numbers."""

from __future__ import annotations

import typer

from skipjack.cli.options import JsonOption, examples

LIMITS_EXAMPLES = examples("skipjack limits", "skipjack limits --json")
EXAMPLES = examples("skipjack doctor", "skipjack doctor --json")


def doctor(json: JsonOption = False) -> None:
    """Check the CPU, kernels, GPUs, optional packages and the disk."""
    from skipjack import plugins
    from skipjack.report.doctor import examine, print_findings
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    findings = examine(settings)
    if json:
        from json import dumps

        for finding in findings:
            typer.echo(dumps(finding.to_json()))
    else:
        print_findings(findings)
    if any(finding.level == "bad" for finding in findings):
        raise typer.Exit(1)


def limits(json: JsonOption = False) -> None:
    """List the limits of a tuning, and where each of them is from.

    Limits are its budgets, margins and patience.
    """
    from skipjack.settings import CONFIG_FILE, load_settings
    from skipjack.tuning import Limits

    settings = load_settings()
    records = Limits.of(settings).records()
    if json:
        from json import dumps

        typer.echo(dumps({"format": 1, "limits": records}))
        return
    for title, own in (("yours to set", True), ("of the engine", False)):
        typer.echo(f"{title}:")
        for one in records:
            if one["settable"] is own:
                measured = f" ({one['measured_by']})" if one["measured_by"] else ""
                typer.echo(f"  {one['name']:22} {one['value']:<10g} {one['meaning']}{measured}")
    typer.echo(f"set them in a table [limits] of {settings.user_dir / CONFIG_FILE}")
