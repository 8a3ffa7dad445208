"""``skipjack device``: what this machine is, and what it can do at most."""

from __future__ import annotations

from typing import Annotated

import typer

from skipjack.cli.options import JsonOption, examples

EXAMPLES = examples("skipjack device", "skipjack device --json", "skipjack device --measure")


def device(
    json: JsonOption = False,
    measure: Annotated[bool, typer.Option("--measure", help="Measure the peaks again.")] = False,
) -> None:
    """Show this machine's CPU, the peaks of one core, and its GPUs."""
    from skipjack import plugins
    from skipjack.gpu.opening import find_gpus
    from skipjack.report import print_json
    from skipjack.report.device import device_record, print_device
    from skipjack.settings import load_settings
    from skipjack.tuning.context import measured_peaks

    settings = load_settings()
    plugins.load(settings.plugins)
    here, peaks = measured_peaks(
        settings, again=measure, say=lambda text: typer.echo(text, err=True)
    )
    if json:
        print_json("device", device_record(here, peaks, find_gpus()))
    else:
        print_device(here, peaks, find_gpus())
