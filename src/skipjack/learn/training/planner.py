"""Plans: the actions that lead to a schedule, which policies first learn by cloning.

The next action depends only on the state, so a plan continues from any state, also after a detour.
Loops are moved to their positions from the outermost inwards, by splits where they are missing and
merges where they are in the way; then loops are marked from the innermost outwards. A parallel loop
is marked as soon as it is in position.
"""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.learn.loops import MARKS, GameState, LoopGame
from skipjack.solvers.cpu.nest import Loop, Mark, Schedule

_MOST = 400
"""The most actions of a plan; a longer one is cyclic."""
_NAMES = {mark: name for name, mark in MARKS.items()}


@dataclass(frozen=True, slots=True)
class ActionPlan:
    """Actions, and the states before them and after the last."""

    actions: tuple[int, ...]
    states: tuple[GameState, ...]


class Planner:
    """Makes plans in one game. In the preset looptune, targets are schedules without marks."""

    def __init__(self, game: LoopGame) -> None:
        self._game = game
        self._numbers = {name: number for number, name in enumerate(game.actions)}
        self._factors = sorted(
            (int(name.removeprefix("split_")) for name in self._numbers if "split_" in name),
            reverse=True,
        )

    def plan(self, target: Schedule, start: GameState | None = None) -> ActionPlan | None:
        """The plan for a schedule, with ``stop`` at the end if that is an action, or None.

        A schedule cannot be reached if a step is not a product of the game's factors.
        """
        state = start or self._game.start()
        states, actions = [state], list[int]()
        seen = set[GameState]()
        while len(actions) < _MOST and state not in seen:
            seen.add(state)
            action = self.next_action(state, target)
            if action is None:
                reached = state.schedule == target
                return ActionPlan(tuple(actions), tuple(states)) if reached else None
            state = self._game.apply(state, action)
            actions.append(action)
            states.append(state)
        return None

    def next_action(self, state: GameState, target: Schedule) -> int | None:
        """The next action; None if the plan is complete or impossible."""
        if state.stopped:
            return None
        name = self._next_name(state, target)
        number = self._numbers.get(name, -1)
        return number if number >= 0 and self._game.mask(state)[number] else None

    def _next_name(self, state: GameState, target: Schedule) -> str:
        loops, wanted = state.schedule.loops, target.loops
        placed = _placed(loops, wanted)
        for at in range(placed):
            if wanted[at].mark is Mark.PARALLEL and loops[at].mark is not Mark.PARALLEL:
                return self._at(state, at, "parallel")
        complete = placed == len(wanted) == len(loops)
        wrong = self._wrong_mark(loops, wanted, complete)
        if wrong is not None:
            return self._at(state, wrong, _NAMES[loops[wrong].mark])
        if complete:
            return self._marking(state, wanted)
        return self._placing(state, wanted, placed)

    def _wrong_mark(
        self, loops: tuple[Loop, ...], wanted: tuple[Loop, ...], complete: bool
    ) -> int | None:
        """A loop whose mark is in the way: the first of the suffix, or the last parallel one."""
        suffix = next((at for at, loop in enumerate(loops) if loop.mark.in_suffix), None)
        if suffix is not None:
            right = complete and all(
                not loop.mark.in_suffix or loop.mark is want.mark
                for loop, want in zip(loops, wanted, strict=True)
            )
            if not right:
                return suffix
        shared = [at for at, loop in enumerate(loops) if loop.mark is Mark.PARALLEL]
        if shared and (
            _placed(loops, wanted) <= shared[-1] or wanted[shared[-1]].mark is not Mark.PARALLEL
        ):
            return shared[-1]
        return None

    def _marking(self, state: GameState, wanted: tuple[Loop, ...]) -> str:
        loops = state.schedule.loops
        for at in reversed(range(len(loops))):
            if loops[at].mark is not wanted[at].mark:
                return self._at(state, at, _NAMES[wanted[at].mark])
        return "stop"

    def _placing(self, state: GameState, wanted: tuple[Loop, ...], placed: int) -> str:
        """Move the next target loop to the position below those in place."""
        loops = state.schedule.loops
        if placed == len(wanted):
            return self._at(state, placed, "merge")
        want = wanted[placed]
        at = next((x for x in range(placed, len(loops)) if loops[x].variable == want.variable), -1)
        if at < 0:
            return ""
        step = loops[at].step
        if step == want.step:
            return self._at(state, at, "swap_up")
        if step < want.step and want.step % step == 0:
            factor = self._factor(want.step // step, _inner_step(wanted, placed) // step)
            if factor:
                return self._at(state, at, f"split_{factor}")
        return self._at(state, at, "merge")

    def _factor(self, ratio: int, inner: int = 0) -> int:
        """The first factor of a product for a ratio; 0 if there is none.

        If possible, the split makes another target loop further in.
        """
        if {inner, ratio // max(1, inner)} <= set(self._factors) and ratio % inner == 0:
            return inner
        return next(
            (
                factor
                for factor in self._factors
                if ratio == factor or (ratio % factor == 0 and self._factor(ratio // factor))
            ),
            0,
        )

    @staticmethod
    def _at(state: GameState, at: int, name: str) -> str:
        """The action, or the next move of the cursor towards its loop."""
        if state.cursor == at:
            return name
        return "up" if state.cursor > at else "down"


def _inner_step(wanted: tuple[Loop, ...], at: int) -> int:
    """The step of the next target loop on the same variable; 0 without one."""
    same = (loop.step for loop in wanted[at + 1 :] if loop.variable == wanted[at].variable)
    return next(same, 0)


def _placed(loops: tuple[Loop, ...], wanted: tuple[Loop, ...]) -> int:
    """The number of outermost loops that match the target, apart from marks."""
    count = 0
    for loop, want in zip(loops, wanted, strict=False):
        if (loop.variable, loop.step) != (want.variable, want.step):
            break
        count += 1
    return count
