"""Keys of MIOpen's databases: what they say, and those of our problems.

A find key says the sizes of both images; a perf key has the same numbers in another order, without
the second image's size::

    find  128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F
    perf  2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF

Forward, the first image is the input; for the other directions it is the result. Transposed
convolutions have the keys of the plain ones that compute the same.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from skipjack.core.problem import Problem, shown
from skipjack.errors import UsageError
from skipjack.interop.find_db_key import KEY, TYPES
from skipjack.operations.conv_geometry import Axis, result_size
from skipjack.operations.convolution import CONVOLUTIONS, Convolution

_OPERATIONS: dict[str, Convolution] = {each.name: each for each in CONVOLUTIONS}
_LETTERS = {"result": "F", "image": "B", "filter": "W"}
"""What is wanted, and the direction's letter."""
_NAMES = {name: word for word, name in TYPES.items()}
_PERF = re.compile(
    r"[23](?:x(?:0|-?[1-9]\d{0,17})){20}x(?P<layout>[A-Za-z][\w-]*?)"
    r"x(?P<type>[A-Z][A-Z0-9]*)x(?P<direction>[FBW])",
    re.ASCII,
)
_USUAL = ("NCHW", "NCDHW")
_HUGE = re.compile(r"\d{19}")
"""More digits than a size can have."""
_LONG = 60
"""Characters; shorter keys have no room for such a number."""


class FindKey(NamedTuple):
    """A find key's parts, axes from depth to width, `first` and `second` with their channels."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    filter: tuple[int, ...]
    n: int
    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    bias: int
    layouts: tuple[str, ...]
    type: str
    direction: str
    """``F``, ``B`` or ``W``."""
    groups: int = 1
    casts: str = ""

    @property
    def spatial(self) -> int:
        """2 or 3."""
        return len(self.filter)

    @property
    def text(self) -> str:
        """The key."""
        dashed = ["-".join(map(str, sizes)) for sizes in (self.first, self.second)]
        crossed = [
            "x".join(map(str, each)) for each in (self.filter, self.pad, self.stride, self.dilation)
        ]
        filter_text, *steps = crossed
        layout = "-".join(self.layouts)
        tail = f"_g{self.groups}" if self.groups != 1 else ""
        parts = (dashed[0], filter_text, dashed[1], str(self.n), *steps, str(self.bias), layout)
        return "-".join((*parts, self.type, self.direction)) + tail + self.casts

    @property
    def perf_text(self) -> str:
        """The key of the same problem in a perf-db."""
        sizes = zip(self.first[1:], self.filter, self.pad, self.stride, self.dilation, strict=True)
        *deep, (h, y, p, u, l), (w, x, q, v, j) = sizes  # noqa: E741
        d, z, o, t, i = deep[0] if deep else (1, 1, 0, 0, 0)
        return (
            f"{len(self.filter)}x{self.first[0]}x{h}x{w}x{d}x{y}x{x}x{z}x{self.second[0]}x{self.n}"
            f"x{p}x{q}x{o}x{u}x{v}x{t}x{l}x{j}x{i}x{self.bias}x{self.groups}"
            f"x{self.layouts[0]}x{self.type}x{self.direction}"
        )

    @property
    def image(self) -> tuple[int, ...]:
        """What is convolved, with its channels, whichever direction it is."""
        return self.first if self.direction == "F" else self.second

    @property
    def result(self) -> tuple[int, ...]:
        """Of going forward, with its channels."""
        return self.second if self.direction == "F" else self.first

    @property
    def geometry(self) -> tuple[tuple[int, ...], ...]:
        """Image, filter, result, pad, stride and dilation: few different ones in a file."""
        sizes = self.image[1:], self.filter, self.result[1:]
        return (*sizes, self.pad, self.stride, self.dilation)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """With the sizes that the key says."""
        image, taps, result, *steps = self.geometry
        return tuple(Axis(*axis) for axis in zip(image, taps, result, *steps, strict=True))

    @property
    def excess(self) -> int:
        """By how much the result is larger than its formula says, where it differs most.

        One more is what a padding on one side alone gives, which a key does not say.
        """
        return _excess(*self.geometry)


@lru_cache(maxsize=4096)
def _excess(
    image: tuple[int, ...], taps: tuple[int, ...], result: tuple[int, ...], *steps: tuple[int, ...]
) -> int:
    sizes = zip(image, taps, *steps, strict=True)
    differences = [
        said - max(1, result_size(*axis)) for said, axis in zip(result, sizes, strict=True)
    ]
    return max(differences, key=abs)


def parse_find_key(text: str) -> FindKey | None:
    """The parts of a find key; None if it is not built like one."""
    match = KEY.fullmatch(text)
    if match is None or (len(text) >= _LONG and _HUGE.search(text)):
        return None
    first, taps, second, n, pad, stride, dilation, bias, layout, *words = match.groups()
    sizes = _crossed(taps, pad, stride, dilation)
    images = tuple(map(int, first.split("-"))), tuple(map(int, second.split("-")))
    if sizes is None or not len(images[0]) == len(images[1]) == len(sizes[0]) + 1:
        return None
    kind, direction, groups, casts = words
    return FindKey(
        *images,
        sizes[0],
        int(n),
        sizes[1],
        sizes[2],
        sizes[3],
        int(bias),
        tuple(layout.split("-")),
        kind,
        direction,
        int(groups or 1),
        casts,
    )


_Sizes = tuple[int, ...]


@lru_cache(maxsize=4096)
def _crossed(*texts: str) -> tuple[_Sizes, _Sizes, _Sizes, _Sizes] | None:
    """Filter, pad, stride and dilation, of which there are few; None if their axes differ."""
    taps, pad, stride, dilation = (tuple(map(int, text.split("x"))) for text in texts)
    alike = len(taps) == len(pad) == len(stride) == len(dilation)
    return (taps, pad, stride, dilation) if alike else None


def is_perf_key(text: str) -> bool:
    """Whether a text is a convolution's key in a perf-db."""
    return _PERF.fullmatch(text) is not None


