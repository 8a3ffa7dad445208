"""Batch normalisation: from a command's values to a problem."""

from __future__ import annotations

from dataclasses import replace

from skipjack.core.problem import shown
from skipjack.errors import ProblemError
from skipjack.interop.defaults import Defaults, refuse_other
from skipjack.interop.driver_flags import BATCHNORM_DTYPES, dtype_obstacle
from skipjack.interop.driver_values import Values
from skipjack.interop.not_applicable import Entry, NotApplicable, first_reason
from skipjack.operations import get, parse

FLAG_OF_LETTER = {"n": "batchsize", "c": "in_channels", "h": "in_h", "w": "in_w"}
_LAYOUTS = ("NCHW", "NHWC", "NCDHW", "NDHWC")


def read_batchnorm(base: str, values: Values, defaults: Defaults) -> tuple[Entry, ...]:
    """The one problem of a command. Which one of several it runs is what the driver would run."""
    dtype = BATCHNORM_DTYPES[base]
    refuse_other("dtype", dtype, defaults.dtype, values.where)
    spatial = values.number("mode", most=1) == 1
    depth = values.number("in_d")
    layout = _layout(values, depth, defaults.layout)
    sizes = "".join(f"{at}{values.number(flag)}" for at, flag in FLAG_OF_LETTER.items())
    problem = parse(f"batchnorm:{sizes}/mode={_mode(values)}")
    reason = first_reason(
        dtype_obstacle(dtype, get("batchnorm").dtypes),
        "its image has a depth; kernels are for NCHW" if depth else None,
        None if layout in ("NCHW", "NCDHW") else f"its layout is {layout}; kernels are for NCHW",
        None if spatial else "it normalises each activation; kernels normalise each channel (-m 1)",
        *values.obstacles(),
    )
    if reason is None:
        return (replace(problem, dtype=dtype),)
    more = (() if spatial else (("spatial", "0"),)) + values.unusual()
    text = replace(
        problem,
        dtype=dtype,
        layout="" if layout == "NCHW" else layout,
        shape_text=sizes.replace("h", f"d{depth}h") if depth else sizes,
        attributes=(*problem.attributes, *more),
    ).key
    return (NotApplicable(text, reason),)


def _mode(values: Values) -> str:
    """Forward goes before backward, and training is what happens if neither is asked for."""
    forward, backward = values.number("forw", most=2), values.number("back", most=1)
    if forward == 2:
        return "infer"
    return "backward" if backward and not forward else "train"


def _layout(values: Values, depth: int, asked: str | None) -> str:
    layout = values.word("layout").upper() or asked or ("NCDHW" if depth else "NCHW")
    if layout not in _LAYOUTS:
        known = ", ".join(_LAYOUTS)
        raise ProblemError(
            f"command {values.where!r}: layout is one of {known}, {shown(layout)!r} is none"
        )
    refuse_other("layout", layout, asked, values.where)
    if ("D" in layout) != (depth > 0):
        raise ProblemError(
            f"command {values.where!r}: layout {layout} does not go with in_d {depth}"
        )
    return layout
