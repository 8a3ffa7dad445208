"""Convolutions: from a command's values to problems, one for each direction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from skipjack.core.problem import shown
from skipjack.errors import ProblemError
from skipjack.interop.defaults import Defaults, refuse_other
from skipjack.interop.driver_flags import CONV_DTYPES, dtype_obstacle
from skipjack.interop.driver_padding import PAD_MODES, UNEVEN, Pads, Span, resolve_pads
from skipjack.interop.driver_values import Values
from skipjack.interop.not_applicable import Entry, NotApplicable, first_reason
from skipjack.operations import parse
from skipjack.operations.convolution import Convolution

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
"""Letters of a key and the flags that give their sizes."""

DIRECTION_BITS = {"fwd": 1, "bwd": 2, "wrw": 4}
"""In the value of ``forw``; 0 is all of them."""
LAYOUT_FLAGS = ("in_layout", "fil_layout", "out_layout")
LAYOUTS = ("NCHW", "NHWC", "CHWN", "NCDHW", "NDHWC")
_AXES = {2: ("hyup", "wxvq"), 3: ("dzto", "hyup", "wxvq")}
"""Letters of size, filter, stride and pad along each axis."""


@dataclass(frozen=True, slots=True)
class _Said:
    """A command's convolution, without its directions."""

    operation: Convolution
    key: str
    """With the sizes alone."""
    dtype: str
    layout: str
    """Three of them joined by dashes where input, filter and output differ."""
    even: bool
    """Whether both sides are padded alike."""
    values: Values

    @property
    def obstacle(self) -> str | None:
        """Why no kernel here computes it, if so."""
        usual = self.layout in self.operation.layouts
        return first_reason(
            dtype_obstacle(self.dtype, self.operation.dtypes),
            None if usual else f"all arrays must be {' or '.join(self.operation.layouts)} alike",
            *self.values.obstacles(),
            None if self.even else UNEVEN,
        )

    def entry(self, direction: str) -> Entry:
        """The problem, whose geometry is checked in any case."""
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
    """The problems of a command, forward first; `ProblemError` if it is no convolution at all."""
    dtype = CONV_DTYPES[base]
    refuse_other("dtype", dtype, defaults.dtype, values.where)
    transposed = values.choice("mode", ("conv", "trans")) == "trans"
    operation = Convolution(int(values.choice("spatial_dim", ("2", "3"))), transposed)
    sizes = _sizes(values, operation)
    pads = _pads(values, operation, sizes)
    sizes |= {axis[3]: pad for axis, pad in zip(_axes(operation), pads.pads, strict=True)}
    said = _Said(
        operation,
        f"{operation.name}:" + "".join(f"{letter}{size}" for letter, size in sizes.items()),
        dtype,
        _layout(values, operation, defaults.layout),
        pads.even,
        values,
    )
    return tuple(said.entry(each) for each in _directions(values, defaults.one_direction))


def _sizes(values: Values, operation: Convolution) -> dict[str, int]:
    sizes = {letter: values.number(FLAG_OF_LETTER[letter]) for letter in operation.letters}
    return sizes | {"g": max(sizes["g"], 1)}  # the driver takes 0 groups for 1


def _axes(operation: Convolution) -> tuple[str, ...]:
    return _AXES[operation.spatial]


def _pads(values: Values, operation: Convolution, sizes: dict[str, int]) -> Pads:
    """The driver reads ``pad_mode`` only for plain convolutions that are not dilated."""
    mode = values.choice("pad_mode", PAD_MODES)
    spans = [Span(*(sizes[letter] for letter in axis)) for axis in _axes(operation)]
    dilated = any(sizes[at] > 1 for at in "ilj" if at in sizes)
    if operation.transposed or (dilated and any(span.filter > 1 for span in spans)):
        mode = "default"
    return resolve_pads(mode, spans)


def _layout(values: Values, operation: Convolution, asked: str | None) -> str:
    """Of input, filter and output; a flag that is missing means the usual layout.

    An output's layout alone is that of all arrays: MIOpen's own lists of models are written so.
    """
    lone = is_lone_out_layout(name for name in LAYOUT_FLAGS if values.says(name))
    others = values.word("out_layout").upper() if lone else asked or operation.layouts[0]
    found = []
    for name in LAYOUT_FLAGS:
        layout = values.word(name).upper() or others
        _check_layout(name, layout, operation, values.where)
        refuse_other("layout", layout, asked, values.where)
        found.append(layout)
    return found[0] if len(set(found)) == 1 else "-".join(found)


def is_lone_out_layout(names: Iterable[str]) -> bool:
    """Whether the output's is the only one of a command's layout flags."""
    return set(names) == {"out_layout"}


def _check_layout(name: str, layout: str, operation: Convolution, where: str) -> None:
    if layout not in LAYOUTS:
        known = ", ".join(LAYOUTS)
        raise ProblemError(
            f"command {where!r}: {name} is one of {known}, {shown(layout)!r} is none"
        )
    if len(layout) != operation.spatial + 2:
        raise ProblemError(
            f"command {where!r}: {name} {layout} has {len(layout) - 2} spatial axes, "
            f"but spatial_dim is {operation.spatial}"
        )


def _directions(values: Values, asked: str | None) -> tuple[str, ...]:
    """Those of ``forw``; one that was asked for chooses where the command leaves all open."""
    mask = values.number("forw", most=7) or 7
    said = tuple(name for name, bit in DIRECTION_BITS.items() if mask & bit)
    if asked is None:
        return said
    if mask != 7:
        refuse_other("direction", " and ".join(said), asked, values.where)
    return (asked,)
