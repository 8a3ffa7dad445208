"""What the commands that judge a policy have in common: which policy, and on which problems."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from skipjack.core.problem import Problem
    from skipjack.learn.policy import Policy

PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        "--wandb-url",
        "--wandb_url",
        help="The folder of a training run, a policy's file, shipped, or entity/project/run of "
        "Weights & Biases.",
    ),
]


def judged_policy(text: str) -> Policy:
    """The policy that a text names; of a run of Weights & Biases, what it ended with."""
    from importlib.util import find_spec

    from skipjack.errors import UsageError
    from skipjack.learn.policy import find_policy
    from skipjack.learn.runs import fetch_policy

    if not text.strip():
        raise UsageError(
            "--policy is empty; name the folder of a training run, a policy's file, or shipped"
        )
    if Path(text).exists() or text.count("/") < 2 or text.endswith(".npz"):
        return find_policy(text)
    if find_spec("wandb") is None:
        raise UsageError(
            f"there is no policy {text} here, and to fetch one from Weights & Biases its package "
            "is needed: pip install wandb"
        )
    with tempfile.TemporaryDirectory() as fetched:
        return find_policy(str(fetch_policy(text, Path(fetched))))


def own_dataset(policy: str, problems: Sequence[str]) -> str | None:
    """The dataset of a training run, if its policy is judged and no problems are named."""
    path = Path(policy, "dataset.json")
    return str(path) if not problems and path.is_file() else None


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
