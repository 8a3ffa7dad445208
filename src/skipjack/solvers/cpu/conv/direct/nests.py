"""The loop nests of a convolution, over arrays whose channels lie side by side.

Images and results are ``n d h w c``, padded so that no tap falls outside; filters have the channels
of the output last, in panels (`Panels`). The vectorised loop is ``v``: channels of the output, or
groups if each has a single channel. The names of the loops:

===========  =======================================================================
``n``        images
``g``        groups
``d p q``    pixels of the output; for the gradient of the filter, of the result
``e y x``    taps of the filter
``r``        channels that are summed over; for the gradient of the filter, of the result
``o v``      panels of the output's channels, and the channels in a panel
===========  =======================================================================

If the convolution has a stride, the gradient of an image takes several nests (`image_nests`), one
for each position of a pixel between the strides: each has its own taps, and none multiplies by
zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import gcd, prod

from skipjack.core import Access, Affine, Call, Load, Nest, Tensor, index
from skipjack.operations import Axis, Geometry

PIXELS, TAPS = ("d", "p", "q"), ("e", "y", "x")
_BODY = Call("mul", (Load(0), Load(1)))


@dataclass(frozen=True, slots=True)
class Panels:
    """The channels of the output in panels: how many, and how wide."""

    count: int
    width: int


@dataclass(frozen=True, slots=True)
class TapPhase:
    """Pixels of an image's axis that use the same taps: ``first + stride * i``."""

    first: int
    stride: int
    count: int
    taps: int
    tap_first: int
    tap_step: int
    start: int
    """The pixel of the result that the first of them reads with its first tap."""
    step: int
    """Distance in pixels of the result between one tap and the next."""

    @property
    def lowest(self) -> int:
        """The smallest position in the result that is read; may be negative."""
        return self.start - (self.taps - 1) * self.step

    @property
    def highest(self) -> int:
        """The largest position that is read; may be beyond the result."""
        return self.start + self.count - 1


