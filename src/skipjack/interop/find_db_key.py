"""Keys of MIOpen's find-db as problems.

::

    C-[D-]H-W-FILTER-K-[OD-]OH-OW-N-PAD-STRIDE-DILATION-BIAS-LAYOUT-TYPE-DIRECTION[_gGROUPS]
    128-56-56-3x3-256-28-28-32-1x1-2x2-1x1-0-NCHW-FP32-F=solver:time,workspace,...

In the forward direction, the first group is the input and the second the output; in the others they
are swapped. A key has both sizes, so it can be inconsistent; such a key is rejected. Transposed
convolutions are in a find-db as the plain convolutions that compute the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from skipjack.core import excerpt
from skipjack.errors import ProblemError
from skipjack.interop.driver_conv import LAYOUTS, unsupported_layout
from skipjack.interop.driver_flags import dtype_obstacle
from skipjack.interop.problem_entry import Entry, NotApplicable, first_reason
from skipjack.operations import Convolution, parse, result_size

TYPES = {
    "FP32": "f32",
    "FP16": "f16",
    "BF16": "bf16",
    "INT8": "i8",
    "INT32": "i32",
    "INT64": "i64",
    "FP64": "f64",
    "FP8": "f8",
    "BF8": "bf8",
}
_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}
_BEFORE = r"(?:^|(?<=[\s:\"'`]))"
"""The key may follow a file name, as in the output of grep, or a quotation mark."""
_TYPE = "|".join(TYPES)
_MEANT = re.compile(_BEFORE + r"\d+-\d+-\d+-(?:\d+-)?\d+x\d+(?:x\d+)?-", re.ASCII)
KEY = re.compile(
    _BEFORE + r"(?P<first>\d+(?:-\d+){2,3})-(?P<filter>\d+(?:x\d+){1,2})"
    r"-(?P<second>\d+(?:-\d+){2,3})-(?P<n>\d+)"
    r"-(?P<pad>\d+(?:x\d+){1,2})-(?P<stride>\d+(?:x\d+){1,2})-(?P<dilation>\d+(?:x\d+){1,2})"
    r"-(?P<bias>\d+)-(?P<layout>[A-Z]+(?:-[A-Z]+-[A-Z]+)?)"
    rf"-(?P<type>(?:{_TYPE}){{1,3}})-(?P<direction>[FBW])"
    rf"(?:_g(?P<groups>\d+))?(?P<casts>(?:_c[iwo](?:{_TYPE}))*)(?=[=\s\"'`,;]|$)",
    re.ASCII,
)
_PERF_DB = re.compile(r"[23](?:x-?\d+){20}x[A-Z]+x(?:" + _TYPE + r")+x[FBW](?:=|$)", re.ASCII)
_LONGEST = 18
"""Maximum number of digits; a larger size would exceed any memory."""


@dataclass(frozen=True, slots=True)
class _KeyParts:
    """The parts of a key; axes are ordered from depth to width."""

    key: str
    n: int
    channels: int
    image: tuple[int, ...]
    features: int
    result: tuple[int, ...]
    filter: tuple[int, ...]
    pad: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def shape(self) -> str:
        """The shape as in the key of a problem."""
        spatial = len(self.image)
        axes = (("dhw", self.image), ("zyx", self.filter), ("opq", self.pad))
        steps = (("tuv", self.stride), ("ilj", self.dilation))
        texts = [
            "".join(f"{at}{size}" for at, size in zip(letters[-spatial:], sizes, strict=True))
            for letters, sizes in (*axes, *steps)
        ]
        image, *others = texts
        return f"n{self.n}c{self.channels}{image}k{self.features}{''.join(others)}g{self.groups}"

    def check(self) -> None:
        """`ProblemError` unless the size of the result follows from the other sizes."""
        if min(*self.stride, *self.dilation) < 1:
            raise ProblemError(f"find-db key {self.key!r} has a stride or a dilation of 0")
        sizes = zip(self.image, self.filter, self.pad, self.stride, self.dilation, strict=True)
        expected = tuple(result_size(*axis) for axis in sizes)
        if expected != self.result:
            says, follows = ("x".join(map(str, sizes)) for sizes in (self.result, expected))
            raise ProblemError(
                f"find-db key {self.key!r} is inconsistent: its result is {says}, "
                f"but its other sizes give {follows}"
            )


def is_find_db_line(text: str) -> bool:
    """Whether a text is a line of a database and not a command or the key of a problem."""
    return bool(_MEANT.search(text) or _PERF_DB.match(text))


def parse_find_db(text: str) -> Entry:
    """The problem of a line; text after the key is ignored."""
    match = KEY.search(text)
    if match is None:
        raise _no_key(text)
    fields, spatial = _said(match), match["filter"].count("x") + 1
    fields.check()
    layout = _layout(match, spatial)
    types = re.findall(_TYPE, match["type"])
    dtype = TYPES[types[0]] if len(set(types)) == 1 else match["type"].lower()
    direction = _DIRECTIONS[match["direction"]]
    operation = Convolution(spatial)
    key = f"{operation.name}:{fields.shape()}"
    reason = first_reason(
        dtype_obstacle(dtype, operation.dtypes),
        None if layout in operation.layouts else unsupported_layout(operation),
        "it adds a bias, which is a separate kernel here" if match["bias"].strip("0") else None,
        "it casts its arrays, which kernels do not support" if match["casts"] else None,
    )
    try:
        if reason is None:
            return parse(key, dtype, layout=layout, direction=direction)
        like_a_key = replace(parse(key, direction=direction), dtype=dtype, layout=layout)
    except ProblemError as error:
        raise ProblemError(f"find-db key {fields.key!r}: {error}") from None
    return NotApplicable(like_a_key.key, reason)


def _said(match: re.Match[str]) -> _KeyParts:
    key = excerpt(match[0])
    first, second = _numbers(match["first"], "-", key), _numbers(match["second"], "-", key)
    image, result = (first, second) if match["direction"] == "F" else (second, first)
    fields = _KeyParts(
        key,
        _numbers(match["n"], "-", key)[0],
        image[0],
        image[1:],
        result[0],
        result[1:],
        _numbers(match["filter"], "x", key),
        _numbers(match["pad"], "x", key),
        _numbers(match["stride"], "x", key),
        _numbers(match["dilation"], "x", key),
        _numbers(match["groups"] or "1", "-", key)[0],
    )
    axes = (fields.image, fields.result, fields.filter, fields.pad, fields.stride, fields.dilation)
    if len(set(map(len, axes))) > 1:
        raise ProblemError(f"find-db key {key!r} mixes two and three spatial axes")
    return fields


def _numbers(text: str, separator: str, key: str) -> tuple[int, ...]:
    parts = text.split(separator)
    if max(map(len, parts)) > _LONGEST:
        raise ProblemError(f"find-db key {key!r} has a size that is larger than any memory")
    return tuple(map(int, parts))


def _layout(match: re.Match[str], spatial: int) -> str:
    layouts = match["layout"].split("-")
    for layout in layouts:
        if layout not in LAYOUTS or len(layout) != spatial + 2:
            raise ProblemError(
                f"find-db key {excerpt(match[0])!r}: {excerpt(layout)!r} is not a layout of an "
                f"array with {spatial} spatial axes"
            )
    return layouts[0] if len(set(layouts)) == 1 else "-".join(layouts)


def _no_key(text: str) -> ProblemError:
    if _PERF_DB.match(text):
        return ProblemError(
            f"{excerpt(text)!r} is a line of a perf-db, which lacks the size of the image; "
            "import the find-db instead"
        )
    return ProblemError(
        f"{excerpt(text)!r} is not a key of a find-db; write one like "
        "128-56-56-3x3-256-28-28-32-1x1-2x2-1x1-0-NCHW-FP32-F"
    )
