"""``skipjack export``: what is known, in files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from skipjack.cli.options import JsonOption, examples

app = typer.Typer(
    help="What is known, in files for other programs.",
    epilog=examples("skipjack export kernel-db -l gpu -o sm_90_132.skk"),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def group() -> None:
    """Files for other programs."""


@app.command(
    "kernel-db",
    epilog=examples(
        "skipjack export kernel-db -l gpu -o sm_90_132.skk",
        "skipjack export kernel-db -o mine.skk",
    ),
)
def kernel_db(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, as x.skk.")],
    label: Annotated[
        str | None,
        typer.Option("--label", "-l", help="The winners of this label's jobs; else of the bank."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write precompiled winners into one file, from which programs run them without compiling."""
    from json import dumps

    from skipjack import plugins
    from skipjack.bank.kernel_db import write_kernel_db
    from skipjack.errors import UsageError
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    if not output.absolute().parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no directory {output.absolute().parent}")
    if label is None:
        from skipjack.tuning.shipping import banked

        count = write_kernel_db(output, banked(settings))
    else:
        from skipjack.fleet.shipping import winners
        from skipjack.fleet.store.opening import open_store

        with open_store(settings=settings) as store:
            count = write_kernel_db(output, winners(store, label))
    size = output.stat().st_size
    if json:
        record = {"format": 1, "file": str(output), "kernels": count, "bytes": size}
        typer.echo(dumps(record))
        return
    typer.echo(f"{count} kernels in {output}, {size / 1e6:.1f} MB")
