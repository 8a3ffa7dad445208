"""Convolutions and pooling: from the values of a command of MIOpenDriver to problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from skipjack.core import excerpt, parse_shape
from skipjack.errors import ProblemError
from skipjack.interop.driver_flags import (
    CONV_DTYPES,
    POOL,
    POOL_BY_TENSOR,
    POOL_DTYPES,
    Flag,
    Values,
    dtype_obstacle,
)
from skipjack.interop.problem_entry import (
    Defaults,
    Entry,
    NotApplicable,
    first_reason,
    refuse_contradiction,
)
from skipjack.operations import Convolution, parse
from skipjack.reading import numbered

# ``pad_mode``: pads that the driver computes from the sizes.

PAD_MODES = ("default", "same", "valid")
UNEVEN = "pad_mode same pads one side by one element more; kernels pad both sides equally"


@dataclass(frozen=True, slots=True)
class SpatialAxis:
    """One spatial axis of a convolution or pooling."""

    size: int
    filter: int
    stride: int
    pad: int

    @property
    def same_total(self) -> int:
        """The sum of both pads in the mode ``same``."""
        over = self.size % self.stride
        return max(self.filter - (over or self.stride), 0)


@dataclass(frozen=True, slots=True)
class AxisPads:
    """The pad of each axis; `even` unless one side needs more than the other."""

    pads: tuple[int, ...]
    even: bool = True


def resolve_pads(mode: str, spans: Sequence[SpatialAxis]) -> AxisPads:
    """The pads that the driver would use."""
    if mode == "same":
        totals = [span.same_total for span in spans]
        return AxisPads(
            tuple(total // 2 for total in totals), all(total % 2 == 0 for total in totals)
        )
    if mode == "valid":
        return AxisPads((0,) * len(spans))
    return AxisPads(tuple(span.pad for span in spans))


# Convolutions: from the values of a command to problems, one for each direction.

FLAG_OF_LETTER = {
    "n": "batchsize",
    "c": "in_channels",
    "d": "in_d",
    "h": "in_h",
    "w": "in_w",
    "k": "out_channels",
    "z": "fil_d",
    "y": "fil_h",
    "x": "fil_w",
    "o": "pad_d",
    "p": "pad_h",
    "q": "pad_w",
    "t": "conv_stride_d",
    "u": "conv_stride_h",
    "v": "conv_stride_w",
    "i": "dilation_d",
    "l": "dilation_h",
    "j": "dilation_w",
    "g": "group_count",
    "e": "trans_output_pad_d",
    "a": "trans_output_pad_h",
    "b": "trans_output_pad_w",
}
"""The flag for each letter of a key."""

DIRECTION_BITS = {"fwd": 1, "bwd": 2, "wrw": 4}
"""Bits in the value of ``forw``; 0 means all directions."""
LAYOUT_FLAGS = ("in_layout", "fil_layout", "out_layout")
LAYOUTS = ("NCHW", "NHWC", "CHWN", "NCDHW", "NDHWC")
_AXES = {2: ("hyup", "wxvq"), 3: ("dzto", "hyup", "wxvq")}
"""Letters of size, filter, stride and pad for each axis."""


def unsupported_layout(operation: Convolution) -> str:
    """The reason why arrays of other layouts are not applicable."""
    return f"all arrays must have the layout {' or '.join(operation.layouts)}"


@dataclass(frozen=True, slots=True)
class _ConvCommand:
    """The convolution of a command, without directions."""

    operation: Convolution
    key: str
    """The operation and its sizes."""
    dtype: str
    layout: str
    """Three layouts joined by dashes if input, filter and output differ."""
    even: bool
    """Whether the padding of both sides is equal."""
    values: Values

    @property
    def obstacle(self) -> str | None:
        """The reason why no kernel computes it, or None."""
        usual = self.layout in self.operation.layouts
        return first_reason(
            dtype_obstacle(self.dtype, self.operation.dtypes),
            None if usual else unsupported_layout(self.operation),
            *self.values.obstacles(),
            None if self.even else UNEVEN,
        )

    def entry(self, direction: str) -> Entry:
        """The problem in a direction; its geometry is checked even if it is not applicable."""
        try:
            return self._entry(direction)
        except ProblemError as error:
            raise ProblemError(f"command {self.values.where!r}: {error}") from None

    def _entry(self, direction: str) -> Entry:
        if self.obstacle is None:
            return parse(self.key, self.dtype, layout=self.layout, direction=direction)
        uneven = () if self.even else (("pad_mode", "same"),)
        like_a_key = replace(
            parse(self.key, direction=direction),
            dtype=self.dtype,
            layout=self.layout,
            attributes=(*uneven, *self.values.unusual()),
        )
        return NotApplicable(like_a_key.key, self.obstacle)


def read_conv(base: str, values: Values, defaults: Defaults) -> tuple[Entry, ...]:
    """The problems of a command, forward first; `ProblemError` if it is invalid."""
    dtype = CONV_DTYPES[base]
    refuse_contradiction("dtype", dtype, defaults.dtype, values.where)
    transposed = values.choice("mode", ("conv", "trans")) == "trans"
    operation = Convolution(int(values.choice("spatial_dim", ("2", "3"))), transposed)
    sizes = _sizes(values, operation)
    pads = _pads(values, operation, sizes)
    sizes |= {axis[3]: pad for axis, pad in zip(_axes(operation), pads.pads, strict=True)}
    stated = _ConvCommand(
        operation,
        f"{operation.name}:" + "".join(f"{letter}{size}" for letter, size in sizes.items()),
        dtype,
        _layout(values, operation, defaults.layout),
        pads.even,
        values,
    )
    return tuple(stated.entry(each) for each in _directions(values, defaults.one_direction))


def _sizes(values: Values, operation: Convolution) -> dict[str, int]:
    sizes = {letter: values.number(FLAG_OF_LETTER[letter]) for letter in operation.letters}
    return sizes | {"g": max(sizes["g"], 1)}  # the driver treats 0 groups as 1


def _axes(operation: Convolution) -> tuple[str, ...]:
    return _AXES[operation.spatial]


def _pads(values: Values, operation: Convolution, sizes: dict[str, int]) -> AxisPads:
    """The driver uses ``pad_mode`` only for plain convolutions without dilation."""
    mode = values.choice("pad_mode", PAD_MODES)
    spans = [SpatialAxis(*(sizes[letter] for letter in axis)) for axis in _axes(operation)]
    dilated = any(sizes[at] > 1 for at in "ilj" if at in sizes)
    if operation.transposed or (dilated and any(span.filter > 1 for span in spans)):
        mode = "default"
    return resolve_pads(mode, spans)


def _layout(values: Values, operation: Convolution, requested: str | None) -> str:
    """The layout of input, filter and output; the default for missing flags.

    If only the output's layout is given, it applies to all arrays, as in MIOpen's lists of models.
    """
    lone = is_lone_out_layout(name for name in LAYOUT_FLAGS if values.is_set(name))
    others = values.word("out_layout").upper() if lone else requested or operation.layouts[0]
    found = []
    for name in LAYOUT_FLAGS:
        layout = values.word(name).upper() or others
        _check_layout(name, layout, operation, values.where)
        refuse_contradiction("layout", layout, requested, values.where)
        found.append(layout)
    return found[0] if len(set(found)) == 1 else "-".join(found)


def is_lone_out_layout(names: Iterable[str]) -> bool:
    """Whether a command sets the layout of the output but no other layout."""
    return set(names) == {"out_layout"}


def _check_layout(name: str, layout: str, operation: Convolution, where: str) -> None:
    if layout not in LAYOUTS:
        known = ", ".join(LAYOUTS)
        raise ProblemError(
            f"command {where!r}: {name} is {excerpt(layout)!r}; it must be one of {known}"
        )
    if len(layout) != operation.spatial + 2:
        raise ProblemError(
            f"command {where!r}: {name} {layout} has {len(layout) - 2} spatial axes, "
            f"but spatial_dim is {operation.spatial}"
        )


def _directions(values: Values, requested: str | None) -> tuple[str, ...]:
    """The directions of ``forw``; the requested one if the command does not restrict them."""
    mask = values.number("forw", most=7) or 7
    stated = tuple(name for name, bit in DIRECTION_BITS.items() if mask & bit)
    if requested is None:
        return stated
    if mask != 7:
        refuse_contradiction("direction", " and ".join(stated), requested, values.where)
    return (requested,)


# Pooling: parsed and checked, although no kernel computes it.

_MODES = ("max", "avg", "avg_in")
_POOL_LAYOUTS = {2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
_POOL_AXES = ("d", "h", "w")
_LETTERS = (("size", "dhw", 0), ("filter", "zyx", 0), ("pad", "opq", 0), ("stride", "tuv", 1))
"""Letters for each axis, and the default that a key omits."""


def pool_flags(words: Sequence[str]) -> tuple[Flag, ...]:
    """The flags of newer drivers if the input is one word, ``-W 100x3x32x32,NCHW``."""
    tensor = "--input" in words or any(
        word == "-W" and "x" in value for word, value in pairwise(words)
    )
    return POOL_BY_TENSOR if tensor else POOL


def read_pool(base: str, values: Values, defaults: Defaults) -> tuple[Entry, ...]:
    """One entry for each direction."""
    dtype = POOL_DTYPES[base]
    refuse_contradiction("dtype", dtype, defaults.dtype, values.where)
    lengths, layout = _input(values, defaults.layout)
    spans = _spans(values, lengths[2:])
    attributes = (("mode", values.choice("mode", _MODES)), *values.unusual())
    text = (
        f"pool{len(spans)}d:n{lengths[0]}c{lengths[1]}{_shape(spans)}"
        f"{''.join(f'/{name}={value}' for name, value in attributes)}:{dtype}:{layout}"
    )
    return tuple(
        NotApplicable(f"{text}:{direction}", "no kernel here computes pooling")
        for direction in _pool_directions(values, defaults.one_direction)
    )


def _spans(values: Values, sizes: Sequence[int]) -> dict[str, SpatialAxis]:
    """The window along each axis, with the pads of the pad mode."""
    spans = {
        axis: SpatialAxis(
            size,
            values.number(f"win_{axis}"),
            values.number(f"pool_stride_{axis}"),
            values.number(f"pad_{axis}"),
        )
        for axis, size in zip(_POOL_AXES[-len(sizes) :], sizes, strict=True)
    }
    pads = resolve_pads(values.choice("pad_mode", PAD_MODES), list(spans.values())).pads
    for (axis, span), pad in zip(spans.items(), pads, strict=True):
        if span.filter > span.size + 2 * pad:
            raise ProblemError(
                f"command {values.where!r}: the window covers {span.filter} pixels along {axis}, "
                f"but the padded image has only {span.size + 2 * pad}"
            )
        spans[axis] = replace(span, pad=pad)
    return spans


def _shape(spans: Mapping[str, SpatialAxis]) -> str:
    """The shape in the letters and the order of keys of convolutions, without defaults."""
    return "".join(
        f"{letters[_POOL_AXES.index(axis)]}{getattr(span, what)}"
        for what, letters, default in _LETTERS
        for axis, span in spans.items()
        if getattr(span, what) != default
    )


def _input(values: Values, requested: str | None) -> tuple[tuple[int, ...], str]:
    """Lengths in the order N C (D) H W, and the layout."""
    if "input" in values.flags:
        text, _, layout = values.word("input").partition(",")
        lengths = parse_shape(text, values.where)
        if len(lengths) not in (4, 5):
            raise ProblemError(
                f"command {values.where!r}: the input {excerpt(text)} has "
                f"{numbered(len(lengths), 'size')}; pooling needs 4 or 5"
            )
    else:
        spatial = int(values.choice("spatial_dim", ("2", "3")))
        names = [f"in_{axis}" for axis in _POOL_AXES[-spatial:]]
        lengths = tuple(values.number(name) for name in ("batchsize", "in_channels", *names))
        layout = values.word("in_layout")
    known = _POOL_LAYOUTS[len(lengths) - 2]
    chosen = layout.upper() or requested or known[0]
    if chosen not in known:
        raise ProblemError(
            f"command {values.where!r}: "
            f"the layout is {excerpt(chosen)!r}; it must be {' or '.join(known)}"
        )
    refuse_contradiction("layout", chosen, requested, values.where)
    return lengths, chosen


def _pool_directions(values: Values, requested: str | None) -> tuple[str, ...]:
    """``forw`` 0 means both directions, any other value only forward."""
    if values.number("forw"):
        refuse_contradiction("direction", "fwd", requested, values.where)
        return ("fwd",)
    if requested == "wrw":
        raise ProblemError(f"command {values.where!r}: pooling has no weights, so no direction wrw")
    return (requested,) if requested else ("fwd", "bwd")
