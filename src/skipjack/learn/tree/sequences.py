"""Searches on sequences of actions: random walks, a genetic search, simulated annealing.

A sequence is played from the start, and illegal actions are skipped, so that any two parts of
sequences can be combined.
"""

from __future__ import annotations

import math

from skipjack.learn.tree.paths import (
    STOP,
    GamePath,
    RunningSearch,
    TreeContext,
    TreeSearch,
    play,
    random_walk,
)
from skipjack.solvers.cpu.nest import Schedule

_MUTATIONS = 6
"""The most further changes of a sequence that ends in a known schedule."""
_ENDLESS = 400
"""The measurements of one cooling if there is no limit."""


def random_walks(context: TreeContext) -> RunningSearch:
    """Repeated walks of random actions; every state is measured."""
    yield [context.start()]
    while True:
        walk = random_walk(context, context.actions)
        if not walk:
            return
        yield walk


def genetic(population: int = 16, crossover: float = 0.7, mutation: float = 0.7) -> TreeSearch:
    """Children of fast sequences, chosen by tournaments of three; the slowest are replaced.

    The value of a sequence is the time of its last schedule, the only one that is measured.
    """

    def search(context: TreeContext) -> RunningSearch:
        start = context.start()
        yield [start]
        seen = {context.game.built(start.state)}
        budget = context.measurements
        size = population if budget is None else max(4, min(population, budget // 5))
        born, alive = 0, list[tuple[float, int, GamePath]]()
        children = [_random_sequence(context) for _ in range(size)]
        while True:
            seen |= {context.game.built(path.state) for path in children}
            seconds = yield children
            numbers = range(born, born + len(children))
            born += len(children)
            # Of two sequences that end in one state, keep the newer one.
            ends = {path.state: (value, number, path) for value, number, path in alive}
            ends |= {
                path.state: (value, number, path)
                for value, number, path in zip(seconds, numbers, children, strict=True)
            }
            alive = sorted(ends.values(), key=lambda each: each[:2])[:size]
            children = [
                child(context, [path for _, _, path in alive], seen)
                for _ in range(max(1, size // 2))
            ]

    def child(context: TreeContext, alive: list[GamePath], seen: set[Schedule]) -> GamePath:
        rng = context.rng

        def parent() -> tuple[int, ...]:
            return alive[int(rng.integers(len(alive), size=3).min())].actions

        actions = parent()
        if rng.random() < crossover:
            other = parent()
            cut = int(rng.integers(len(actions) + 1))
            actions = (*actions[:cut], *other[int(rng.integers(len(other) + 1)) :])
        if rng.random() < mutation:
            actions = _changed(context, actions)
        return _fresh(context, actions, seen) or _random_sequence(context)

    return search


def annealing(hot: float = 0.3, cold: float = 0.01) -> TreeSearch:
    """One sequence that changes by a few actions, and accepts slower ones less and less often.

    Temperatures are on the logarithm of a ratio: at 0.1, 10 % slower is accepted one time in e.
    It cools with the number of measured schedules.
    """

    def search(context: TreeContext) -> RunningSearch:
        here = context.start()
        (here_s,) = yield [here]
        measured: set[Schedule] = {context.game.built(here.state)}
        length = context.measurements or _ENDLESS
        while True:
            cooled = min(1.0, len(measured) / length)
            changed = _changed(context, here.actions)
            near = _fresh(context, changed, measured) or play(
                context.game, changed[: context.actions]
            )
            (near_s,) = yield [near]
            measured.add(context.game.built(near.state))
            if _accepts(here_s, near_s, hot * (cold / hot) ** cooled, context.rng.random()):
                here, here_s = near, near_s

    return search


def _accepts(old_s: float, new_s: float, temperature: float, chance: float) -> bool:
    if new_s <= old_s:
        return True
    return chance < math.exp(-math.log(new_s / old_s) / temperature)


def _random_sequence(context: TreeContext) -> GamePath:
    walk = random_walk(context, int(context.rng.integers(1, context.actions + 1)))
    return walk[-1] if walk else context.start()


def _fresh(context: TreeContext, actions: tuple[int, ...], seen: set[Schedule]) -> GamePath | None:
    """The path of these actions, changed until its schedule is new; None after some attempts."""
    for _ in range(_MUTATIONS):
        path = play(context.game, actions[: context.actions])
        if context.game.built(path.state) not in seen:
            return path
        actions = _changed(context, path.actions)
    return None


def _changed(context: TreeContext, actions: tuple[int, ...]) -> tuple[int, ...]:
    """The actions with one inserted, removed or replaced."""
    rng = context.rng
    offered = [at for at, name in enumerate(context.game.actions) if name != STOP]
    other = offered[int(rng.integers(len(offered)))]
    kind = int(rng.integers(3)) if actions else 0
    if kind == 0:
        at = int(rng.integers(len(actions) + 1))
        return (*actions[:at], other, *actions[at:])
    at = int(rng.integers(len(actions)))
    return (*actions[:at], *((other,) if kind == 1 else ()), *actions[at + 1 :])