def perf_fields(text: str) -> tuple[int | str, ...] | None:
    """The 21 numbers and three words of a convolution's perf key; None if it is none.

    Joined by ``x`` they give the same text again.
    """
    match = _PERF.fullmatch(text)
    if match is None:
        return None
    return (*map(int, text.split("x", 21)[:21]), *match.groups())


def key_of(problem: Problem) -> FindKey:
    """What a find key says of a convolution of ours; `UsageError` where MIOpen has no key."""
    operation = _OPERATIONS.get(problem.operation)
    if operation is None:
        raise UsageError(
            f"MIOpen's databases have no keys for {shown(problem.key)!r}; they have convolutions"
        )
    if problem.dtype not in _NAMES:
        raise UsageError(
            f"MIOpen's databases have no name for {problem.dtype}, so no key for "
            f"{shown(problem.key)!r}"
        )
    geometry = operation.geometry(problem)
    axes = geometry.axes[3 - geometry.spatial :]
    image = (geometry.c, *(axis.image for axis in axes))
    result = (geometry.k, *(axis.result for axis in axes))
    letter = _LETTERS[geometry.wanted]
    layout = problem.layout or operation.layouts[0]
    return FindKey(
        image if letter == "F" else result,
        result if letter == "F" else image,
        tuple(axis.filter for axis in axes),
        geometry.n,
        tuple(axis.pad for axis in axes),
        tuple(axis.stride for axis in axes),
        tuple(axis.dilation for axis in axes),
        0,
        (layout,) if layout in _USUAL else (layout,) * 3,
        _NAMES[problem.dtype],
        letter,
        geometry.groups,
    )


def find_key(problem: Problem) -> str:
    """The key of a convolution of ours in a find-db."""
    return key_of(problem).text


def perf_key(problem: Problem) -> str:
    """The key of a convolution of ours in a perf-db; several problems may share one."""
    return key_of(problem).perf_text
