"""Stages of a Winograd convolution that read or write images, and the slots of all stages.

Images whose channels come first are transposed into a buffer before their tiles are transformed,
and out of one afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from skipjack.native import VectorType, parallel_slot, scratch_slot
from skipjack.operations import Geometry, Role
from skipjack.solvers.cpu.conv.winograd.plan import Planes, WinogradPlan, spaced
from skipjack.solvers.cpu.conv.winograd.tiles import (
    TILES,
    TRANSPOSE,
    TileTransform,
    planes_of_tiles,
    tiles_of_planes,
    transposed_in,
    transposed_out,
)
from skipjack.solvers.cpu.conv.winograd.transforms import LineTransform
from skipjack.solvers.cpu.ir import IRStage, Rounds
from skipjack.solvers.solver import Slot

# Stages with the slots that all stages have in common.

_NO_END = 1 << 32


@dataclass(frozen=True, slots=True)
class StageMaker:
    """Makes stages whose slots say which part of a convolution a round is."""

    plan: WinogradPlan

    @property
    def one_group(self) -> dict[str, Slot]:
        """The slots of planes whose rows are not in panels."""
        return {"group": _NO_END, "group_bytes": 0}

    def stage(
        self,
        write: Callable[[], str],
        names: tuple[str, ...],
        values: Mapping[str, Slot],
        columns: int,
        *,
        inside: bool,
    ) -> IRStage:
        """A stage with `columns` channels as columns, inside the rounds or not."""
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
        # Data from before the rounds is shared by all threads.
        before = plan.scratch("columns" if over_tiles else "rows")
        moves = {at: 0 for at, each in enumerate(slots) if each == before}
        if inside:
            moves[names.index("tile_round" if over_tiles else "column_round")] = 1
        return IRStage(write, slots, moves)

    def rounds(self, stages: list[IRStage]) -> Rounds:
        """The stages repeated for all rounds."""
        return Rounds(self.plan.rounds, tuple(stages), self.plan.threads_of_rounds)


# Stages that read or write images.


@dataclass(frozen=True, slots=True)
class ImageLayout:
    """An array of images with channels, and how tiles lie on it."""

    slot: str
    height: int
    width: int
    channels: int
    line: LineTransform
    pads: tuple[int, int] = (0, 0)
    reach: int = 0
    """Pixels that a tile covers beyond the distance between tiles."""

    @property
    def pixels(self) -> int:
        """Pixels of one image."""
        return self.height * self.width


def image_layout(
    geometry: Geometry,
    role: Role,
    line: LineTransform,
    pads: tuple[int, int] = (0, 0),
    reach: int = 0,
) -> ImageLayout:
    """The layout of the image or the result of a convolution."""
    _, y, x = geometry.axes
    if role == "image":
        return ImageLayout(geometry.name(role), y.image, x.image, geometry.c, line, pads, reach)
    return ImageLayout(geometry.name(role), y.result, x.result, geometry.k, line, pads, reach)


@dataclass(frozen=True, slots=True)
class _Memory:
    """Memory with channels side by side: an array, or a buffer of transposed images."""

    slot: str
    image_bytes: int
    pixel_bytes: int


@dataclass(frozen=True, slots=True)
class ImageStages:
    """The stages of one array of images, inside the rounds or before them."""

    maker: StageMaker
    image_layout: ImageLayout
    inside: bool

    @property
    def _plan(self) -> WinogradPlan:
        return self.maker.plan

    @property
    def _vector(self) -> VectorType:
        return self._plan.recipe.vector

    def planes(self, planes: Planes) -> list[IRStage]:
        """Stages that transform tiles to planes."""
        values: dict[str, Slot] = {
            **self._tiles(planes),
            "source": self._memory.slot,
            "target": self._plan.scratch(planes),
        }
        stage = self._stage(partial(planes_of_tiles, self._kind), TILES, values, self._channels)
        return [*([] if self._in_place else [self._transposed(transposed_in)]), stage]

    def pixels(self) -> list[IRStage]:
        """Stages that transform planes of products to tiles."""
        values: dict[str, Slot] = {
            **self._tiles("products"),
            "source": self._plan.scratch("products"),
            "target": self._memory.slot,
        }
        stage = self._stage(partial(tiles_of_planes, self._kind), TILES, values, self._channels)
        return [stage, *([] if self._in_place else [self._transposed(transposed_out)])]

    def _stage(
        self,
        write: Callable[[], str],
        names: tuple[str, ...],
        values: dict[str, Slot],
        channels: int,
    ) -> IRStage:
        return self.maker.stage(write, names, values, channels, inside=self.inside)

    @property
    def _in_place(self) -> bool:
        return self._plan.geometry.channels_last

    @property
    def _channels(self) -> int:
        """The number of channels; transposed images have whole vectors of them."""
        lanes = 1 if self._in_place else self._vector.lanes
        return -(-self.image_layout.channels // lanes) * lanes

    @property
    def _kind(self) -> TileTransform:
        tail = self._channels % self._vector.lanes > 0
        return TileTransform(self.image_layout.line, self._plan.winograd.size, self._vector, tail)

    @property
    def _memory(self) -> _Memory:
        plan, here = self._plan, self.image_layout
        if self._in_place:
            pixel = here.channels * plan.item
            return _Memory(here.slot, here.pixels * pixel, pixel)
        channels = self._channels
        if self.inside and plan.over == "columns":
            channels = min(channels, plan.column_block)
        pixel = spaced(channels * plan.item)
        rows = min(here.height, plan.rows * plan.winograd.size + here.reach)
        image = rows * here.width * pixel
        return _Memory(scratch_slot(f"turned_{here.slot}", plan.images * image), image, pixel)

    def _tiles(self, planes: Planes) -> dict[str, Slot]:
        plan, here, memory = self._plan, self.image_layout, self._memory
        most = max(plan.length, plan.columns) + self._vector.lanes
        values: dict[str, Slot] = {
            "spare": scratch_slot("spare", most * plan.item),
            "height": here.height,
            "width": here.width,
            "pad_y": here.pads[0],
            "pad_x": here.pads[1],
            "image_bytes": memory.image_bytes,
            "row_bytes": memory.pixel_bytes * here.width,
            "pixel_bytes": memory.pixel_bytes,
            "window": int(not self._in_place),
            "plane_bytes": plan.plane_bytes(planes),
        }
        if planes == "columns":
            row = plan.recipe.columns * plan.item
            groups: dict[str, Slot] = {
                "tile_bytes": row,
                "group": plan.recipe.vectors,
                "group_bytes": plan.panel_bytes,
            }
        else:
            channels = plan.length if planes == "rows" else plan.column_block
            groups = {"tile_bytes": plan.row_bytes(channels), **self.maker.one_group}
        return {**values, **groups}

    def _transposed(self, write: Callable[[VectorType], str]) -> IRStage:
        here, memory, item = self.image_layout, self._memory, self._plan.item
        slots = (here.slot, memory.slot) if write is transposed_in else (memory.slot, here.slot)
        values: dict[str, Slot] = {
            "source": slots[0],
            "target": slots[1],
            "step": self._plan.winograd.size,
            "reach": here.reach,
            "pad_y": here.pads[0],
            "height": here.height,
            "width": here.width,
            "image_bytes": here.channels * here.pixels * item,
            "channel_bytes": here.pixels * item,
            "buffer_image_bytes": memory.image_bytes,
            "pixel_bytes": memory.pixel_bytes,
        }
        return self._stage(partial(write, self._vector), TRANSPOSE, values, here.channels)
