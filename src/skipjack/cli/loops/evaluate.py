"""``skipjack loops evaluate``: a policy compared with every search on equal budgets."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import JsonOption, PluginOption, check_outputs, examples
from skipjack.cli.loops.options import (
    ThreadsOption,
    UnusedTrainerOption,
    warn_of_unused,
)
from skipjack.cli.loops.search import DebugOption, draw, open_source, run_all

if TYPE_CHECKING:
    from skipjack.core import Problem
    from skipjack.learn.policy import Policy
    from skipjack.learn.tree import SearchBudget


# The policy and the problems of commands that evaluate a policy.

PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        "--wandb-url",
        "--wandb_url",
        help="The folder of a training run, a policy file, shipped, or entity/project/run of "
        "Weights & Biases.",
    ),
]


def policy_to_evaluate(text: str) -> Policy:
    """The policy that a text names; for a run of Weights & Biases, its final policy."""
    from importlib.util import find_spec

    from skipjack.errors import UsageError
    from skipjack.learn.policy import find_policy
    from skipjack.learn.runs import fetch_policy

    if not text.strip():
        raise UsageError(
            "--policy is empty; name the folder of a training run, a policy file, or shipped"
        )
    if Path(text).exists() or text.count("/") < 2 or text.endswith(".npz"):
        return find_policy(text)
    if find_spec("wandb") is None:
        raise UsageError(
            f"there is no policy {text} on this machine; to fetch it from Weights & Biases, "
            "install its package: pip install wandb"
        )
    with tempfile.TemporaryDirectory() as fetched:
        return find_policy(str(fetch_policy(text, Path(fetched))))


def own_dataset(policy: str, problems: Sequence[str]) -> str | None:
    """The dataset of a training run, if its policy is evaluated and no problems are named."""
    path = Path(policy, "dataset.json")
    return str(path) if not problems and path.is_file() else None


def evaluation_problems(
    texts: Sequence[str], dataset: str | None, size: int | None, split: str
) -> list[Problem]:
    """The first of the named problems; by default, of LoopTune's 25 test shapes."""
    from skipjack.cli.loops.search import chosen_problems
    from skipjack.lists import path_of
    from skipjack.operations import parse

    if texts or dataset is not None:
        return chosen_problems(texts, dataset, None, split)[:size]
    lines = path_of("looptune").read_text(encoding="utf-8").splitlines()
    return [parse(line) for line in lines if line and not line.startswith("#")][:size]


# The command.

EXAMPLES = examples(
    "skipjack loops evaluate --policy RUN --dataset mm64_256_16 --size 25",
    "skipjack loops evaluate matmul:112x208x256 --policy shipped --budget 10 --seeds 5 -o out",
)


def evaluate(
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            help="Problems, such as matmul:128x128x128, or NAME:64x64x64 of a dataset (those of "
            "the training run, or the 25 test shapes of LoopTune)."
        ),
    ] = None,
    policy: PolicyOption = "shipped",
    dataset: Annotated[str | None, typer.Option(help="A dataset to take problems from.")] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="Use only the first SIZE problems (all).")
    ] = None,
    split: Annotated[
        str, typer.Option(help="Which part of a dataset: test, train or all.")
    ] = "test",
    budget: Annotated[
        int,
        typer.Option(min=1, help="Maximum number of distinct schedules that each method measures."),
    ] = 30,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Time limit for each search, in seconds.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of runs of each search.")] = 1,
    threads: ThreadsOption = 1,
    rates: Annotated[
        str,
        typer.Option(help="Source of times: live, model, mixed:SHARE, or a file of tables."),
    ] = "live",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder for steps.csv and plots (RUN/evaluation, or evaluation)."
        ),
    ] = None,
    debug: DebugOption = None,
    trainer: UnusedTrainerOption = None,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Run a policy and every search on the same problems with the same number of measurements.

    The policy chooses its first schedule without a measurement; the others are its next best. The
    folder gets every step as CSV, and plots of gains by method, by problem and per action, and of
    the best so far.
    """
    from skipjack import plugins
    from skipjack.interrupt import deferred_interrupt
    from skipjack.learn.tree import SearchBudget
    from skipjack.settings import load_settings

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    texts = problems or []
    warn_of_unused({"--trainer": trainer})
    judged = policy_to_evaluate(policy)
    if output is None:
        output = (Path(policy) if Path(policy).is_dir() else Path()) / "evaluation"
    chosen = evaluation_problems(texts, dataset or own_dataset(policy, texts), size, split)
    limits = SearchBudget(budget, judged.preset.episode_steps, seconds)
    with deferred_interrupt() as interrupt:
        requested = EvaluationRequest(
            judged, chosen, rates, limits, threads, range(seeds), output, debug
        )
        run_evaluation(requested, lambda: interrupt.requested, json)


@dataclass(frozen=True)
class EvaluationRequest:
    """A policy, the problems to evaluate it on, and the budget of every search."""

    policy: Policy
    problems: Sequence[Problem]
    rates: str
    limits: SearchBudget
    threads: int
    seeds: range
    output: Path
    debug: Path | None = None
    """Where the graph of the searches is drawn."""


def run_evaluation(requested: EvaluationRequest, stop: Callable[[], bool], json: bool) -> None:
    """Run an evaluation, write its report and print it; `KeyboardInterrupt` if it was stopped."""
    from skipjack.learn.loops import loop_game
    from skipjack.learn.rates import check_rated, rated_device
    from skipjack.learn.tree import all_methods
    from skipjack.report.loops import print_searches, write_search_report

    device = rated_device(requested.rates, None, requested.threads)
    check_rated(requested.rates, device, requested.problems)
    preset = requested.policy.preset
    games = {problem: loop_game(problem, device, preset) for problem in requested.problems}
    check_outputs(requested.debug, folder=requested.output)
    with ExitStack() as stack:
        source = open_source(requested.rates, device, False, stack)
        methods = all_methods(requested.policy)
        runs = list(run_all(games, source, methods, requested.limits, requested.seeds, stop, json))
        used = source.sources
    if not json:
        print_searches(runs)
    note = write_search_report(runs, requested.output)
    if not json:
        counts = ", ".join(f"{count} {kind}" for kind, count in used.items()) or "none"
        typer.echo(f"Times of schedules: {counts}.")
        typer.echo(f"Saved at: {requested.output}")
    if note:
        typer.echo(
            f"skipjack: the report is in {requested.output}, without plots: {note}", err=True
        )
    draw(runs, games, requested.debug)
    if stop():
        raise KeyboardInterrupt
