"""Options of the loop commands: the game that a command is about, and where times come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from skipjack.core import Device, Problem
    from skipjack.learn.loops import LoopGame, Preset
    from skipjack.solvers.cpu.nest import Schedule


# Options that select a game and the source of its rates.

PresetOption = Annotated[
    str,
    typer.Option(
        help="The set of actions: looptune (seven; loops are marked automatically) or full."
    ),
]
GameProblemArgument = Annotated[
    str | None,
    typer.Argument(help="A problem, such as matmul:128x128x128, or NAME:64x64x64 of a dataset."),
]
RatesOption = Annotated[
    str,
    typer.Option(
        "--rates-from",
        help="Source of rates: live, model, or a file or folder of tables.",
    ),
]
ThreadsOption = Annotated[int, typer.Option(min=1, help="Number of threads that may share a loop.")]


def chosen_preset(text: str) -> Preset:
    """The preset of this name; `UsageError` if there is none."""
    from skipjack.errors import UsageError
    from skipjack.learn.loops import Preset

    if text not in list(Preset):
        raise UsageError(f"there is no preset {text!r}; choose from {', '.join(Preset)}")
    return Preset(text)


def game_of(text: str | None, preset: str, device: Device) -> tuple[Problem, LoopGame]:
    """The problem that a command names, and the game on it."""
    from skipjack.errors import UsageError
    from skipjack.learn.loops import find_problems, loop_game

    if text is None:
        raise UsageError(
            "no problem given; write one, such as matmul:128x128x128 or DATASET:64x64x64"
        )
    chosen = chosen_preset(preset)
    problems = find_problems(text)
    if len(problems) > 1:
        raise UsageError(
            f"{text} is a dataset of {len(problems)} problems; name one of them, such as {text}:"
            f"{problems[0].key.split(':')[1]}"
        )
    return problems[0], loop_game(problems[0], device, chosen)


@contextmanager
def rating(
    text: str, problem: Problem, device: Device
) -> Iterator[Callable[[Sequence[Schedule]], list[float]]]:
    """GFLOP/s of schedules of a problem, from the rates that a text names; 0 for unknown ones."""
    from skipjack.learn.rates import close_rates, gflops, open_rates

    rates = open_rates(text, device)
    try:
        yield lambda schedules: [
            gflops(problem, seconds) for seconds in rates.seconds(problem, schedules)
        ]
    finally:
        close_rates(rates)


# Options of LoopTune's programs that are accepted, though they are not needed.

AppOption = Annotated[str | None, typer.Option("--app", hidden=True)]
GpusOption = Annotated[str | None, typer.Option("-ng", hidden=True)]
UnusedTrainerOption = Annotated[str | None, typer.Option("--trainer", hidden=True)]
_REASONS = {
    "--app": "`skipjack loops train` is the only program that trains",
    "-ng": "no GPU is used for training",
    "--trainer": "the policy's file names its trainer",
}


def warn_of_unused(given: dict[str, str | None]) -> None:
    """Print a sentence to standard error for each of these options that is given."""
    for option, value in given.items():
        if value is not None:
            typer.echo(f"skipjack: {option} is not needed: {_REASONS[option]}", err=True)
