"""The stages of a Winograd convolution.

Forward and backward-data, where filters are flipped and channels change roles:

    filters to planes, tiles of the image to planes, products, planes to tiles of the result

Backward-weights multiplies planes of the image with planes of the result's gradient, and makes
filters of the sums. Images whose channels come first are turned before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from skipjack.native.ir import VectorType
from skipjack.native.slots import parallel_slot, scratch_slot
from skipjack.operations.conv_geometry import Role
from skipjack.solvers.convolution.winograd_filters import (
    FILTERS,
    Filters,
    Order,
    filters_of_planes,
    planes_of_filters,
)
from skipjack.solvers.convolution.winograd_lines import Line
from skipjack.solvers.convolution.winograd_plan import Plan, Planes, spaced
from skipjack.solvers.convolution.winograd_product import PRODUCT, Products, products
from skipjack.solvers.convolution.winograd_slots import named_slots
from skipjack.solvers.convolution.winograd_tiles import (
    TILES,
    Tiles,
    planes_of_tiles,
    tiles_of_planes,
)
from skipjack.solvers.convolution.winograd_turning import TURN, turned_in, turned_out
from skipjack.solvers.loops.stages import Part, Rounds, Stage
from skipjack.solvers.solver import Slot


@dataclass(frozen=True, slots=True)
class Memory:
    """Where the channels of a pixel lie side by side: an array, or a buffer of turned images."""

    slot: str
    image_bytes: int
    pixel_bytes: int


@dataclass(frozen=True, slots=True)
class Picture:
    """Images with channels: an array that is given or wanted, and how tiles lie on it."""

    slot: str
    height: int
    width: int
    channels: int
    line: Line
    pads: tuple[int, int] = (0, 0)
    reach: int = 0
    """Pixels that a tile covers beyond those from tile to tile."""

    @property
    def pixels(self) -> int:
        """Of one image."""
        return self.height * self.width


def winograd_parts(plan: Plan) -> list[Part]:
    """All of them in order."""
    stages = _Stages(plan)
    if plan.summed_over_tiles:
        return stages.gradient()
    return stages.convolution()


class _Stages:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.vector = plan.recipe.vector
        self.lanes = self.vector.lanes
        self.over_tiles = plan.over == "tiles"

    def convolution(self) -> list[Part]:
        image = self._planes(self._source(), "rows", inside=self.over_tiles)
        filters, product = self._filters(), self._product()
        result = self._pixels(self._target())
        if self.over_tiles:
            return [filters, self._rounds([*image, product, *result])]
        return [*image, self._rounds([filters, product, *result])]

    def gradient(self) -> list[Part]:
        winograd = self.plan.winograd
        _, y, x = self.plan.geometry.axes
        image = self._picture("image", winograd.image, (y.pad, x.pad), 2)
        result = self._picture("result", winograd.spread)
        first, second = (
            (result, image) if self.plan.geometry.channels_last else (image, result)
        )
        rows = self._planes(first, "rows", inside=self.over_tiles)
        columns = self._planes(second, "columns", inside=True)
        product, filters = self._product(), self._gradients()
        if self.over_tiles:
            return [self._rounds([*rows, *columns, product]), filters]
        return [*rows, self._rounds([*columns, product, filters])]

    def _rounds(self, stages: list[Stage]) -> Rounds:
        return Rounds(self.plan.rounds, tuple(stages), self.plan.threads_of_rounds)

    # Arrays

    def _picture(
        self, role: Role, line: Line, pads: tuple[int, int] = (0, 0), reach: int = 0
    ) -> Picture:
        g, (_, y, x) = self.plan.geometry, self.plan.geometry.axes
        if role == "image":
            return Picture(g.name(role), y.image, x.image, g.c, line, pads, reach)
        return Picture(g.name(role), y.result, x.result, g.k, line, pads, reach)

    def _source(self) -> Picture:
        _, y, x = self.plan.geometry.axes
        line = self.plan.winograd.image
        if self.plan.geometry.wanted == "image":
            return self._picture("result", line, (2 - y.pad, 2 - x.pad), 2)
        return self._picture("image", line, (y.pad, x.pad), 2)

    def _target(self) -> Picture:
        return self._picture(self.plan.geometry.wanted, self.plan.winograd.result)

    # Stages

    def _stage(
        self,
        write: Callable[[], str],
        names: tuple[str, ...],
        values: Mapping[str, Slot],
        columns: int,
        *,
        inside: bool,
    ) -> Stage:
        """A stage inside of the rounds or not; `columns` are its channels."""
        plan = self.plan
        threads = 1 if inside and plan.share == "rounds" else plan.threads
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
            "column_block": plan.column_block if inside and not self.over_tiles else columns,
            "columns": columns,
        }
        slots = named_slots(names, {**block, **values})
        # What was made before the rounds is there for all threads.
        before = plan.scratch("columns" if self.over_tiles else "rows")
        moves = {at: 0 for at, each in enumerate(slots) if each == before}
        if inside:
            moves[names.index("tile_round" if self.over_tiles else "column_round")] = 1
        return Stage(write, slots, moves)

    def _planes(self, picture: Picture, planes: Planes, *, inside: bool) -> list[Stage]:
        """Tiles of an image to planes."""
        plan, memory = self.plan, self._memory(picture, inside=inside)
        values = {
            **self._tiles(picture, memory),
            "source": memory.slot,
            "target": plan.scratch(planes),
            "plane_bytes": plan.plane_bytes(planes),
            **self._rows(planes),
        }
        kind = self._kind(picture)
        write = partial(planes_of_tiles, kind)
        stage = self._stage(write, TILES, values, self._channels(picture), inside=inside)
        if plan.geometry.channels_last:
            return [stage]
        return [self._turned(turned_in, picture, memory, inside=inside), stage]

    def _pixels(self, picture: Picture) -> list[Stage]:
        """Planes of products to tiles of an image."""
        plan, memory = self.plan, self._memory(picture, inside=True)
        values = {
            **self._tiles(picture, memory),
            "source": plan.scratch("products"),
            "target": memory.slot,
            "plane_bytes": plan.plane_bytes("products"),
            **self._rows("products"),
        }
        write = partial(tiles_of_planes, self._kind(picture))
        stage = self._stage(write, TILES, values, self._channels(picture), inside=True)
        if plan.geometry.channels_last:
            return [stage]
        return [stage, self._turned(turned_out, picture, memory, inside=True)]

    def _kind(self, picture: Picture) -> Tiles:
        return Tiles(
            picture.line,
            self.plan.winograd.size,
            self.vector,
            tail=self._channels(picture) % self.lanes > 0,
        )

    def _channels(self, picture: Picture) -> int:
        """Turned images have whole vectors of them."""
        if self.plan.geometry.channels_last:
            return picture.channels
        return -(-picture.channels // self.lanes) * self.lanes

    def _memory(self, picture: Picture, *, inside: bool) -> Memory:
        """Where the channels of a pixel lie side by side."""
        plan, item = self.plan, self.plan.item
        if plan.geometry.channels_last:
            pixel = picture.channels * item
            return Memory(picture.slot, picture.pixels * pixel, pixel)
        channels = self._channels(picture)
        if inside and not self.over_tiles:
            channels = min(channels, plan.column_block)
        pixel = spaced(channels * item)
        rows = min(picture.height, plan.rows * plan.winograd.size + picture.reach)
        image = (rows * picture.width + self.lanes) * pixel
        slot = scratch_slot(f"turned_{picture.slot}", plan.images * image)
        return Memory(slot, image, pixel)

    def _tiles(self, picture: Picture, memory: Memory) -> dict[str, Slot]:
        most = max(self.plan.length, self.plan.columns) + self.lanes
        return {
            "spare": scratch_slot("spare", most * self.plan.item),
            "height": picture.height,
            "width": picture.width,
            "pad_y": picture.pads[0],
            "pad_x": picture.pads[1],
            "image_bytes": memory.image_bytes,
            "row_bytes": memory.pixel_bytes * picture.width,
            "pixel_bytes": memory.pixel_bytes,
            "window": int(not self.plan.geometry.channels_last),
        }

    def _rows(self, planes: Planes) -> dict[str, Slot]:
        """How the tiles and their channels lie in a plane."""
        plan = self.plan
        if planes == "columns":
            vectors = plan.recipe.vectors
            row = plan.recipe.columns * plan.item
            return {"tile_bytes": row, "group": vectors, "group_bytes": plan.panel_bytes}
        channels = plan.length if planes == "rows" else plan.column_block
        return {"tile_bytes": plan.row_bytes(channels), "group": 1 << 32, "group_bytes": 0}

    def _turned(
        self,
        write: Callable[[VectorType], str],
        picture: Picture,
        memory: Memory,
        *,
        inside: bool,
    ) -> Stage:
        inwards, item = write is turned_in, self.plan.item
        values: dict[str, Slot] = {
            "source": picture.slot if inwards else memory.slot,
            "target": memory.slot if inwards else picture.slot,
            "step": self.plan.winograd.size,
            "reach": picture.reach,
            "pad_y": picture.pads[0],
            "height": picture.height,
            "width": picture.width,
            "image_bytes": picture.channels * picture.pixels * item,
            "channel_bytes": picture.pixels * item,
            "buffer_image_bytes": memory.image_bytes,
            "pixel_bytes": memory.pixel_bytes,
        }
        return self._stage(
            partial(write, self.vector), TURN, values, picture.channels, inside=inside
        )

    def _filter_strides(self) -> tuple[Order, dict[str, Slot]]:
        """How the filters lie in memory, seen from the products."""
        g, item = self.plan.geometry, self.plan.item
        far, near, tap = (9 * g.c, 1, g.c) if g.channels_last else (9 * g.c, 9, 1)
        of_k = self.plan.columns_are_results
        column, row = (far, near) if of_k else (near, far)
        names: dict[tuple[bool, bool], Order] = {
            (True, True): "rows",
            (True, False): "columns",
            (False, True): "row_taps",
            (False, False): "column_taps",
        }
        return names[g.channels_last, of_k], {
            "length": self.plan.length,
            "column_bytes": column * item,
            "row_bytes": row * item,
            "tap_bytes": tap * item,
        }

    def _filters(self) -> Stage:
        """Filters to planes."""
        plan = self.plan
        order, strides = self._filter_strides()
        flipped = plan.geometry.wanted == "image"
        values = {
            **strides,
            "source": plan.geometry.name("filter"),
            "target": plan.scratch("columns"),
            "plane_bytes": plan.plane_bytes("columns"),
            "line_bytes": plan.recipe.columns * plan.item,
            "group": plan.recipe.vectors,
            "group_bytes": plan.panel_bytes,
        }
        kind = Filters(plan.winograd.filter, self.vector, order, flipped)
        write = partial(planes_of_filters, kind)
        return self._stage(write, FILTERS, values, plan.columns, inside=not self.over_tiles)

    def _gradients(self) -> Stage:
        """Planes of sums to filters."""
        plan = self.plan
        order, strides = self._filter_strides()
        values = {
            **strides,
            "source": plan.scratch("products"),
            "target": plan.geometry.name("filter"),
            "plane_bytes": plan.plane_bytes("products"),
            "line_bytes": plan.row_bytes(plan.column_block),
            "group": 1 << 32,
            "group_bytes": 0,
        }
        write = partial(filters_of_planes, Filters(plan.winograd.gather, self.vector, order))
        return self._stage(write, FILTERS, values, plan.columns, inside=not self.over_tiles)

    def _product(self) -> Stage:
        plan = self.plan
        values: dict[str, Slot] = {
            "source": plan.scratch("rows"),
            "other": plan.scratch("columns"),
            "target": plan.scratch("products"),
            "length": plan.length,
            "source_plane": plan.plane_bytes("rows"),
            "source_row": plan.row_bytes(plan.length),
            "other_plane": plan.plane_bytes("columns"),
            "other_panel": plan.panel_bytes,
            "target_plane": plan.plane_bytes("products"),
            "target_row": plan.row_bytes(plan.column_block),
        }
        write = partial(products, Products(plan.recipe, plan.points))
        return self._stage(write, PRODUCT, values, plan.columns, inside=True)
