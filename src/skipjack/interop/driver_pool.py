"""Pooling: understood and checked, though no kernel here computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from skipjack.core.problem import parse_shape, shown
from skipjack.errors import ProblemError
from skipjack.interop.defaults import Defaults, refuse_other
from skipjack.interop.driver_flags import POOL, POOL_BY_TENSOR, POOL_DTYPES, Flag
from skipjack.interop.driver_padding import PAD_MODES, Span, resolve_pads
from skipjack.interop.driver_values import Values
from skipjack.interop.not_applicable import Entry, NotApplicable

_MODES = ("max", "avg", "avg_in")
_LAYOUTS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_AXES = ("d", "h", "w")
_LETTERS = (("size", "dhw", 0), ("filter", "zyx", 0), ("pad", "opq", 0), ("stride", "tuv", 1))
"""Letters along each axis, and the value that a key leaves out."""


def pool_flags(words: Sequence[str]) -> tuple[Flag, ...]:
    """Newer drivers take the input as one text, ``-W 100x3x32x32,NCHW``."""
    tensor = "--input" in words or any(
        word == "-W" and "x" in value for word, value in pairwise(words)
    )
    return POOL_BY_TENSOR if tensor else POOL


def read_pool(base: str, values: Values, defaults: Defaults) -> tuple[Entry, ...]:
    """One entry for each direction."""
    dtype = POOL_DTYPES[base]
    refuse_other("dtype", dtype, defaults.dtype, values.where)
    lengths, layout = _input(values, defaults.layout)
    spans = _spans(values, lengths[2:])
    attributes = (("mode", values.choice("mode", _MODES)), *values.unusual())
    text = (
        f"pool{len(spans)}d:n{lengths[0]}c{lengths[1]}{_shape(spans)}"
        f"{''.join(f'/{name}={value}' for name, value in attributes)}:{dtype}:{layout}"
    )
    return tuple(
        NotApplicable(f"{text}:{direction}", "no kernel here computes pooling")
        for direction in _directions(values, defaults.one_direction)
    )


def _spans(values: Values, sizes: Sequence[int]) -> dict[str, Span]:
    """The window along each axis, with the pads that the pad mode means."""
    spans = {
        axis: Span(
            size,
            values.number(f"win_{axis}"),
            values.number(f"pool_stride_{axis}"),
            values.number(f"pad_{axis}"),
        )
        for axis, size in zip(_AXES[-len(sizes) :], sizes, strict=True)
    }
    pads = resolve_pads(values.choice("pad_mode", PAD_MODES), list(spans.values())).pads
    for (axis, span), pad in zip(spans.items(), pads, strict=True):
        if span.filter > span.size + 2 * pad:
            raise ProblemError(
                f"command {values.where!r}: the window covers {span.filter} pixels along {axis}, "
                f"more than the padded image's {span.size + 2 * pad}"
            )
        spans[axis] = replace(span, pad=pad)
    return spans


def _shape(spans: Mapping[str, Span]) -> str:
    """In the letters and the order of a convolution's key, which leaves defaults out."""
    return "".join(
        f"{letters[_AXES.index(axis)]}{getattr(span, what)}"
        for what, letters, default in _LETTERS
        for axis, span in spans.items()
        if getattr(span, what) != default
    )


def _input(values: Values, asked: str | None) -> tuple[tuple[int, ...], str]:
    """Lengths in the order N C (D) H W, and the layout."""
    if "input" in values.flags:
        text, _, layout = values.word("input").partition(",")
        lengths = parse_shape(text, values.where)
        if len(lengths) not in (4, 5):
            raise ProblemError(
                f"command {values.where!r}: the input {shown(text)} has {len(lengths)} sizes, "
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
            f"command {values.where!r}: "
            f"the layout is {' or '.join(known)}, {shown(chosen)!r} is neither"
        )
    refuse_other("layout", chosen, asked, values.where)
    return lengths, chosen


def _directions(values: Values, asked: str | None) -> tuple[str, ...]:
    """``forw`` 0 is both, everything else is forward alone."""
    if values.number("forw"):
        refuse_other("direction", "fwd", asked, values.where)
        return ("fwd",)
    if asked == "wrw":
        raise ProblemError(f"command {values.where!r}: pooling has no weights, so no direction wrw")
    return (asked,) if asked else ("fwd", "bwd")
