"""``skipjack loops play`` and ``loops show``: a nest and its schedule after some actions."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skipjack.cli.arguments import JsonOption, PluginOption, examples
from skipjack.cli.loops.options import (
    GameProblemArgument,
    PresetOption,
    RatesOption,
    ThreadsOption,
    game_of,
    rating,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skipjack.core import Device, Problem
    from skipjack.learn.loops import GameState, LoopGame
    from skipjack.solvers.cpu.nest import Schedule


# ``skipjack loops play``: a loop nest is scheduled with the keyboard.

PLAY_EXAMPLES = examples(
    "skipjack loops play matmul:128x128x128",
    "skipjack loops play matmul:128x128x128 --preset full --no-rates",
)
_KEYS = {
    **{"k": "up", "j": "down", "K": "swap_up", "J": "swap_down"},
    **{"m": "merge", "u": "unroll", "v": "vectorize", "a": "accumulate", "p": "parallel"},
    **{"t": "stream", "\x1b[A": "up", "\x1b[B": "down"},
    **{"\x1b[1;2A": "swap_up", "\x1b[1;2B": "swap_down"},
}
"""Actions by key; arrows are escape sequences."""
_BEGUN = re.compile(r"\x1b(\[[0-9;]*)?")
"""An incomplete escape sequence."""
_SPLIT, _BACK, _QUIT = "s", "b", "q"
_ENDS = (_QUIT, "\x04", "")
_HELP = "arrows or k j: move   shift and arrows or K J: swap   s: split   {}b: back   q: quit"
_MORE_HELP = "m: merge   u v a p t: marks   "
"""For the preset full."""

Rate = Callable[[Sequence["Schedule"]], list[float]]
"""GFLOP/s of schedules."""


def play(
    problem: GameProblemArgument,
    preset: PresetOption = "looptune",
    no_rates: Annotated[bool, typer.Option("--no-rates", help="Do not measure anything.")] = False,
    rates_from: RatesOption = "live",
    threads: ThreadsOption = 1,
    plugin: PluginOption = None,
) -> None:
    """Schedule a loop nest by hand: move the cursor, split, swap and mark loops, and see the rate.

    If standard input is not a terminal, it is read as one action per line.
    """
    from skipjack import plugins
    from skipjack.learn.rates import rated_device
    from skipjack.settings import load_settings

    plugins.load(load_settings(plugins=plugin).plugins)
    device = rated_device(rates_from, None, threads)
    chosen, game = game_of(problem, preset, device)
    title = f"{chosen.key}, preset {game.preset}"
    with ExitStack() as stack:
        rate = None if no_rates else stack.enter_context(rating(rates_from, chosen, device))
        board = _Board(game, title, rate)
        if sys.stdin.isatty() and sys.stdout.isatty():
            _by_keys(board)
        else:
            _by_lines(board)
        typer.echo(f"actions:  {','.join(board.actions)}")
        typer.echo(f"schedule: {game.built(board.state)}")
        if rate:
            first, last = board.gflops(0), board.gflops()
            typer.echo(f"rate:     {_rate_text(last)}, at first {_rate_text(first)}")


class _Board:
    """A game with its past states and actions."""

    def __init__(self, game: LoopGame, title: str, rate: Rate | None) -> None:
        self.game, self.title, self.rate = game, title, rate
        self.states, self.actions = [game.start()], list[str]()
        self.message = ""

    @property
    def state(self) -> GameState:
        """The current state."""
        return self.states[-1]

    def gflops(self, at: int = -1) -> float:
        """The rate of a state; 0 if nothing is measured."""
        return self.rate([self.game.built(self.states[at])])[0] if self.rate else 0.0

    def do(self, name: str) -> None:
        """Play an action, or say why it is not legal."""
        from skipjack.errors import ScheduleError

        try:
            after = self.game.apply(self.state, self.game.number(name))
        except ScheduleError as error:
            self.message = str(error)
            return
        self.states.append(after)
        self.actions.append(name)
        self.message = ""

    def back(self) -> None:
        """Undo the last action."""
        if self.actions:
            self.states.pop()
            self.actions.pop()
            self.message = ""

    def shown(self) -> RenderableType:
        """The loops, the legal actions, and the actions so far."""
        from rich.console import Group
        from rich.panel import Panel
        from rich.text import Text

        from skipjack.learn.loops import loop_tree

        state, game = self.state, self.game
        tree = Text()
        lines = loop_tree(game.nest, state.schedule, state.cursor).splitlines()
        for at, line in enumerate(lines):
            here = at == state.cursor and at < len(state.schedule.loops)
            tree.append(line + "\n", style="bold reverse" if here else "")
        mask = game.mask(state)
        legal = [name for name, is_legal in zip(game.actions, mask, strict=True) if is_legal]
        parts = [
            tree,
            Text(f"built     {game.built(state)}"),
            Text(f"actions   {','.join(self.actions) or 'none yet'}"),
            Text(f"legal     {' '.join(legal) or 'none'}", style="dim"),
        ]
        if self.rate:
            parts.insert(1, Text(f"rate      {_rate_text(self.gflops())}", style="bold green"))
        if self.message:
            parts.append(Text(self.message, style="red"))
        more = _MORE_HELP if "merge" in game.actions else ""
        parts.append(Text(_HELP.format(more), style="dim"))
        return Panel(Group(*parts), title=self.title)


def _by_lines(board: _Board) -> None:
    for line in sys.stdin:
        for name in filter(None, (part.strip() for part in line.split(","))):
            if name in ("quit", _QUIT):
                return
            if name in ("back", _BACK):
                board.back()
            else:
                board.do(name)
            if board.message:
                typer.echo(f"{name}: {board.message}", err=True)
                board.message = ""


def _by_keys(board: _Board) -> None:
    from rich.live import Live

    from skipjack.report import out

    with (
        suppress(KeyboardInterrupt),  # Ctrl-C quits, and the game so far is shown
        _keys() as pressed,
        Live(board.shown(), console=out(), auto_refresh=False) as live,
    ):
        for key in pressed:
            if key in _ENDS:
                return
            if key == _SPLIT:
                board.message = "split by which factor? type digits, then Enter"
                live.update(board.shown(), refresh=True)
                factor = _factor(pressed)
                board.message = ""
                if factor:
                    board.do(f"split_{factor}")
            elif key == _BACK:
                board.back()
            elif key in _KEYS:
                board.do(_KEYS[key])
            live.update(board.shown(), refresh=True)


def _factor(pressed: Iterator[str]) -> str:
    digits = ""
    for key in pressed:
        if not key.isdigit():
            break
        digits += key
    return digits


@contextmanager
def _keys() -> Iterator[Iterator[str]]:
    """Keys as they are pressed; the terminal's mode is restored at the end."""
    import os
    import select
    import termios
    import tty

    stream = sys.stdin.fileno()
    before = termios.tcgetattr(stream)

    def pressed() -> Iterator[str]:
        while True:
            key = os.read(stream, 1).decode(errors="replace")
            while _BEGUN.fullmatch(key) and select.select([stream], [], [], 0.02)[0]:
                key += os.read(stream, 1).decode(errors="replace")
            yield key

    tty.setcbreak(stream)
    try:
        yield pressed()
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)


