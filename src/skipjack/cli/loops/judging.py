"""What the commands that judge a policy have in common: which policy, and on which problems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from skipjack.core.problem import Problem

PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        "--wandb-url",
        "--wandb_url",
        help="The folder of a training run, a policy's file, or shipped.",
    ),
]


def judged_problems(
    texts: Sequence[str], dataset: str | None, size: int | None, split: str
) -> list[Problem]:
    """The first of those that were named; of LoopTune's 25 test shapes where none were."""
    from skipjack.cli.loops.search import chosen_problems
    from skipjack.lists import path_of
    from skipjack.operations import parse

    if texts or dataset is not None:
        return chosen_problems(texts, dataset, None, split)[:size]
    lines = path_of("looptune").read_text(encoding="utf-8").splitlines()
    return [parse(line) for line in lines if line and not line.startswith("#")][:size]
