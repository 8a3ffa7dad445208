"""``skipjack replay``: searchers compared on recorded search spaces."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import (
    JsonOption,
    PluginOption,
    Work,
    check_outputs,
    examples,
    in_two_steps,
)

if TYPE_CHECKING:
    from skipjack.app import ReplayRequest

REPLAY_EXAMPLES = examples(
    "skipjack replay convolution_A4000_T4.json.gz --searchers genetic,random",
    "skipjack replay convolution_A4000_T4.json.gz dedispersion_A4000_T4.json.gz "
    "--searchers genetic:population=30,optuna:tpe --budget 100 --jobs 4 -o replay.csv",
    "skipjack replay convolution_A4000_T4.json.gz --searchers genetic "
    "--prior convolution_W6600_T4.json.gz",
    "skipjack replay ledger.sqlite --problem matmul:512x512x512:f32 --solver packed --json",
)
_SEARCHERS = "genetic,hill_climbing,simulated_annealing,random"

ProblemChoice = Annotated[
    str | None, typer.Option("--problem", help="Of a ledger: the key of the problem.")
]
SolverChoice = Annotated[
    str | None, typer.Option("--solver", help="Of a ledger: the solver, if there are several.")
]
DeviceChoice = Annotated[
    str | None,
    typer.Option(
        "--device", help="Of a ledger: the class key of the device, if there are several."
    ),
]


@in_two_steps
def replay(
    recordings: Annotated[
        list[Path],
        typer.Argument(
            help="Fully measured spaces: T4 files (.json or .json.gz), cache files of Kernel "
            "Tuner, ledgers or user directories."
        ),
    ],
    searchers: Annotated[
        list[str],
        typer.Option(help="Searchers, with commas between them; repeatable."),
    ] = [_SEARCHERS],  # noqa: B006  (never changed; typer reads it)
    budget: Annotated[int, typer.Option(help="Unique evaluations of each run.")] = 200,
    seeds: Annotated[int, typer.Option(help="Runs of each searcher.")] = 20,
    prior: Annotated[
        list[Path] | None,
        typer.Option(
            help="A recording of the same program on another device, which searchers know before "
            "they start; repeatable."
        ),
    ] = None,
    problem: ProblemChoice = None,
    solver: SolverChoice = None,
    device: DeviceChoice = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write every evaluation of every run to a CSV file."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Runs to make in parallel.")] = 1,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> Work:
    """Compare searchers on recorded spaces, without hardware.

    A config is evaluated by looking it up, so that hundreds of searches take seconds and give the
    same result each time. Searchers get the same number of unique evaluations; a config that
    failed counts as one.
    """
    from skipjack.app import LedgerChoice, ReplayRequest, split_searchers

    request = ReplayRequest(
        tuple(recordings),
        split_searchers(searchers),
        budget,
        seeds,
        tuple(prior or ()),
        LedgerChoice(problem, solver, device),
        jobs,
    )
    return partial(_replay, request, output, tuple(plugin or ()), json)


def _replay(
    request: ReplayRequest, output: Path | None, plugins: tuple[str, ...], json: bool
) -> None:
    from skipjack import app
    from skipjack.interrupt import deferred_interrupt
    from skipjack.report import render_replay, replay_progress, write_replay_csv

    check_outputs(output)
    waiting = "ending with the runs that are done"
    with deferred_interrupt(waiting) as interrupt, replay_progress(enabled=not json) as observe:
        result = app.replay(request, observe, plugins=plugins, interrupt=interrupt)
    if output:
        write_replay_csv(result, output)
    render_replay(result, json)
    if result.interrupted:
        raise KeyboardInterrupt
