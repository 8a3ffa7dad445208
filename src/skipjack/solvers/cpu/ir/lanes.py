"""A notation for arithmetic on the lanes of a vector, in which the code of functions is written."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.native import IRWriter, VectorType


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """Constants of an element type."""

    integer: str
    mantissa: int
    """Stored bits of the mantissa."""
    bias: int
    smallest: float
    """The smallest normal number."""
    ln2_high: float
    """ln 2 with so few bits that its product with an exponent is exact."""
    exp_low: float
    """exp of less rounds to 0."""
    exp_high: float
    """exp of this and more overflows."""
    silu_low: float
    """silu of less rounds to -0."""
    tanh_one: float
    """tanh of this and more rounds to 1."""


FORMATS = {
    "f32": FloatFormat(
        "i32", 23, 127, 2.0**-126, float.fromhex("0x1.62E4p-1"), -104.0, 89.0, -110.0, 9.5
    ),
    "f64": FloatFormat(
        "i64",
        52,
        1023,
        2.0**-1022,
        float.fromhex("0x1.62E42FEFAp-1"),
        -746.0,
        710.0,
        -760.0,
        20.0,
    ),
}


class Lanes:
    """Arithmetic on one vector type; each method emits one or two instructions."""

    def __init__(self, writer: IRWriter, vector: VectorType) -> None:
        self._w, self._vector = self.writer, self.vector = writer, vector
        self.format = FORMATS[vector.dtype]
        self.dtype = vector.dtype
        integer, lanes = self.format.integer, vector.lanes
        self._integers = integer if lanes == 1 else f"<{lanes} x {integer}>"

    def add(self, left: str | float, right: str | float) -> str:
        return self._binary("fadd", left, right)

    def sub(self, left: str | float, right: str | float) -> str:
        return self._binary("fsub", left, right)

    def mul(self, left: str | float, right: str | float) -> str:
        return self._binary("fmul", left, right)

    def div(self, left: str | float, right: str | float) -> str:
        return self._binary("fdiv", left, right)

    def fma(self, left: str | float, right: str | float, plus: str | float) -> str:
        """``left * right + plus``, rounded once if the CPU can."""
        # `fmuladd` and not `fma`: on a CPU without fused code the latter is a call to libm.
        return self._w.call(self._vector, "fmuladd", [self._of(v) for v in (left, right, plus)])

    def call(self, intrinsic: str, value: str) -> str:
        """Call an intrinsic of one argument."""
        return self._w.call(self._vector, intrinsic, [value])

    def copysign(self, value: str, sign: str) -> str:
        """The first value with the sign of the second."""
        return self._w.call(self._vector, "copysign", [value, sign])

    def negative(self, value: str) -> str:
        return self._w.value(f"fneg {self._vector.text} {value}")

    def select(
        self, left: str, how: str, right: float, then: str | float, other: str | float
    ) -> str:
        """`then` in lanes where the comparison holds, else `other`."""
        text = self._vector.text
        holds = self._w.value(f"fcmp {how} {text} {left}, {self._of(right)}")
        truth = "i1" if self._vector.lanes == 1 else f"<{self._vector.lanes} x i1>"
        chosen = f"{text} {self._of(then)}, {text} {self._of(other)}"
        return self._w.value(f"select {truth} {holds}, {chosen}")

    def at_least(self, value: str, bound: float) -> str:
        """The larger of value and bound; NaN stays NaN.

        In this form a single instruction on x86.
        """
        return self.select(value, "olt", bound, bound, value)

    def at_most(self, value: str, bound: float) -> str:
        """The smaller of value and bound; NaN stays NaN."""
        return self.select(value, "ogt", bound, bound, value)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """By Horner's rule, which has the fewest instructions; other iterations hide its
        latency."""
        result: str | float = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, coefficient)
        return self._of(result)

    def bits(self, value: str) -> str:
        """The bits of a value, as integers."""
        return self._w.value(f"bitcast {self._vector.text} {value} to {self._integers}")

    def floats(self, value: str) -> str:
        """The value that has these bits."""
        return self._w.value(f"bitcast {self._integers} {value} to {self._vector.text}")

    def whole(self, instruction: str, left: str, right: str | int) -> str:
        """An instruction on integers."""
        if isinstance(right, int):
            right = self._whole_constant(right)
        return self._w.value(f"{instruction} {self._integers} {left}, {right}")

    def bits_of(self, value: float) -> int:
        """The bits of a number, as an integer."""
        kind = {"f32": "<f", "f64": "<d"}[self.dtype]
        return int.from_bytes(struct.pack(kind, value), "little")

    def _whole_constant(self, value: int) -> str:
        if self._vector.lanes == 1:
            return str(value)
        return "<" + ", ".join([f"{self.format.integer} {value}"] * self._vector.lanes) + ">"

    def _binary(self, instruction: str, left: str | float, right: str | float) -> str:
        text = self._vector.text
        return self._w.value(f"{instruction} {text} {self._of(left)}, {self._of(right)}")

    def _of(self, value: str | float) -> str:
        return value if isinstance(value, str) else self._vector.constant(value)
