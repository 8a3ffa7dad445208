"""``skipjack loops evaluate``: a policy beside every search, on equal budgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.loops.game import ThreadsOption, check_outputs
from skipjack.cli.loops.judging import PolicyOption, judged_policy, judged_problems, own_dataset
from skipjack.cli.loops.looptune import UnusedTrainerOption, remark_unneeded
from skipjack.cli.loops.search import DebugOption, draw, open_source, run_all
from skipjack.cli.options import JsonOption, PluginOption, examples

if TYPE_CHECKING:
    from skipjack.core.problem import Problem
    from skipjack.learn.policy import Policy
    from skipjack.learn.tree import SearchBudget

EXAMPLES = examples(
    "skipjack loops evaluate --policy RUN --dataset mm64_256_16 --size 25",
    "skipjack loops evaluate matmul:112x208x256 --policy shipped --budget 10 --seeds 5 -o out",
)


def evaluate(
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            help="Problems, as matmul:128x128x128, or of a dataset, as NAME:64x64x64 (the run's "
            "own, or LoopTune's 25 test shapes)."
        ),
    ] = None,
    policy: PolicyOption = "shipped",
    dataset: Annotated[str | None, typer.Option(help="A dataset to take problems from.")] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="How many of the problems, the first ones (all).")
    ] = None,
    split: Annotated[str, typer.Option(help="Which of its parts: test, train or all.")] = "test",
    budget: Annotated[
        int, typer.Option(min=1, help="Most distinct schedules that each measures.")
    ] = 30,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Most seconds for each search.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each search.")] = 1,
    threads: ThreadsOption = 1,
    rates: Annotated[
        str,
        typer.Option(help="Where times are from: live, model, mixed:SHARE, or a file of tables."),
    ] = "live",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Folder of steps.csv and plots (RUN/evaluation, or evaluation)."
        ),
    ] = None,
    debug: DebugOption = None,
    trainer: UnusedTrainerOption = None,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Let a policy and every search play the same problems with equally many measurements.

    The policy's first schedule is what it makes of the nest without a measurement; the others are
    its next best. The folder gets every step as CSV and plots: gains of each method, each problem,
    gain per action, and the best so far.
    """
    from skipjack import plugins
    from skipjack.interrupt import watch_for_interrupt
    from skipjack.learn.tree import SearchBudget
    from skipjack.settings import load_settings

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    texts = problems or []
    remark_unneeded({"--trainer": trainer})
    judged = judged_policy(policy)
    if output is None:
        output = (Path(policy) if Path(policy).is_dir() else Path()) / "evaluation"
    chosen = judged_problems(texts, dataset or own_dataset(policy, texts), size, split)
    limits = SearchBudget(budget, judged.preset.episode_steps, seconds)
    with watch_for_interrupt() as interrupt:
        asked = EvaluationRequest(
            judged, chosen, rates, limits, threads, range(seeds), output, debug
        )
        judge(asked, lambda: interrupt.requested, json)


@dataclass(frozen=True)
class EvaluationRequest:
    """A policy, the problems that it is judged on, and what every search may use."""

    policy: Policy
    problems: Sequence[Problem]
    rates: str
    limits: SearchBudget
    threads: int
    seeds: range
    output: Path
    debug: Path | None = None
    """Where the graph of the searches is drawn."""


def judge(asked: EvaluationRequest, stop: Callable[[], bool], json: bool) -> None:
    """Run it, write the report and show it; `KeyboardInterrupt` if it was stopped."""
    from skipjack.learn.loops import loop_game
    from skipjack.learn.rates import check_rated, rated_device
    from skipjack.learn.tree import all_methods
    from skipjack.report.loops import print_searches, write_search_report

    device = rated_device(asked.rates, None, asked.threads)
    check_rated(asked.rates, device, asked.problems)
    preset = asked.policy.preset
    games = {problem: loop_game(problem, device, preset) for problem in asked.problems}
    check_outputs(asked.debug, folder=asked.output)
    with ExitStack() as stack:
        source = open_source(asked.rates, device, False, stack)
        methods = all_methods(asked.policy)
        runs = list(run_all(games, source, methods, asked.limits, asked.seeds, stop, json))
        used = source.sources
    if not json:
        print_searches(runs)
    note = write_search_report(runs, asked.output)
    if not json:
        counts = ", ".join(f"{count} {kind}" for kind, count in used.items()) or "none"
        typer.echo(f"Times of schedules: {counts}.")
        typer.echo(f"Saved at: {asked.output}")
    if note:
        typer.echo(f"skipjack: the report is in {asked.output}, without plots: {note}", err=True)
    draw(runs, games, asked.debug)
    if stop():
        raise KeyboardInterrupt
