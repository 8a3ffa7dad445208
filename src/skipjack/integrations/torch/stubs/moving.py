"""Running statistics of a batch norm, from those of the batch.

Slots: running mean, running variance, mean and inverse deviation of the batch, number of channels,
and as doubles the momentum, what was added to the variance, and the factor that makes it unbiased.
"""

from __future__ import annotations

MOVING = {"moving_f32": "float", "moving_f64": "double"}
"""Functions, and what their statistics are."""


def moving_text() -> str:
    """A function for each type."""
    return "\n".join(_function(name, kind) for name, kind in MOVING.items())


def _function(name: str, kind: str) -> str:
    align = 4 if kind == "float" else 8
    pointers = ("means", "variances", "mean", "invstd")
    numbers = ("momentum", "eps", "factor")
    lines = [f"define void @{name}(ptr %slots) nounwind {{", "entry:"]
    for place, pointer in enumerate(pointers):
        lines += _slot(place, pointer, "ptr")
    lines += _slot(4, "channels", "i64")
    for place, number in enumerate(numbers):
        lines += _slot(5 + place, number, "double")
    lines += [
        "  %kept = fsub double 1.0, %momentum",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %body ]",
        "  %more = icmp ult i64 %i, %channels",
        "  br i1 %more, label %body, label %done",
        "body:",
    ]
    for pointer in pointers:
        lines += [
            f"  %{pointer}_at = getelementptr {kind}, ptr %{pointer}, i64 %i",
            f"  %{pointer}_is = load {kind}, ptr %{pointer}_at, align {align}",
            f"  %{pointer}_d = {_widened(kind, f'%{pointer}_is')}",
        ]
    lines += [
        "  %square = fmul double %invstd_d, %invstd_d",
        "  %inverse = fdiv double 1.0, %square",
        "  %variance = fsub double %inverse, %eps",
        "  %negative = fcmp olt double %variance, 0.0",
        "  %biased = select i1 %negative, double 0.0, double %variance",
        "  %unbiased = fmul double %biased, %factor",
        *_blended("means", "%mean_d", kind, align),
        *_blended("variances", "%unbiased", kind, align),
        "  %next = add i64 %i, 1",
        "  br label %loop",
        "done:",
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)


def _slot(place: int, name: str, kind: str) -> list[str]:
    return [
        f"  %{name}_slot = getelementptr i64, ptr %slots, i64 {place}",
        f"  %{name} = load {kind}, ptr %{name}_slot, align 8",
    ]


def _widened(kind: str, value: str) -> str:
    return f"fpext float {value} to double" if kind == "float" else f"fadd double {value}, 0.0"


def _blended(name: str, new: str, kind: str, align: int) -> list[str]:
    """What was there, and a part of the new."""
    rounded = (
        f"  %{name}_new = fptrunc double %{name}_sum to float"
        if kind == "float"
        else f"  %{name}_new = fadd double %{name}_sum, 0.0"
    )
    return [
        f"  %{name}_old = fmul double %{name}_d, %kept",
        f"  %{name}_add = fmul double {new}, %momentum",
        f"  %{name}_sum = fadd double %{name}_old, %{name}_add",
        rounded,
        f"  store {kind} %{name}_new, ptr %{name}_at, align {align}",
    ]