def _rate_text(gflops: float) -> str:
    from skipjack.report import rate_text

    return rate_text(gflops, "GFLOP/s")


# ``skipjack loops show``: a nest and its schedule after some actions.

SHOW_EXAMPLES = examples(
    "skipjack loops show matmul:128x128x128",
    "skipjack loops show mm64_256_16:112x208x256 --actions split_4,down,swap_down --tree --rates",
    "skipjack loops show matmul:128x128x128 --preset full --actions down,down,vectorize --code",
)


def show(
    problem: GameProblemArgument = None,
    bench: Annotated[
        str | None, typer.Option("--bench", help="Another option to name the problem.")
    ] = None,
    actions: Annotated[
        str, typer.Option(help="Actions to play, separated by commas: split_4,down,swap_down.")
    ] = "",
    preset: PresetOption = "looptune",
    tree: Annotated[bool, typer.Option("--tree", help="Show the loops after each action.")] = False,
    code: Annotated[
        bool, typer.Option("--code", help="Show the LLVM IR that is compiled.")
    ] = False,
    rates: Annotated[bool, typer.Option("--rates", help="Show GFLOP/s after each action.")] = False,
    rates_from: RatesOption = "live",
    threads: ThreadsOption = 1,
    plugin: PluginOption = None,
    json: JsonOption = False,
) -> None:
    """Show the loops of a problem after some actions, the cursor, and the rates they reach.

    Without --tree, only the final loops are shown.
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
    from skipjack.report import rate_text

    built = f", built as {record['built']}" if record["built"] != record["schedule"] else ""
    reached = f"  {rate_text(record['gflops'], 'GFLOP/s')}" if "gflops" in record else ""
    schedule = record["schedule"] or "no loops"
    return f"{at:3d} {record['action']:<10} {schedule}{built}{reached}"


def _indented(text: str) -> str:
    return "\n".join(f"      {line}" for line in text.splitlines())


def _code(problem: Problem, game: LoopGame, state: GameState, device: Device) -> str:
    from skipjack.core import Config
    from skipjack.learn.loops import loop_solver

    config = Config(schedule=game.built(state).text())
    return loop_solver(problem).lower(problem, device, config).text
