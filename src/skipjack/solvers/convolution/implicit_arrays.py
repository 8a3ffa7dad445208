"""Arrays of an implicit matrix product: where they are if channels are last, else turned round.

Turning happens by rounds of some images, in scratch memory, so that it stays in the caches.
"""

from __future__ import annotations

from skipjack.core.nest import Tensor
from skipjack.operations.conv_geometry import OUT, Role
from skipjack.solvers.convolution.direct_arrays import Place, Room
from skipjack.solvers.loops.copying import SOURCE, Copy, Walk

_PIXELS = ("n", "d", "h", "w", "c")


def read_pixels(room: Room, role: Role) -> Place:
    """Images or results of a round with channels last."""
    tensor, strides, move = room.stored(role)
    if room.geometry.channels_last:
        return Place(tensor, room.geometry.name(role), move)
    walks = tuple(
        Walk(name, extent, out, strides[name])
        for name, extent, out in zip(_PIXELS, tensor.shape, tensor.strides, strict=True)
    )
    slot = room.scratch(role, tensor.shape)
    copy = room.copy(Copy(walks), room.geometry.name(role), slot, {SOURCE: move})
    return Place(tensor, slot, 0, (copy,))


def write_filter(room: Room) -> Place:
    """The wanted filter with the image's channels last; all rounds add to it."""
    geometry = room.geometry
    tensor = Tensor(OUT, (geometry.k, geometry.taps, geometry.group_c))
    if geometry.channels_last or geometry.pointwise:
        return Place(tensor, OUT)
    return _turned_filter(room, tensor, "ktc")


def write_filter_runs(room: Room) -> Place:
    """The wanted filter with the result's channels last; all rounds add to it."""
    geometry = room.geometry
    shape = (geometry.groups, geometry.taps, geometry.group_c, geometry.group_k)
    return _turned_filter(room, Tensor(OUT, shape), "gtck")


def _turned_filter(room: Room, tensor: Tensor, letters: str) -> Place:
    """Scratch memory from which the filter is brought into its own order."""
    geometry = room.geometry
    c, tap = (1, geometry.group_c) if geometry.channels_last else (geometry.taps, 1)
    k = geometry.taps * geometry.group_c
    places = {"g": geometry.group_k * k, "k": k, "t": tap, "c": c}
    walks = tuple(
        Walk(letter, extent, places[letter], source)
        for letter, extent, source in zip(letters, tensor.shape, tensor.strides, strict=True)
    )
    slot = room.scratch(OUT, tensor.shape)
    return Place(tensor, slot, 0, (room.copy(Copy(walks), slot, OUT, {}),))
