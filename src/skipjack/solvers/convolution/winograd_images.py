"""Stages of a Winograd convolution that read or write images.

Images whose channels come first are turned into a buffer before their tiles are transformed, and
out of one afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from skipjack.native.ir import VectorType
from skipjack.native.slots import scratch_slot
from skipjack.operations.conv_geometry import Geometry, Role
from skipjack.solvers.convolution.winograd_lines import Line
from skipjack.solvers.convolution.winograd_plan import Plan, Planes, spaced
from skipjack.solvers.convolution.winograd_rounds import StageMaker
from skipjack.solvers.convolution.winograd_tiles import (
    TILES,
    Tiles,
    planes_of_tiles,
    tiles_of_planes,
)
from skipjack.solvers.convolution.winograd_turning import TURN, turned_in, turned_out
from skipjack.solvers.loops.stages import Stage
from skipjack.solvers.solver import Slot


@dataclass(frozen=True, slots=True)
class Picture:
    """Images with channels: an array that is given or wanted, and how tiles lie on it."""

    slot: str
    height: int
    width: int
    channels: int
    line: Line
    """The transform of its tiles."""
    pads: tuple[int, int] = (0, 0)
    reach: int = 0
    """Pixels that a tile covers beyond those from tile to tile."""

    @property
    def pixels(self) -> int:
        """Of one image."""
        return self.height * self.width


def picture(
    geometry: Geometry, role: Role, line: Line, pads: tuple[int, int] = (0, 0), reach: int = 0
) -> Picture:
    """The image or the result of a convolution."""
    _, y, x = geometry.axes
    if role == "image":
        return Picture(geometry.name(role), y.image, x.image, geometry.c, line, pads, reach)
    return Picture(geometry.name(role), y.result, x.result, geometry.k, line, pads, reach)


@dataclass(frozen=True, slots=True)
class _Memory:
    """Where the channels of a pixel lie side by side: an array, or a buffer of turned images."""

    slot: str
    image_bytes: int
    pixel_bytes: int


@dataclass(frozen=True, slots=True)
class ImageStages:
    """Stages of one picture, inside of the rounds or not."""

    maker: StageMaker
    picture: Picture
    inside: bool

    @property
    def _plan(self) -> Plan:
        return self.maker.plan

    @property
    def _vector(self) -> VectorType:
        return self._plan.recipe.vector

    def planes(self, planes: Planes) -> list[Stage]:
        """Tiles to planes."""
        values: dict[str, Slot] = {
            **self._tiles(planes),
            "source": self._memory.slot,
            "target": self._plan.scratch(planes),
        }
        stage = self._stage(partial(planes_of_tiles, self._kind), TILES, values, self._channels)
        return [*([] if self._in_place else [self._turned(turned_in)]), stage]

    def pixels(self) -> list[Stage]:
        """Planes of products to tiles."""
        values: dict[str, Slot] = {
            **self._tiles("products"),
            "source": self._plan.scratch("products"),
            "target": self._memory.slot,
        }
        stage = self._stage(partial(tiles_of_planes, self._kind), TILES, values, self._channels)
        return [stage, *([] if self._in_place else [self._turned(turned_out)])]

    def _stage(
        self,
        write: Callable[[], str],
        names: tuple[str, ...],
        values: dict[str, Slot],
        channels: int,
    ) -> Stage:
        return self.maker.stage(write, names, values, channels, inside=self.inside)

    @property
    def _in_place(self) -> bool:
        return self._plan.geometry.channels_last

    @property
    def _channels(self) -> int:
        """Turned images have whole vectors of them."""
        lanes = 1 if self._in_place else self._vector.lanes
        return -(-self.picture.channels // lanes) * lanes

    @property
    def _kind(self) -> Tiles:
        tail = self._channels % self._vector.lanes > 0
        return Tiles(self.picture.line, self._plan.winograd.size, self._vector, tail)

    @property
    def _memory(self) -> _Memory:
        plan, here = self._plan, self.picture
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
        plan, here, memory = self._plan, self.picture, self._memory
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

    def _turned(self, write: Callable[[VectorType], str]) -> Stage:
        here, memory, item = self.picture, self._memory, self._plan.item
        slots = (here.slot, memory.slot) if write is turned_in else (memory.slot, here.slot)
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
        return self._stage(partial(write, self._vector), TURN, values, here.channels)
