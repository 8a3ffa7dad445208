"""``skipjack loops play``: a person drives the cursor with the keyboard."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.loops.game import (
    GameProblemArgument,
    PresetOption,
    RatesOption,
    ThreadsOption,
    game_of,
    rating,
)
from skipjack.cli.options import PluginOption, examples

if TYPE_CHECKING:
    from rich.console import RenderableType

    from skipjack.learn.loops import GameState, LoopGame
    from skipjack.solvers.cpu.nest import Schedule

EXAMPLES = examples(
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
"""An escape sequence that is not at its end."""
_SPLIT, _BACK, _QUIT = "s", "b", "q"
_ENDS = (_QUIT, "\x04", "")
_HELP = "arrows or k j: move   shift and arrows or K J: swap   s: split   {}b: back   q: quit"
_MORE_HELP = "m: merge   u v a p t: marks   "
"""Of the preset full."""

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

    Where standard input is not a terminal, it is read as one action per line.
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
    """A game and the way to where it stands."""

    def __init__(self, game: LoopGame, title: str, rate: Rate | None) -> None:
        self.game, self.title, self.rate = game, title, rate
        self.states, self.actions = [game.start()], list[str]()
        self.said = ""

    @property
    def state(self) -> GameState:
        """Where it stands."""
        return self.states[-1]

    def gflops(self, at: int = -1) -> float:
        """The rate of a state; 0 where nothing is measured."""
        return self.rate([self.game.built(self.states[at])])[0] if self.rate else 0.0

    def do(self, name: str) -> None:
        """Play an action, or say why it is not legal."""
        from skipjack.errors import ScheduleError

        try:
            after = self.game.apply(self.state, self.game.number(name))
        except ScheduleError as error:
            self.said = str(error)
            return
        self.states.append(after)
        self.actions.append(name)
        self.said = ""

    def back(self) -> None:
        """Take the last action back."""
        if self.actions:
            self.states.pop()
            self.actions.pop()
            self.said = ""

    def shown(self) -> RenderableType:
        """The loops, what is legal, and what was done."""
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
        if self.said:
            parts.append(Text(self.said, style="red"))
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
            if board.said:
                typer.echo(f"{name}: {board.said}", err=True)
                board.said = ""


def _by_keys(board: _Board) -> None:
    from rich.live import Live

    from skipjack.report.screen import out

    with (
        suppress(KeyboardInterrupt),  # Ctrl-C quits, and what was played is shown
        _keys() as pressed,
        Live(board.shown(), console=out(), auto_refresh=False) as live,
    ):
        for key in pressed:
            if key in _ENDS:
                return
            if key == _SPLIT:
                board.said = "split by which factor? digits, then Enter"
                live.update(board.shown(), refresh=True)
                factor = _factor(pressed)
                board.said = ""
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
    """Keys as they are pressed; the terminal is as before in the end."""
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
    from skipjack.report.loops import rate_text

    return rate_text(gflops, "GFLOP/s")
