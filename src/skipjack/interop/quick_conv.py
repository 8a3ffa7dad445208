"""A fast parser for the usual convolutions in lists, which takes a few microseconds.

Lists have millions of lines in few forms: the same flags in the same order, two dimensions, no
padding mode. Such a line is parsed by the positions of its words. For any other line, and whenever
a line might be invalid, the result is None, and the regular parsers are used. A result always
equals that of the regular parsers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

from skipjack.interop.driver_conv import (
    DIRECTION_BITS,
    FLAG_OF_LETTER,
    LAYOUT_FLAGS,
    is_lone_out_layout,
)
from skipjack.interop.driver_flags import CONV, CONV_DTYPES, spellings
from skipjack.interop.find_db_key import TYPES
from skipjack.operations import Convolution

_CONV2D = Convolution()
_LETTERS = _CONV2D.letters
_FLAGS = spellings(CONV)
_DEFAULTS = {flag.name: flag.default for flag in CONV}
_DEFAULT_WORDS = [_DEFAULTS[FLAG_OF_LETTER[letter]] for letter in _LETTERS]
_ONLY = {"mode": "conv", "pad_mode": "default", "spatial_dim": "2"}
"""Flags that are allowed only with this value."""
_ODD = re.compile(r"[-\"'`#\\/\0]")
"""Characters in a value that need the regular parsers."""
_DIRECTIONS = {
    str(mask): tuple(name for name, bit in DIRECTION_BITS.items() if mask & bit)
    for mask in range(1, 7)
}
_LARGEST = 2**47
"""Maximum number of elements, half of the limit of a problem."""
_DIGITS = 9
_PLANS = 1000

_KEY = re.compile(
    r"conv2d:n(\d+)c(\d+)h(\d+)w(\d+)k(\d+)y(\d+)x(\d+)"
    r"(?:p(\d+))?(?:q(\d+))?(?:u(\d+))?(?:v(\d+))?(?:l(\d+))?(?:j(\d+))?(?:g(\d+))?"
    rf"(?::({'|'.join(_CONV2D.dtypes)}))?(?::(NCHW|NHWC))?(?::(fwd|bwd|wrw))?",
    re.ASCII,
)
_OPTIONAL = _LETTERS[7:]
_FIND_DTYPES = {text: dtype for text, dtype in TYPES.items() if dtype in _CONV2D.dtypes}
_FIND_DB = re.compile(
    r"(\d+)-(\d+)-(\d+)-(\d+)x(\d+)-(\d+)-(\d+)-(\d+)-(\d+)-(\d+)x(\d+)-(\d+)x(\d+)-(\d+)x(\d+)"
    rf"-0-(NCHW|NHWC-NHWC-NHWC)-({'|'.join(_FIND_DTYPES)})-([FBW])(?:_g(\d+))?(?==|$)",
    re.ASCII,
)

Sizes = Sequence[int]


class QuickConv(NamedTuple):
    """A valid two-dimensional convolution."""

    sizes: Sizes
    """Sizes in the order of the letters."""
    dtype: str
    """May be a dtype that kernels do not support."""
    layout: str
    directions: tuple[str, ...]
    """Empty if the text has no direction."""
    lone_layout: bool = False
    """Whether the text has a layout only for the output."""

    def key(self, batch: int | None = None) -> str:
        """The key of the problem without direction, optionally with another batch size."""
        n, c, h, w, k, y, x, *rest = self.sizes
        return (
            f"conv2d:n{batch or n}c{c}h{h}w{w}k{k}y{y}x{x}{_rest(*rest)}:{self.dtype}:{self.layout}"
        )

    def fits(self, batch: int) -> bool:
        """Whether it is certainly not too large with this batch size."""
        return _sound((batch, *self.sizes[1:]))


class _Plan(NamedTuple):
    """Positions of the words in one form of a command."""

    sizes: Callable[[list[str]], tuple[str, ...]]
    forw: int
    """0 if absent."""
    layouts: tuple[int, ...]
    """Of all arrays, of only the output, or empty."""
    fixed: tuple[tuple[int, str], ...]
    """Positions of words that must have these values."""
    ignored: tuple[int, ...]
    """Positions of numbers that have no effect in two dimensions."""


_plans: dict[tuple[str, ...], _Plan | None] = {}


def quick_command(text: str, layout: str = "") -> QuickConv | None:
    """Parse the text after ``MIOpenDriver``; `layout` is the default."""
    words = text.split()
    flags = tuple(words[1::2])
    if flags not in _plans:
        if len(_plans) > _PLANS:
            _plans.clear()
        _plans[flags] = _plan(flags)
    plan = _plans[flags]
    if plan is None or not len(words) % 2 or words[0] not in CONV_DTYPES:
        return None
    if _ODD.search("".join(words[2::2])) or not text.isascii():
        return None
    stated = plan.sizes(words + _DEFAULT_WORDS)
    if not "".join(stated).isdigit() or any(words[at] != word for at, word in plan.fixed):
        return None
    if not all(words[at].isdigit() and len(words[at]) <= _DIGITS for at in plan.ignored):
        return None
    directions: tuple[str, ...] | None = ()
    if plan.forw and words[plan.forw] != "0":
        directions = _DIRECTIONS.get(words[plan.forw])
    if plan.layouts:
        layout = _one_layout([words[at] for at in plan.layouts])
    elif layout not in _CONV2D.layouts:
        layout = "" if layout else _CONV2D.layouts[0]
    sizes = _integers(stated)
    if directions is None or not layout or not _sound(sizes):
        return None
    lone = len(plan.layouts) == 1 and layout != _CONV2D.layouts[0]
    return QuickConv(sizes, CONV_DTYPES[words[0]], layout, directions, lone)


def _plan(flags: tuple[str, ...]) -> _Plan | None:
    found = [_FLAGS.get(flag) for flag in flags]
    positions: dict[str, int] = {}
    for number, flag in enumerate(found):
        if flag is None or flag.use == "plain" or flag.name in positions:
            return None
        positions[flag.name] = 2 * number + 2
    beyond = 2 * len(flags) + 1
    sizes = [
        positions.get(FLAG_OF_LETTER[letter], beyond + number)
        for number, letter in enumerate(_LETTERS)
    ]
    stated = [name for name in LAYOUT_FLAGS if name in positions]
    if len(stated) not in (0, len(LAYOUT_FLAGS)) and not is_lone_out_layout(stated):
        return None
    layouts = tuple(positions[name] for name in stated)
    read = {*(FLAG_OF_LETTER[letter] for letter in _LETTERS), *LAYOUT_FLAGS, *_ONLY, "forw"}
    ignored = [
        positions[flag.name]
        for flag in found
        if flag and flag.use != "unread" and flag.name not in read
    ]
    fixed = tuple((positions[name], word) for name, word in _ONLY.items() if name in positions)
    return _Plan(itemgetter(*sizes), positions.get("forw", 0), layouts, fixed, tuple(ignored))


def _one_layout(words: list[str]) -> str:
    layouts = {word.upper() for word in words}
    return layouts.pop() if len(layouts) == 1 and layouts <= set(_CONV2D.layouts) else ""


def quick_key(text: str, dtype: str = "", layout: str = "") -> QuickConv | None:
    """Parse a key in the usual order; `dtype` and `layout` are defaults."""
    match = _KEY.fullmatch(text)
    if match is None:
        return None
    *stated, its_dtype, its_layout, direction = match.groups()
    texts = [
        size if size is not None else _DEFAULT_WORDS[number] for number, size in enumerate(stated)
    ]
    dtype, layout = its_dtype or dtype or "f32", its_layout or layout or _CONV2D.layouts[0]
    sizes = _integers(texts)
    if dtype not in _CONV2D.dtypes or layout not in _CONV2D.layouts or not _sound(sizes):
        return None
    return QuickConv(sizes, dtype, layout, (direction,) if direction else ())


def quick_find_db(text: str) -> QuickConv | None:
    """Parse a line of a find-db."""
    match = _FIND_DB.match(text)
    if match is None:
        return None
    *stated, layout, dtype, direction, groups = match.groups("1")
    a, ah, aw, y, x, b, bh, bw, n, p, q, u, v, l, j = _integers(stated)  # noqa: E741
    c, h, w, k, oh, ow = (a, ah, aw, b, bh, bw) if direction == "F" else (b, bh, bw, a, ah, aw)
    sizes = (n, c, h, w, k, y, x, p, q, u, v, l, j, *_integers([groups]))
    if not _sound(sizes):
        return None
    if (h + 2 * p - (y - 1) * l - 1) // u + 1 != oh or (w + 2 * q - (x - 1) * j - 1) // v + 1 != ow:
        return None
    return QuickConv(sizes, _FIND_DTYPES[dtype], layout[:4], (_FIND_DIRECTIONS[direction],))


_FIND_DIRECTIONS = {"F": "fwd", "B": "bwd", "W": "wrw"}


def _integers(words: Sequence[str]) -> tuple[int, ...]:
    """Words as integers; all 0, which is invalid, if one has too many digits."""
    if max(map(len, words)) > _DIGITS:
        return (0,) * len(words)
    return tuple(map(int, words))


def _sound(sizes: Sizes) -> bool:
    """Whether it is certainly a valid convolution of a supported size."""
    n, c, h, w, k, y, x, p, q, u, v, l, j, g = sizes  # noqa: E741
    if not n * c * h * w * k * y * x * u * v * l * j * g or c % g or k % g:
        return False
    high, wide = h + 2 * p, w + 2 * q
    if high <= (y - 1) * l or wide <= (x - 1) * j:
        return False
    return n * (c + k) * high * wide < _LARGEST and k * c * y * x < _LARGEST


@lru_cache(maxsize=10000)
def _rest(*sizes: int) -> str:
    """Pads, strides, dilations and groups that differ from their defaults."""
    return "".join(
        f"{letter}{size}"
        for letter, size in zip(_OPTIONAL, sizes, strict=True)
        if size != _CONV2D.defaults[letter]
    )
