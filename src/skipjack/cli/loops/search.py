"""``skipjack loops search``: tree searches on the game of loops, compared on equal budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from skipjack.cli.arguments import JsonOption, PluginOption, check_outputs, examples
from skipjack.cli.loops.options import PresetOption, ThreadsOption, chosen_preset

if TYPE_CHECKING:
    from skipjack.core import Device, Problem
    from skipjack.learn.loops import LoopGame, Preset
    from skipjack.learn.rates import Rates
    from skipjack.learn.tree import Method, SearchBudget, SearchRun

EXAMPLES = examples(
    "skipjack loops search matmul:112x208x256 --method beam --width 4 --lookahead 2 --budget 200",
    "skipjack loops search --dataset mm64_256_16 --size 5 --method beam --debug graph.svg",
    "skipjack loops search --dataset mm64_256_16 --size 25 --method all --seeds 5 --report out",
    "skipjack loops search matmul:64x64x64 --method exhaustive --episode-steps 4 --budget 0",
    "skipjack loops search matmul:64x64x64 --method mcts --policy shipped --rates tables",
)
ALL, EXHAUSTIVE, POLICY = "all", "exhaustive", "policy"


def _drawable(path: Path | None) -> Path | None:
    """The graph's file; other formats than SVG and DOT are refused before any work."""
    if path is not None and path.suffix not in (".svg", ".dot"):
        raise typer.BadParameter(f"{path} does not end in .svg or .dot, the formats of graphs")
    return path


DebugOption = Annotated[
    Path | None,
    typer.Option(
        "--debug",
        callback=_drawable,
        help="Draw the searches as a graph (graph.svg), and write it for Graphviz, too.",
    ),
]


class Drawing(TyperCommand):
    """A command whose --debug may be given without a file."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the default file after a --debug that has none."""
        for at, word in enumerate(args, 1):
            if word == "--debug" and (at == len(args) or args[at].startswith("-")):
                args.insert(at, "graph.svg")
                break
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


