"""Pooling: understood and checked, though no kernel here computes it."""

from __future__ import annotations

from collections.abc import Sequence

from skipjack.core.problem import parse_shape, shown
from skipjack.errors import ProblemError
from skipjack.interop.defaults import Defaults, refuse_other
from skipjack.interop.driver_dtypes import POOL_DTYPES
from skipjack.interop.driver_flags import POOL, POOL_BY_TENSOR, Flag
from skipjack.interop.driver_padding import PAD_MODES, Span, resolve_pads
from skipjack.interop.driver_values import Values
from skipjack.interop.not_applicable import Entry, NotApplicable

_MODES = ("max", "avg", "avg_in")
_LAYOUTS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_AXES = ("d", "h", "w")
_LETTERS = {"d": "dzto", "h": "hyup", "w": "wxvq"}
"""Letters of size, window, stride and pad, as a convolution has them."""


def pool_flags(words: Sequence[str]) -> tuple[Flag, ...]:
    """Newer drivers take the input as one text, ``-W 100x3x32x32,NCHW``."""
    follows = zip(words, words[1:], strict=False)
    tensor = any(word == "--input" or (word == "-W" and "x" in value) for word, value in follows)
    return POOL_BY_TENSOR if tensor else POOL


def read_pool(base: str, values: Values, defaults: Defaults) -> tuple[Entry, ...]:
    """One entry for each direction."""
    dtype = POOL_DTYPES[base]
    refuse_other("dtype", dtype, defaults.dtype, values.where)
    lengths, layout = _input(values, defaults.layout)
    axes = _AXES[-(len(lengths) - 2) :]
    spans = [
        Span(
            size,
            values.number(f"win_{axis}"),
            values.number(f"pool_stride_{axis}"),
            values.number(f"pad_{axis}"),
        )
        for axis, size in zip(axes, lengths[2:], strict=True)
    ]
    pads = resolve_pads(values.choice("pad_mode", PAD_MODES), spans).pads
    spans = [
        Span(span.size, span.filter, span.stride, pad)
        for span, pad in zip(spans, pads, strict=True)
    ]
    for axis, span in zip(axes, spans, strict=True):
        if not span.fits:
            raise ProblemError(
                f"{values.where!r}: the window covers {span.filter} pixels along {axis}, "
                f"more than the padded image's {span.size + 2 * span.pad}"
            )
    more = "".join(f"/{name}={value}" for name, value in values.unusual())
    text = (
        f"pool{len(axes)}d:n{lengths[0]}c{lengths[1]}{_shape(axes, spans)}"
        f"/mode={values.choice('mode', _MODES)}{more}:{dtype}:{layout}"
    )
    reason = "no kernel here computes pooling"
    return tuple(
        NotApplicable(f"{text}:{direction}", reason)
        for direction in _directions(values, defaults.one_direction)
    )


def _shape(axes: Sequence[str], spans: Sequence[Span]) -> str:
    """Sizes first, then windows, strides and pads that are not at their defaults."""
    columns = [
        [(_LETTERS[axis][at], value) for axis, value in zip(axes, column, strict=True)]
        for at, column in enumerate(
            zip(*((span.size, span.filter, span.stride, span.pad) for span in spans), strict=True)
        )
    ]
    plain = (None, None, 1, 0)
    return "".join(
        f"{letter}{value}"
        for default, column in zip(plain, columns, strict=True)
        for letter, value in column
        if value != default
    )


def _input(values: Values, asked: str | None) -> tuple[tuple[int, ...], str]:
    """Lengths in the order N C (D) H W, and the layout."""
    if "input" in values.flags:
        text, _, layout = values.word("input").partition(",")
        lengths = parse_shape(text, values.where)
        if len(lengths) not in (4, 5):
            raise ProblemError(
                f"{values.where!r}: the input {shown(text)} has {len(lengths)} sizes, "
                "but pooling wants 4 or 5"
            )
    else:
        spatial = int(values.choice("spatial_dim", ("2", "3")))
        names = [f"in_{axis}" for axis in _AXES[-spatial:]]
        lengths = tuple(values.number(name) for name in ("batchsize", "in_channels", *names))
        layout = values.word("in_layout")
    known = _LAYOUTS[len(lengths) - 2]
    chosen = layout.upper() or asked or known[0]
    if chosen not in known:
        raise ProblemError(
            f"{values.where!r}: the layout is {' or '.join(known)}, {shown(chosen)!r} is neither"
        )
    refuse_other("layout", chosen, asked, values.where)
    return lengths, chosen


def _directions(values: Values, asked: str | None) -> tuple[str, ...]:
    """``forw`` 0 is both, everything else is forward alone."""
    if values.number("forw"):
        refuse_other("direction", "fwd", asked, values.where)
        return ("fwd",)
    if asked == "wrw":
        raise ProblemError(f"{values.where!r}: pooling has no weights, so no direction wrw")
    return (asked,) if asked else ("fwd", "bwd")
