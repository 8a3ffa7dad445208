"""Keys of MIOpen's databases: their parts, and how they correspond to problems."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from skipjack.core import Problem, excerpt
from skipjack.errors import UsageError
from skipjack.interop.find_db_key import KEY, TYPES
from skipjack.operations import CONVOLUTIONS, Axis, Convolution, result_size

# Keys of MIOpen's databases: their parts, and the keys of problems.
#
# A find key has the sizes of both images; a perf key has the same numbers in another order, without
# the size of the second image::
#
#     find  128-28-28-3x3-256-28-28-64-1x1-1x1-1x1-0-NCHW-FP32-F
#     perf  2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF
#
# In the forward direction the first image is the input, in the others it is the result. Transposed
# convolutions have the keys of the plain convolutions that compute the same.

_OPERATIONS: dict[str, Convolution] = {each.name: each for each in CONVOLUTIONS}
_DIRECTION_LETTERS = {"result": "F", "image": "B", "filter": "W"}
"""The letter of the direction, by the computed role."""
_NAMES = {name: word for word, name in TYPES.items()}
_PERF = re.compile(
    r"[23](?:x(?:0|-?[1-9]\d{0,17})){20}x(?P<layout>[A-Za-z][\w-]*?)"
    r"x(?P<type>[A-Z][A-Z0-9]*)x(?P<direction>[FBW])",
    re.ASCII,
)
_USUAL = ("NCHW", "NCDHW")
_HUGE = re.compile(r"\d{19}")
"""A number with more digits than a size can have."""
_LONG = 60
"""Shorter keys, in characters, cannot contain such a number."""


class FindKey(NamedTuple):
    """The parts of a find key: axes from depth to width; `first` and `second` include channels."""

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
        """The number of spatial axes, 2 or 3."""
        return len(self.filter)

    @property
    def text(self) -> str:
        """The key as text."""
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
        """The convolved image with its channels, in any direction."""
        return self.first if self.direction == "F" else self.second

    @property
    def result(self) -> tuple[int, ...]:
        """The result of the forward direction, with its channels."""
        return self.second if self.direction == "F" else self.first

    @property
    def geometry(self) -> tuple[tuple[int, ...], ...]:
        """Image, filter, result, pad, stride and dilation; a file has few distinct ones."""
        sizes = self.image[1:], self.filter, self.result[1:]
        return (*sizes, self.pad, self.stride, self.dilation)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes with the sizes of the key."""
        image, taps, result, *steps = self.geometry
        return tuple(Axis(*axis) for axis in zip(image, taps, result, *steps, strict=True))

    @property
    def excess(self) -> int:
        """The largest difference of the result from the size that follows from the other sizes.

        It is 1 if only one side is padded by one element more, which a key cannot express.
        """
        return _excess(*self.geometry)


@lru_cache(maxsize=4096)
def _excess(
    image: tuple[int, ...], taps: tuple[int, ...], result: tuple[int, ...], *steps: tuple[int, ...]
) -> int:
    sizes = zip(image, taps, *steps, strict=True)
    differences = [
        stated - max(1, result_size(*axis)) for stated, axis in zip(result, sizes, strict=True)
    ]
    return max(differences, key=abs)


def parse_find_key(text: str) -> FindKey | None:
    """The parts of a find key; None if the text does not have its form."""
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
    """Filter, pad, stride and dilation; None if they have different numbers of axes."""
    taps, pad, stride, dilation = (tuple(map(int, text.split("x"))) for text in texts)
    alike = len(taps) == len(pad) == len(stride) == len(dilation)
    return (taps, pad, stride, dilation) if alike else None


def is_perf_key(text: str) -> bool:
    """Whether a text is the key of a convolution in a perf-db."""
    return _PERF.fullmatch(text) is not None


def perf_fields(text: str) -> tuple[int | str, ...] | None:
    """The 21 numbers and three words of a convolution's perf key; None if it is not a key.

    Joined by ``x``, they are the same text.
    """
    match = _PERF.fullmatch(text)
    if match is None:
        return None
    return (*map(int, text.split("x", 21)[:21]), *match.groups())


def key_of(problem: Problem) -> FindKey:
    """The parts of the find key of a problem; `UsageError` if MIOpen has no key for it."""
    operation = _OPERATIONS.get(problem.operation)
    if operation is None:
        raise UsageError(
            f"MIOpen's databases have no keys for {excerpt(problem.key)!r}, only for convolutions"
        )
    if problem.dtype not in _NAMES:
        raise UsageError(
            f"MIOpen's databases have no name for {problem.dtype}, so no key for "
            f"{excerpt(problem.key)!r}"
        )
    geometry = operation.geometry(problem)
    axes = geometry.axes[3 - geometry.spatial :]
    image = (geometry.c, *(axis.image for axis in axes))
    result = (geometry.k, *(axis.result for axis in axes))
    letter = _DIRECTION_LETTERS[geometry.wanted]
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
    """The key of a convolution in a find-db."""
    return key_of(problem).text


def perf_key(problem: Problem) -> str:
    """The key of a convolution in a perf-db; several problems may share one."""
    return key_of(problem).perf_text


# The key of the problem of a find key, without creating the problem, for long lists.

_PLAIN_CONVOLUTIONS = {spatial: Convolution(spatial) for spatial in (2, 3)}
_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}
_AXIS_LETTERS = {2: ("hw", "yx", "pq", "uv", "lj"), 3: ("dhw", "zyx", "opq", "tuv", "ilj")}


def problem_text(key: FindKey) -> str | None:
    """The key of the problem that `parse_find_db` returns; None if it is not applicable."""
    name, end = _text_ends(key.spatial, key.layouts, key.type, key.direction)
    axes = _axis_texts(key.geometry)
    channels, features, groups = key.image[0], key.result[0], key.groups
    if not (name and axes) or key.bias or key.casts or min(key.n, channels, features, groups) < 1:
        return None
    if channels % groups or features % groups:
        return None
    sizes, steps = axes
    grouped = f"g{groups}" if groups != 1 else ""
    return f"{name}:n{key.n}c{channels}{sizes}k{features}{steps}{grouped}{end}"


@lru_cache(maxsize=256)
def _text_ends(
    spatial: int, layouts: tuple[str, ...], kind: str, direction: str
) -> tuple[str, str]:
    """The start and end of the text; empty if the arrays are not supported."""
    operation = _PLAIN_CONVOLUTIONS[spatial]
    dtype, layout = TYPES.get(kind, ""), layouts[0]
    if dtype not in operation.dtypes or layout not in operation.layouts or len(set(layouts)) > 1:
        return "", ""
    return operation.name, f":{dtype}:{layout}:{_DIRECTIONS[direction]}"


@lru_cache(maxsize=4096)
def _axis_texts(geometry: tuple[tuple[int, ...], ...]) -> tuple[str, str] | None:
    """Sizes of the image, and of all after the features; None if they are inconsistent."""
    image, taps, result, pad, stride, dilation = geometry
    if min(*image, *result, *taps, *stride, *dilation) < 1:
        return None
    if result != tuple(map(result_size, image, taps, pad, stride, dilation)):
        return None
    letters = _AXIS_LETTERS[len(image)]
    steps = [
        *map("{}{}".format, letters[1], taps),
        *(f"{at}{size}" for at, size in zip(letters[2], pad, strict=True) if size),
        *(f"{at}{size}" for at, size in zip(letters[3], stride, strict=True) if size != 1),
        *(f"{at}{size}" for at, size in zip(letters[4], dilation, strict=True) if size != 1),
    ]
    return "".join(map("{}{}".format, letters[0], image)), "".join(steps)
