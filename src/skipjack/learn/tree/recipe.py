"""The fixed recipe: one sequence of actions for every nest, without a look at any time."""

from __future__ import annotations

from skipjack.learn.loops import LoopGame, Preset
from skipjack.learn.tree.paths import Asking, GamePath, TreeContext, play

_MANY_REGISTERS = 32


def recipe_actions(game: LoopGame) -> tuple[str, ...]:
    """The names of the actions of the recipe.

    For a product, whose nest is m, k, n, they make what LoopTune's policy made of nearly all its
    shapes: tiles of m and n outside, then k, then a tile that stays in registers. How large that
    tile is depends on the registers of the machine and on the factors of the preset alone. In other
    nests, actions that are illegal where they stand are left out.
    """
    many = game.limits.registers >= _MANY_REGISTERS
    if game.preset is Preset.LOOPTUNE:
        # 16 columns are the most there are: one vector of 16 lanes, or two of 8.
        rows, columns = (16 if game.limits.lanes >= 16 else 4), 16
    else:
        rows, columns = (8 if many else 4), 2 * game.limits.lanes
    tile = (f"split_{rows}", "down", "swap_down", "down", f"split_{columns}", "swap_up", "swap_up")
    if game.preset is Preset.LOOPTUNE:
        return tile
    return (*tile, "down", "down", "down", "vectorize", "up", "unroll")


def recipe(context: TreeContext) -> Asking:
    """Measures every state on the way of the recipe."""
    game = context.game
    names = [name for name in recipe_actions(game) if name in game.actions]
    actions = play(game, map(game.number, names)).actions[: context.actions]
    paths = [play(game, actions[:length]) for length in range(len(actions) + 1)]
    yield list[GamePath](paths)
