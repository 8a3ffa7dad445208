"""``skipjack loops show``: a nest and its schedule after some actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from skipjack.cli.loops.game import (
    GameProblemArgument,
    PresetOption,
    RatesOption,
    ThreadsOption,
    game_of,
    rating,
)
from skipjack.cli.options import JsonOption, PluginOption, examples

if TYPE_CHECKING:
    from skipjack.core.device import Device
    from skipjack.core.problem import Problem
    from skipjack.learn.loops import GameState, LoopGame

EXAMPLES = examples(
    "skipjack loops show matmul:128x128x128",
    "skipjack loops show mm64_256_16:112x208x256 --actions split_4,down,swap_down --tree --rates",
    "skipjack loops show matmul:128x128x128 --preset full --actions down,down,vectorize --code",
)


def show(
    problem: GameProblemArgument = None,
    bench: Annotated[
        str | None, typer.Option("--bench", help="Another way to name the problem.")
    ] = None,
    actions: Annotated[
        str, typer.Option(help="Actions to play, joined by commas: split_4,down,swap_down.")
    ] = "",
    preset: PresetOption = "looptune",
    tree: Annotated[bool, typer.Option("--tree", help="The loops after each action.")] = False,
    code: Annotated[
        bool, typer.Option("--code", help="The code that is compiled, as LLVM IR.")
    ] = False,
    rates: Annotated[bool, typer.Option("--rates", help="GFLOP/s after each action.")] = False,
    rates_from: RatesOption = "live",
    threads: ThreadsOption = 1,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Show the loops of a problem after some actions, the cursor, and what they reach.

    Without --tree, the loops are shown as they are in the end.
    """
    from skipjack import plugins
    from skipjack.learn.loops import parse_actions, play
    from skipjack.learn.rates import rated_device
    from skipjack.settings import load_settings

    settings = load_settings(plugins=plugin)
    plugins.load(settings.plugins)
    device = rated_device(rates_from, None, threads)
    chosen, game = game_of(problem or bench, preset, device)
    numbers = parse_actions(actions, game)
    states = [game.start(), *play(game, numbers)]
    names = ["start", *(game.actions[number] for number in numbers)]
    reached = None
    if rates:
        with rating(rates_from, chosen, device) as rate:
            reached = rate([game.built(state) for state in states])
    text = _code(chosen, game, states[-1], device) if code else None
    records = _records(game, names, states, reached)
    if json:
        from skipjack.report import print_json

        for record in records:
            print_json("loops show", record)
        if text is not None:
            print_json("loops show", {"code": text})
        return
    typer.echo(f"{chosen.key}, preset {game.preset}")
    for at, record in enumerate(records):
        typer.echo(_line(at, record))
        if tree or at + 1 == len(records):
            typer.echo(_indented(str(record["tree"])))
    if text is not None:
        typer.echo(text)


def _records(
    game: LoopGame,
    names: list[str],
    states: list[GameState],
    reached: list[float] | None,
) -> list[dict[str, Any]]:
    from skipjack.learn.loops import loop_tree

    records: list[dict[str, Any]] = []
    for at, (name, state) in enumerate(zip(names, states, strict=True)):
        record: dict[str, Any] = {
            "action": name,
            "schedule": state.schedule.text(),
            "built": game.built(state).text(),
            "cursor": state.cursor,
            "tree": loop_tree(game.nest, state.schedule, state.cursor),
        }
        if reached is not None:
            record["gflops"] = round(reached[at], 3)
        records.append(record)
    return records


def _line(at: int, record: dict[str, Any]) -> str:
    from skipjack.report.loops import rate_text

    built = f", built as {record['built']}" if record["built"] != record["schedule"] else ""
    reached = f"  {rate_text(record['gflops'], 'GFLOP/s')}" if "gflops" in record else ""
    schedule = record["schedule"] or "no loops"
    return f"{at:3d} {record['action']:<10} {schedule}{built}{reached}"


def _indented(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.splitlines())


def _code(problem: Problem, game: LoopGame, state: GameState, device: Device) -> str:
    from skipjack.core.config import Config
    from skipjack.learn.loops import loop_solver

    config = Config(schedule=game.built(state).text())
    return loop_solver(problem).lower(problem, device, config).text