def search(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="Problems, such as matmul:128x128x128, or NAME:64x64x64 of a dataset."),
    ] = None,
    dataset: Annotated[str | None, typer.Option(help="A dataset to take problems from.")] = None,
    size: Annotated[
        int | None, typer.Option(min=1, help="Use only its first SIZE problems (all).")
    ] = None,
    split: Annotated[str, typer.Option(help="Which part of it: test, train or all.")] = "test",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="Search method: greedy, beam, beam_dfs, random, genetic, annealing, mcts, "
            "exhaustive, recipe, policy, or all (but exhaustive); repeatable (beam)."
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(min=1, help="For beam searches: number of schedules that are kept (4)."),
    ] = None,
    lookahead: Annotated[
        int | None,
        typer.Option(
            min=1, help="For greedy and beam searches: number of actions to look ahead (1)."
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="The policy for the methods mcts and policy: a training run or file (shipped)."
        ),
    ] = None,
    budget: Annotated[
        int,
        typer.Option(
            min=0, help="Maximum number of distinct schedules to measure; 0 for no limit."
        ),
    ] = 200,
    episode_steps: Annotated[
        int | None,
        typer.Option(
            min=1, help="Maximum number of actions from the start (10; 40 with the preset full)."
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Time limit for each search, in seconds.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first run of each search.")] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, help="Number of runs of each search, with consecutive seeds.")
    ] = 1,
    preset: PresetOption = "looptune",
    threads: ThreadsOption = 1,
    rates: Annotated[
        str,
        typer.Option(
            "--rates",
            "--rates-from",
            help="Source of times: live, model, mixed:SHARE, or a file of tables.",
        ),
    ] = "live",
    cold: Annotated[
        bool, typer.Option("--cold", help="With live rates: neither use nor keep earlier times.")
    ] = False,
    csv: Annotated[Path | None, typer.Option(help="Write every step to this CSV file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write steps.csv and plots to this folder.")
    ] = None,
    debug: DebugOption = None,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Search for fast schedules by playing the game, and compare searches on equal budgets.

    Ctrl-C ends with the results so far. Times are kept, so the same command continues from there.
    """
    from skipjack import plugins
    from skipjack.interrupt import deferred_interrupt
    from skipjack.learn.loops import loop_game
    from skipjack.learn.rates import rated_device
    from skipjack.learn.tree import SearchBudget
    from skipjack.settings import load_settings

    settings = load_settings(plugins=tuple(plugin) if plugin else None)
    plugins.load(settings.plugins)
    chosen = chosen_preset(preset)
    methods = chosen_methods(method or ["beam"], width, lookahead, policy, chosen)
    limits = SearchBudget(budget or None, episode_steps or chosen.episode_steps, seconds)
    device = rated_device(rates, None, threads)
    games = {
        problem: loop_game(problem, device, chosen)
        for problem in chosen_problems(problems or [], dataset, size, split)
    }
    check_outputs(csv, debug, folder=report)
    with ExitStack() as stack:
        interrupt = stack.enter_context(deferred_interrupt())
        source = open_source(rates, device, cold, stack)
        every = range(seed, seed + seeds)
        runs = list(
            run_all(games, source, methods, limits, every, lambda: interrupt.requested, json)
        )
        used = source.sources
    _finish(runs, games, csv, report, debug, json)
    if not json:
        counts = ", ".join(f"{count} {kind}" for kind, count in used.items()) or "none"
        typer.echo(f"Times of schedules: {counts}.")
    if interrupt.requested:
        raise KeyboardInterrupt
    for run in runs:
        if run.search == EXHAUSTIVE and run.measured == limits.measurements:
            typer.echo(
                f"skipjack: {run.problem}: the budget of {run.measured} was spent before every "
                f"state was seen; --budget 0 sets no limit",
                err=True,
            )
    if not any(run.best for run in runs):
        raise typer.Exit(1)


def chosen_problems(
    texts: Sequence[str], dataset: str | None, size: int | None, split: str
) -> list[Problem]:
    from skipjack.errors import UsageError
    from skipjack.learn.loops import find_problems

    if size is not None and dataset is None:
        raise UsageError("--size limits a dataset; name one with --dataset")
    found = [problem for text in texts for problem in find_problems(text, split)]
    if dataset is not None:
        found += find_problems(dataset, split)[:size]
    if not found:
        raise UsageError(
            "no problem given; write one, such as matmul:128x128x128, or --dataset NAME"
        )
    return list(dict.fromkeys(found))


def chosen_methods(
    kinds: Sequence[str],
    width: int | None,
    lookahead: int | None,
    policy: str | None,
    preset: Preset,
) -> list[Method]:
    from skipjack.errors import UsageError
    from skipjack.learn.policy import SHIPPED, find_policy
    from skipjack.learn.tree import POLICIES, all_methods, method_of

    names = [name.strip() for each in kinds for name in each.split(",")]
    if policy is None and POLICY in names:
        policy = SHIPPED
    known = find_policy(policy, preset) if policy is not None else None
    found: dict[str, Method] = {}
    for name in names:
        if name == ALL:
            made = all_methods(known)
        else:
            guide = known if name in POLICIES else None
            made = [method_of(name, width=width, lookahead=lookahead, policy=guide)]
        found |= {each.name: each for each in made}
    if known is not None and not {*names} & {*POLICIES, ALL}:
        raise UsageError(f"--policy is only for the methods {' and '.join(POLICIES)}; leave it out")
    return list(found.values())


def open_source(text: str, device: Device, cold: bool, stack: ExitStack) -> Rates:
    from skipjack.errors import UsageError
    from skipjack.learn.rates import LIVE, LiveRates, close_rates, open_rates

    if cold and text != LIVE:
        raise UsageError(f"--cold is only for live rates, not for {text}; leave it out")
    rates: Rates = LiveRates(device, keep=False) if cold else open_rates(text, device)
    stack.callback(close_rates, rates)
    return rates


def run_all(
    games: dict[Problem, LoopGame],
    rates: Rates,
    methods: Sequence[Method],
    budget: SearchBudget,
    seeds: range,
    stop: Callable[[], bool],
    json: bool,
) -> Iterator[SearchRun]:
    from skipjack.learn.tree import MeasuringCosts, run_search
    from skipjack.operations import get
    from skipjack.report import print_json
    from skipjack.report.loops import run_line, run_record

    costs: MeasuringCosts = {}
    for problem, game in games.items():
        flops = float(get(problem.operation).flops(problem))
        for method in methods:
            for seed in seeds:
                run = run_search(
                    problem, game, rates, method, budget,
                    seed=seed, flops=flops, costs=costs, stop=stop,
                )  # fmt: skip
                if json:
                    print_json("loops search", run_record(run) | {"rates": rates.sources})
                else:
                    typer.echo(run_line(run), err=True)
                yield run
                if run.interrupted or stop():
                    return


def _finish(
    runs: Sequence[SearchRun],
    games: dict[Problem, LoopGame],
    csv: Path | None,
    report: Path | None,
    debug: Path | None,
    json: bool,
) -> None:
    from skipjack.report.loops import print_searches, write_search_report, write_steps

    if not json:
        print_searches(runs)
    if csv is not None:
        write_steps(runs, csv)
    if report is not None:
        note = write_search_report(runs, report)
        if note:
            typer.echo(f"skipjack: the report is in {report}, without plots: {note}", err=True)
    draw(runs, games, debug)


def draw(runs: Sequence[SearchRun], games: dict[Problem, LoopGame], path: Path | None) -> None:
    """Write the graph of the searches, if a file is given."""
    from skipjack.report.loops import search_graphs, write_graphs

    if path is not None:
        by_key = {problem.key: game for problem, game in games.items()}
        write_graphs(path, search_graphs(runs, by_key))