def tap_phases(axis: Axis) -> list[TapPhase]:
    """The phases of an image's axis, including those without any tap (`taps` is 0)."""
    period = axis.stride // gcd(axis.stride, axis.dilation)
    found = []
    for first in range(min(axis.stride, axis.image)):
        count = -(-(axis.image - first) // axis.stride)
        shifted = first + axis.pad
        taps = [t for t in range(axis.filter) if (shifted - t * axis.dilation) % axis.stride == 0]
        tap = taps[0] if taps else 0
        start = (shifted - tap * axis.dilation) // axis.stride
        step = period * axis.dilation // axis.stride
        found.append(TapPhase(first, axis.stride, count, len(taps), tap, period, start, step))
    return found


def result_margins(axis: Axis) -> tuple[int, int]:
    """Zeros before and after a result's axis, so that every phase stays inside."""
    used = [phase for phase in tap_phases(axis) if phase.taps]
    before = max([0, *(-phase.lowest for phase in used)])
    after = max([0, *(phase.highest + 1 - axis.result for phase in used)])
    return before, after


def by_group(geometry: Geometry) -> bool:
    """Whether vectors hold groups: each group has a single channel on both sides."""
    return geometry.groups > 1 and geometry.group_c == geometry.group_k == 1


def result_nest(
    geometry: Geometry, panels: Panels, image: Tensor, filters: Tensor, out: Tensor
) -> Nest:
    """``out[n,p,q,v] += image[n,p*u+y*l,q*v+x*j,r] * filters[g,o,y,x,r,v]``.

    If taps are merged (`merges_taps`), ``r`` runs over the taps of a row and their channels.
    """
    pixels = [
        Affine(((at, axis.stride), (tap, axis.dilation)))
        for at, tap, axis in zip(PIXELS, TAPS, geometry.axes, strict=True)
    ]
    taps = [index(tap) for tap in TAPS]
    sizes = dict(
        zip((*PIXELS, *TAPS), (*geometry.result_sizes, *geometry.filter_sizes), strict=True)
    )
    places = [index(at) for at in PIXELS]
    reduced = geometry.group_c
    if merges_taps(geometry):
        reduced *= sizes.pop("x")
        pixels[2] = Affine((("q", geometry.axes[2].stride * geometry.c),))
        image = _flattened(image, 3)
        taps.pop()
        filters = Tensor(filters.name, (*filters.shape[:4], reduced, filters.shape[-1]))
    return _forward(geometry, panels, sizes, (image, filters, out), (pixels, taps, places), reduced)


def _flattened(tensor: Tensor, start: int) -> Tensor:
    """The tensor with the axes from `start` on joined to one."""
    return Tensor(tensor.name, (*tensor.shape[:start], prod(tensor.shape[start:])))


def image_nests(
    geometry: Geometry, panels: Panels, result: Tensor, filters: Tensor, out: Tensor
) -> Iterator[Nest]:
    """A nest for each combination of phases that has taps."""
    margins = [result_margins(axis)[0] for axis in geometry.axes]
    for combination in product(*(tap_phases(axis) for axis in geometry.axes)):
        if not all(phase.taps for phase in combination):
            continue
        pixels, taps, places = [], [], []
        for at, tap, phase, margin in zip(PIXELS, TAPS, combination, margins, strict=True):
            pixels.append(Affine(((at, 1), (tap, -phase.step)), phase.start + margin))
            taps.append(Affine(((tap, phase.tap_step),), phase.tap_first))
            places.append(Affine(((at, phase.stride),), phase.first))
        counts = (*(phase.count for phase in combination), *(phase.taps for phase in combination))
        sizes = dict(zip((*PIXELS, *TAPS), counts, strict=True))
        yield _forward(
            geometry,
            panels,
            sizes,
            (result, filters, out),
            (pixels, taps, places),
            geometry.group_k,
        )


def _forward(
    geometry: Geometry,
    panels: Panels,
    sizes: dict[str, int],
    tensors: tuple[Tensor, Tensor, Tensor],
    places: tuple[list[Affine], list[Affine], list[Affine]],
    reduced: int,
) -> Nest:
    source, filters, out = tensors
    pixels, taps, written = places
    spatial = tuple(sizes.items())
    if by_group(geometry):
        loops = (("n", out.shape[0]), *spatial, ("o", panels.count), ("v", panels.width))
        channel = Affine((("o", panels.width), ("v", 1)))
        inside = (index("o"), *taps, index("v"))
        read = channel
    else:
        count = panels.count * panels.width
        loops = (
            *(("n", out.shape[0]), ("g", geometry.groups), *spatial),
            *(("r", reduced), ("o", panels.count), ("v", panels.width)),
        )
        channel = Affine((("g", count), ("o", panels.width), ("v", 1)))
        inside = (index("g"), index("o"), *taps, index("r"), index("v"))
        read = Affine((("g", reduced), ("r", 1)))
    if merges_taps(geometry) and "x" not in sizes:
        *pixels, last = pixels
        read = Affine((*last.terms, ("r", 1)), last.constant)
    return Nest(
        loops=loops,
        inputs=(Access(source, (index("n"), *pixels, read)), Access(filters, inside)),
        output=Access(out, (index("n"), *written, channel)),
        body=_BODY,
        reduction="sum",
    )


def filter_nest(
    geometry: Geometry, panels: Panels, image: Tensor, result: Tensor, out: Tensor
) -> Nest:
    """``out[g r,y,x,o v] += image[n,p*u+y*l,q*v+x*j,o v] * result[n,p,q,r]``.

    If taps are merged (`merges_taps`), ``r`` runs over the taps of a row and their channels, and
    vectors hold channels of the result: ``out[y,r,o v]``.
    """
    pixels = [
        Affine(((at, axis.stride), (tap, axis.dilation)))
        for at, tap, axis in zip(PIXELS, TAPS, geometry.axes, strict=True)
    ]
    spatial = (*geometry.result_sizes, *geometry.filter_sizes)
    loops = dict(zip((*PIXELS, *TAPS), spatial, strict=True))
    width = Affine((("o", panels.width), ("v", 1)))
    places, taps = [index(at) for at in PIXELS], [index(tap) for tap in TAPS]
    if merges_taps(geometry):
        run = loops.pop("x") * geometry.c
        step = Affine((("q", geometry.axes[2].stride * geometry.c), ("r", 1)))
        seen = Access(_flattened(image, 3), (index("n"), *pixels[:2], step))
        given = Access(result, (index("n"), *places, width))
        flat = Tensor(out.name, (*out.shape[:2], run, out.shape[-1]))
        written = Access(flat, (*taps[:2], index("r"), width))
        inner = {"r": run}
    elif by_group(geometry):
        seen = Access(image, (index("n"), *pixels, width))
        given = Access(result, (index("n"), *places, width))
        written, inner = Access(out, (*taps, width)), {}
    else:
        read = Affine((("g", geometry.group_k), ("r", 1)))
        channel = Affine((("g", geometry.group_c), ("o", panels.width), ("v", 1)))
        seen = Access(image, (index("n"), *pixels, channel))
        given = Access(result, (index("n"), *places, read))
        written = Access(out, (read, *taps, width))
        inner = {"g": geometry.groups, "r": out.shape[0] // geometry.groups}
    vectors = {"o": panels.count, "v": panels.width}
    named = {"n": image.shape[0], **loops, **inner, **vectors}
    return Nest(tuple(named.items()), (seen, given), written, _BODY, "sum")


def merges_taps(geometry: Geometry) -> bool:
    """Whether the taps of a row and few channels are treated as one run of channels."""
    last = geometry.axes[2]
    few = geometry.groups == 1 and geometry.c < 16
    return few and last.filter > 1 and last.dilation == 1
