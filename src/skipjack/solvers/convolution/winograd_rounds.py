"""Stages of a Winograd convolution in its rounds: what all of them are given alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from skipjack.native.slots import parallel_slot
from skipjack.solvers.convolution.winograd_plan import Plan
from skipjack.solvers.loops.stages import Rounds, Stage
from skipjack.solvers.solver import Slot

_NO_END = 1 << 32
"""More vectors than a row can have."""


@dataclass(frozen=True, slots=True)
class StageMaker:
    """Makes stages that know which part of a convolution a round is."""

    plan: Plan

    @property
    def one_group(self) -> dict[str, Slot]:
        """Of planes whose rows are not in panels."""
        return {"group": _NO_END, "group_bytes": 0}

    def stage(
        self,
        write: Callable[[], str],
        names: tuple[str, ...],
        values: Mapping[str, Slot],
        columns: int,
        *,
        inside: bool,
    ) -> Stage:
        """A stage with so many channels for columns, inside of the rounds or not."""
        plan = self.plan
        threads = 1 if inside and plan.share == "rounds" else plan.threads
        over_tiles = plan.over == "tiles"
        block: dict[str, Slot] = {
            "parallel": parallel_slot(threads),
            "threads": threads,
            "tile_round": 0,
            "images": plan.images,
            "rows": plan.rows,
            "parts": plan.parts,
            "n": plan.geometry.n,
            "tile_rows": plan.grid[0],
            "tile_columns": plan.grid[1],
            "column_round": 0,
            "column_block": plan.column_block if inside and not over_tiles else columns,
            "columns": columns,
        }
        everything = {**block, **values}
        slots = tuple(everything[name] for name in names)
        # What was made before the rounds is there for all threads.
        before = plan.scratch("columns" if over_tiles else "rows")
        moves = {at: 0 for at, each in enumerate(slots) if each == before}
        if inside:
            moves[names.index("tile_round" if over_tiles else "column_round")] = 1
        return Stage(write, slots, moves)

    def rounds(self, stages: list[Stage]) -> Rounds:
        """These stages again and again."""
        return Rounds(self.plan.rounds, tuple(stages), self.plan.threads_of_rounds)
