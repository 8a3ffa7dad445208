"""What comes before and after a convolution: turning layouts around, and adding up parts."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.gpu.plan import Pointer, Scratch
from skipjack.operations.conv_geometry import OUT, Role
from skipjack.solvers.gpu.conv_boxes import ceil_div
from skipjack.solvers.gpu.conv_layer import Layer
from skipjack.solvers.gpu.stage import Given, Stage, array, size

_SUMMED = 512


def scratch(layer: Layer, role: Role) -> Scratch:
    """A turned copy of an array."""
    return Scratch(f"turned_{role}", layer.elements(role) * layer.element_bytes)


@dataclass(frozen=True, slots=True)
class _Turn:
    """Matrices to transpose, and in which blocks."""

    source: Pointer | Scratch
    out: Pointer | Scratch
    count: int
    rows: int
    columns: int

    @property
    def sides(self) -> tuple[int, int]:
        """Rows and columns of a block."""
        rows, columns = (64 if side >= 64 else 16 for side in (self.rows, self.columns))
        return rows, columns

    @property
    def blocks(self) -> int:
        """Of all matrices."""
        rows, columns = self.sides
        return self.count * ceil_div(self.rows, rows) * ceil_div(self.columns, columns)

    def given(self, type_: str, prefix: str = "") -> dict[str, Given]:
        """Arguments of the kernel."""
        return {
            f"{prefix}source": array(type_, self.source),
            f"{prefix}out": array(type_, self.out),
            f"{prefix}rows": size(self.rows),
            f"{prefix}columns": size(self.columns),
        }


def turned(layer: Layer, role: Role, other: Role | None = None) -> Stage:
    """From channels before the pixels to channels behind them, into scratch memory.

    A second array is turned by the same launch.
    """
    first = _turn(layer, role)
    rows, columns = first.sides
    blocks = {"ROWS": rows, "COLUMNS": columns}
    given = first.given(layer.type)
    if other is None:
        return Stage(f"turn_{role}", "transposing", "transpose", (first.blocks,), given, blocks)
    second = _turn(layer, other)
    rows, columns = second.sides
    return Stage(
        f"turn_{role}_{other}",
        "transposing",
        "transpose_two",
        (first.blocks + second.blocks,),
        {**given, "blocks": size(first.blocks), **second.given(layer.type, "other_")},
        {**blocks, "OTHER_ROWS": rows, "OTHER_COLUMNS": columns},
    )


def turned_back(layer: Layer) -> Stage:
    """The opposite, of what is computed, from scratch memory."""
    there = _turn(layer, layer.geometry.wanted)
    back = _Turn(there.out, Pointer(OUT), there.count, there.columns, there.rows)
    rows, columns = back.sides
    constants = {"ROWS": rows, "COLUMNS": columns}
    given = back.given(layer.type)
    return Stage("turn_back", "transposing", "transpose", (back.blocks,), given, constants)


def _turn(layer: Layer, role: Role) -> _Turn:
    """Matrices with the pixels as columns."""
    place, to = Pointer(layer.geometry.name(role)), scratch(layer, role)
    if role == "filter":
        return _Turn(place, to, layer.geometry.k, layer.c, layer.geometry.taps)
    images, rows, columns = layer.sizes(role)
    return _Turn(place, to, images, layer.channels(role), rows * columns)


def part_scratch(layer: Layer, parts: int) -> Scratch:
    """Where parts of the filter's gradient are kept."""
    return Scratch("parts", 4 * parts * layer.elements("filter"))


def summed(layer: Layer, parts: int, turn: bool) -> Stage:
    """Adds parts up; with `turn` they are k by taps by channels, and channels shall come first."""
    elements = layer.elements("filter")
    return Stage(
        "sum",
        "part_sums",
        "part_sums",
        (ceil_div(elements, _SUMMED),),
        {
            "parts": array("fp32", part_scratch(layer, parts)),
            "out": array(layer.type, OUT),
            "size": size(elements),
            "count": size(parts),
            "channels": size(layer.c),
        },
        {"TAPS": layer.geometry.taps if turn and not layer.last else 1, "BLOCK": _SUMMED},
    )
