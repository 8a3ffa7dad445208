"""``skipjack doctor``: is everything here that tuning needs?"""

from __future__ import annotations

import typer

from skipjack.cli.options import JsonOption, examples

EXAMPLES = examples("skipjack doctor", "skipjack doctor --json")


def doctor(json: JsonOption = False) -> None:
    """Check the CPU, the noise, a few kernels, the GPUs, the optional parts and the disk."""
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
