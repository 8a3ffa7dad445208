"""``skipjack exec``: an unchanged program with tuned kernels under PyTorch's operations."""

from __future__ import annotations

from typing import Annotated

import typer

from skipjack.cli.options import examples

EXAMPLES = examples(
    "skipjack exec -- python train.py --epochs 3",
    "skipjack exec --policy incremental --seconds 2 -- python train.py",
    "skipjack exec --policy incremental --background -- torchrun --nproc-per-node 2 train.py",
    "skipjack exec --mode RL,GA -- python train.py",
    "skipjack exec --ops mm,convolution -- python train.py",
)


def exec_program(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The program and its arguments.")
    ],
    policy: Annotated[
        str | None,
        typer.Option(
            help="What it may do about problems: off, db, refresh, incremental, exhaustive or "
            "clean. Otherwise SKIPJACK_FIND_ENFORCE, or db."
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="For each problem that is tuned, start-up included.")
    ] = None,
    background: Annotated[
        bool, typer.Option("--background", help="Tune beside the program, which goes on.")
    ] = False,
    regret: Annotated[
        str | None,
        typer.Option(help="Share of its kernel time for trials in the background, as 5%."),
    ] = None,
    ops: Annotated[
        str | None,
        typer.Option(help="PyTorch's operations to care for, as mm,convolution; otherwise all."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="AutoTune's word for what is tuned: NO_TUNE, RL (vector operations, by the "
            "learned policy), GA (cube operations, by the genetic search) or RL,GA."
        ),
    ] = None,
    result: Annotated[
        bool,
        typer.Option(
            "--result", help="Write tune_result_TIME_pidPID.json, also where nothing is tuned."
        ),
    ] = False,
) -> None:
    """Run a program with tuned kernels under PyTorch's operations."""
    from skipjack.cli.programs.launching import ProgramRequest, launch

    launch(command, ProgramRequest(policy, seconds, background, regret, ops, mode, result))
