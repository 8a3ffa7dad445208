"""Stages that are repeated for some images at a time, so that what lies between stays small."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.loops.packed_slots import ACCUMULATE
from skipjack.solvers.loops.stages import Part, Rounds, Stage
from skipjack.solvers.solver import Slot


def images_at_a_time(geometry: Geometry, image_bytes: int, room_bytes: int) -> int:
    """As many as fit into some room, one at least, so that rounds are all alike."""
    fitting = max(1, room_bytes // image_bytes)
    return max(n for n in range(1, geometry.n + 1) if geometry.n % n == 0 and n <= fitting)


def rounds_of_images(
    geometry: Geometry, stages: Sequence[Stage], images: int, item_bytes: int, threads: int = 1
) -> list[Part]:
    """Copies and products for so many images, until all are done; gradients are added up."""
    if images == geometry.n:
        return list(stages)
    roles: tuple[Role, ...] = ("image", "result")
    moves: dict[Slot, int] = {
        geometry.name(role): images * prod(geometry.shape(role)[1:]) * item_bytes for role in roles
    }
    adds = geometry.wanted == "filter"
    moving = tuple(_moving(stage, moves, adds) for stage in stages)
    return [Rounds(geometry.n // images, moving, threads)]


def _moving(stage: Stage, moves: dict[Slot, int], adds: bool) -> Stage:
    """A stage whose arrays go on from round to round."""
    found = {at: moves[slot] for at, slot in enumerate(stage.slots) if slot in moves}
    if adds and len(stage.slots) > ACCUMULATE:
        # The first product finds 0 there and the others do not.
        found[ACCUMULATE] = 1
    return replace(stage, moves=found)
