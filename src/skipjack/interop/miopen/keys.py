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
from dataclasses import dataclass
from functools import lru_cache

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
    r"(?P<spatial>[23])(?P<sizes>(?:x(?:0|-?[1-9]\d*)){20})x(?P<layout>[A-Za-z][\w-]*?)"
    r"x(?P<type>[A-Z][A-Z0-9]*)x(?P<direction>[FBW])",
    re.ASCII,
)
_USUAL = ("NCHW", "NCDHW")
_HUGE = re.compile(r"\d{19}")
"""More digits than a size can have."""


@dataclass(frozen=True, slots=True)
class FindKey:
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
        flat = self.spatial == 2
        numbers = [
            self.spatial,
            self.first[0],
            *_deep_last(self.first[1:], 1),
            *_deep_last(self.filter, 1),
            self.second[0],
            self.n,
            *_deep_last(self.pad, 0),
            *_deep_last(self.stride, 0 if flat else 1),
            *_deep_last(self.dilation, 0 if flat else 1),
            self.bias,
            self.groups,
        ]
        words = (self.layouts[0], self.type, self.direction)
        return "x".join((*map(str, numbers), *words))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """With the sizes that the key says."""
        image, result = (
            (self.first, self.second)
            if self.direction == "F"
            else (
                self.second,
                self.first,
            )
        )
        return tuple(
            Axis(*axis)
            for axis in zip(
                image[1:],
                self.filter,
                result[1:],
                self.pad,
                self.stride,
                self.dilation,
                strict=True,
            )
        )

    @property
    def excess(self) -> int:
        """By how much the result is larger than its formula says, where it differs most.

        One more is what a padding on one side alone gives, which a key does not say.
        """
        image, result = (
            (self.first, self.second) if self.direction == "F" else (self.second, self.first)
        )
        steps = zip(self.filter, self.pad, self.stride, self.dilation, strict=True)
        differences = [
            said - max(1, result_size(size, *step))
            for said, size, step in zip(result[1:], image[1:], steps, strict=True)
        ]
        return max(differences, key=abs)


def _deep_last(sizes: tuple[int, ...], flat: int) -> tuple[int, ...]:
    """Height, width, depth."""
    return (*sizes, flat) if len(sizes) == 2 else (sizes[1], sizes[2], sizes[0])


def parse_find_key(text: str) -> FindKey | None:
    """The parts of a find key; None if it is not built like one."""
    match = KEY.fullmatch(text)
    if match is None or _HUGE.search(text):
        return None
    first, taps, second, n, *steps, bias, layout, kind, direction, groups, casts = match.groups()
    filter_sizes, pad, stride, dilation = map(_crossed, (taps, *steps))
    images = _dashed(first), _dashed(second)
    spatial = len(filter_sizes)
    if not len(pad) == len(stride) == len(dilation) == spatial:
        return None
    if not len(images[0]) == len(images[1]) == spatial + 1:
        return None
    return FindKey(
        *images,
        filter_sizes,
        int(n),
        pad,
        stride,
        dilation,
        int(bias),
        tuple(layout.split("-")),
        kind,
        direction,
        int(groups or 1),
        casts,
    )


@lru_cache(maxsize=1024)
def _crossed(text: str) -> tuple[int, ...]:
    """Filters, pads and steps, of which there are few different ones."""
    return tuple(map(int, text.split("x")))


def _dashed(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("-")))


def is_perf_key(text: str) -> bool:
    """Whether a text is a convolution's key in a perf-db."""
    return _PERF.fullmatch(text) is not None


def perf_fields(text: str) -> tuple[int | str, ...] | None:
    """The 21 numbers and three words of a convolution's perf key; None if it is none.

    Joined by ``x`` they give the same text again.
    """
    match = _PERF.fullmatch(text)
    if match is None or _HUGE.search(text):
        return None
    numbers = map(int, (match["spatial"], *match["sizes"].split("x")[1:]))
    return (*numbers, match["layout"], match["type"], match["direction"])


def sqlite_key(text: str) -> str | None:
    """The perf key of a record's key: old perf-dbs have find keys. None for what is neither."""
    if is_perf_key(text):
        return text
    key = parse_find_key(text)
    return key.perf_text if key else None


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
