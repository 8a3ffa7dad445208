"""``skipjack exec``: programs with tuned kernels."""

from __future__ import annotations

from typing import Annotated

import typer

from skipjack.cli.arguments import examples

# ``skipjack exec``: an unmodified program with tuned kernels under PyTorch's operations.

EXEC_EXAMPLES = examples(
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
            help="Tuning policy: off, db, refresh, incremental, exhaustive or clean. Otherwise "
            "SKIPJACK_FIND_ENFORCE, or db."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="Time limit for each tuned problem, in seconds, start-up included."),
    ] = None,
    background: Annotated[
        bool, typer.Option("--background", help="Tune in the background while the program runs.")
    ] = False,
    regret: Annotated[
        str | None,
        typer.Option(help="Share of the kernel time for trials in the background, such as 5%."),
    ] = None,
    ops: Annotated[
        str | None,
        typer.Option(help="Only these PyTorch operations, such as mm,convolution (all)."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="AutoTune's name for what is tuned: NO_TUNE, RL (vector operations, by the "
            "learned policy), GA (cube operations, by the genetic search) or RL,GA."
        ),
    ] = None,
    result: Annotated[
        bool,
        typer.Option(
            "--result", help="Write tune_result_TIME_pidPID.json even if nothing is tuned."
        ),
    ] = False,
) -> None:
    """Run a program with tuned kernels under PyTorch's operations."""
    from skipjack.cli.program_launch import ProgramRequest, launch

    launch(command, ProgramRequest(policy, seconds, background, regret, ops, mode, result))
