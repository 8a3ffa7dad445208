"""Games as texts: the nest and its schedule, the tree of loops, and lists of actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from skipjack.core.nest import Access, Accumulator, Affine, Call, Constant, Load, Nest, Scalar
from skipjack.errors import ScheduleError, UsageError
from skipjack.learn.loops.game import MARKS, GameState, LoopGame
from skipjack.solvers.cpu.nest import Schedule, ranges

_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_MARK_NAMES = {mark: name for name, mark in MARKS.items()}


def ir_text(game: LoopGame, state: GameState) -> str:
    """Four lines: extents, what is computed, the schedule, the cursor."""
    extents = " ".join(f"{name}={extent}" for name, extent in game.nest.loops)
    return "\n".join(
        [
            f"loops {extents}",
            f"body {body_text(game.nest)}",
            f"schedule {state.schedule}",
            f"cursor {state.cursor}",
        ]
    )


def loop_tree(nest: Nest, schedule: Schedule, cursor: int | None = None) -> str:
    """One line per loop, each a space further in, and what is computed at the end.

    ``for m' in 4 r 2 : L1 vectorize <--``: the second loop on m makes 4 full rounds and one of 2
    elements; it is vectorised, and the cursor is here.
    """
    lines = []
    seen: dict[str, int] = {}
    for at, (loop, covered) in enumerate(zip(schedule.loops, ranges(schedule, nest), strict=True)):
        primes = "'" * seen.get(loop.variable, 0)
        seen[loop.variable] = len(primes) + 1
        rounds, tail = divmod(covered, loop.step)
        left = f" r {tail}" if tail else ""
        mark = f" {_MARK_NAMES[loop.mark]}" if loop.mark else ""
        here = " <--" if at == cursor else ""
        lines.append(f"{' ' * at}for {loop.variable}{primes} in {rounds}{left} : L{at}{mark}{here}")
    lines.append(f"{' ' * len(schedule.loops)}{body_text(nest)}")
    return "\n".join(lines)


def body_text(nest: Nest) -> str:
    """What is computed, as an assignment: ``out[m,n] = sum(a[m,k] * b[k,n])``."""
    names = [_access_text(access) for access in nest.inputs]
    value = _scalar_text(nest.body, names, "")
    if nest.reduction:
        value = f"{nest.reduction}({value})"
    return f"{_access_text(nest.output)} = {_scalar_text(nest.epilogue, names, value)}"


def _access_text(access: Access) -> str:
    return f"{access.tensor.name}[{','.join(map(_affine_text, access.indices))}]"


def _affine_text(at: Affine) -> str:
    parts = [name if factor == 1 else f"{factor}*{name}" for name, factor in at.terms if factor]
    if at.constant or not parts:
        parts.append(str(at.constant))
    return "+".join(parts).replace("+-", "-")


def _scalar_text(value: Scalar, names: Sequence[str], accumulated: str) -> str:
    match value:
        case Load():
            return names[value.operand]
        case Constant():
            return f"{value.value:g}"
        case Accumulator():
            return accumulated
        case Call():
            inner = [_scalar_text(each, names, accumulated) for each in value.arguments]
            if value.function in _SIGNS:
                return f" {_SIGNS[value.function]} ".join(
                    f"({text})" if isinstance(each, Call) and len(each.arguments) > 1 else text
                    for each, text in zip(value.arguments, inner, strict=True)
                )
            return f"{value.function}({', '.join(inner)})"


def parse_actions(text: str, game: LoopGame) -> tuple[int, ...]:
    """Actions by name, joined by commas; `UsageError` names the position of an unknown one."""
    names = [name.strip() for name in text.split(",")] if text.strip() else []
    found = []
    for place, name in enumerate(names, 1):
        if name not in game.actions:
            raise UsageError(
                f"action {place} of {len(names)}, {name!r}, is not one of the preset "
                f"{game.preset}; choose from {', '.join(game.actions)}"
            )
        found.append(game.actions.index(name))
    return tuple(found)


def play(game: LoopGame, actions: Sequence[int]) -> Iterator[GameState]:
    """The states after each of some actions; `UsageError` says where and why one is illegal."""
    state = game.start()
    for place, action in enumerate(actions, 1):
        try:
            state = game.apply(state, action)
        except ScheduleError as error:
            raise UsageError(
                f"action {place} of {len(actions)}, {game.actions[action]}, is not legal: {error}"
            ) from error
        yield state
