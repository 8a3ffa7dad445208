"""``skipjack loops show``: a nest and its schedule after some actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from skipjack.cli.options import JsonOption, PluginOption, examples

if TYPE_CHECKING:
    from skipjack.core.problem import Problem
    from skipjack.learn.loops import GameState, LoopGame

EXAMPLES = examples(
    "skipjack loops show matmul:128x128x128",
    "skipjack loops show mm64_256_16:112x208x256 --actions split_4,down,swap_down --tree",
    "skipjack loops show matmul:128x128x128 --preset full --actions down,down,vectorize --code",
)
PresetOption = Annotated[
    str,
    typer.Option(
        help="Which actions there are: looptune (seven; loops are marked by themselves) or full."
    ),
]
GameProblemArgument = Annotated[
    str | None,
    typer.Argument(help="A problem, as matmul:128x128x128, or one of a dataset, as NAME:64x64x64."),
]


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
    threads: Annotated[int, typer.Option(min=1, help="Threads that loops can be shared to.")] = 1,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Show the loops of a problem after some actions, the cursor, and what they reach.

    Without --tree, the loops are shown as they are in the end.
    """
    from skipjack import plugins
    from skipjack.learn.loops import parse_actions, play
    from skipjack.settings import load_settings

    settings = load_settings(plugins=plugin)
    plugins.load(settings.plugins)
    chosen, game = game_of(problem or bench, preset, threads)
    numbers = parse_actions(actions, game)
    states = [game.start(), *play(game, numbers)]
    names = ["start", *(game.actions[number] for number in numbers)]
    text = _code(chosen, game, states[-1], threads) if code else None
    records = _records(game, names, states)
    if json:
        from json import dumps

        for record in records:
            typer.echo(dumps(record))
        if text is not None:
            typer.echo(dumps({"code": text}))
        return
    typer.echo(f"{chosen.key}, preset {game.preset}")
    for at, record in enumerate(records):
        typer.echo(_line(at, record))
        if tree or at + 1 == len(records):
            typer.echo(_indented(str(record["tree"])))
    if text is not None:
        typer.echo(text)


def game_of(text: str | None, preset: str, threads: int) -> tuple[Problem, LoopGame]:
    """The problem that a command names, and the game on it on this machine's CPU."""
    from skipjack.errors import UsageError
    from skipjack.learn.loops import Preset, find_problems, loop_game
    from skipjack.native import cpu

    if text is None:
        raise UsageError("no problem given; write one as matmul:128x128x128, or DATASET:64x64x64")
    if preset not in list(Preset):
        raise UsageError(f"there is no preset {preset!r}; choose from {', '.join(Preset)}")
    problems = find_problems(text)
    if len(problems) > 1:
        raise UsageError(
            f"{text} is a dataset of {len(problems)} problems; name one, as {text}:"
            f"{problems[0].key.split(':')[1]}"
        )
    return problems[0], loop_game(problems[0], cpu.detect(threads), Preset(preset))


def _records(
    game: LoopGame,
    names: list[str],
    states: list[GameState],
) -> list[dict[str, Any]]:
    from skipjack.learn.loops import loop_tree

    records: list[dict[str, Any]] = []
    for name, state in zip(names, states, strict=True):
        record: dict[str, Any] = {
            "action": name,
            "schedule": state.schedule.text(),
            "built": game.built(state).text(),
            "cursor": state.cursor,
            "tree": loop_tree(game.nest, state.schedule, state.cursor),
        }
        records.append(record)
    return records


def _line(at: int, record: dict[str, Any]) -> str:
    built = f", built as {record['built']}" if record["built"] != record["schedule"] else ""
    return f"{at:3d} {record['action']:<10} {record['schedule']}{built}"


def _indented(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.splitlines())


def _code(problem: Problem, game: LoopGame, state: GameState, threads: int) -> str:
    from skipjack.core.config import Config
    from skipjack.learn.loops import loop_solver
    from skipjack.native import cpu

    config = Config(schedule=game.built(state).text())
    return loop_solver(problem).lower(problem, cpu.detect(threads), config).text
