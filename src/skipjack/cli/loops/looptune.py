"""Options of LoopTune's programs that are taken, and what to say of them: they are not needed."""

from __future__ import annotations

from typing import Annotated

import typer

AppOption = Annotated[str | None, typer.Option("--app", hidden=True)]
GpusOption = Annotated[str | None, typer.Option("-ng", hidden=True)]
UnusedTrainerOption = Annotated[str | None, typer.Option("--trainer", hidden=True)]
_REASONS = {
    "--app": "`skipjack loops train` is the one program that trains",
    "-ng": "no GPU is used for training",
    "--trainer": "the policy's file says what it is",
}


def remark_unneeded(given: dict[str, str | None]) -> None:
    """A sentence on standard error for each of these options that has a value."""
    for option, value in given.items():
        if value is not None:
            typer.echo(f"skipjack: {option} is not needed: {_REASONS[option]}", err=True)
