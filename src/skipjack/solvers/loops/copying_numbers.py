"""Arithmetic on numbers that are known now, or else only when the code runs."""

from __future__ import annotations

from collections.abc import Callable

from skipjack.solvers.loops.whole_numbers import WholeNumberWriter

Number = int | str
"""Known now, or the i64 value that will hold it."""


class NumberWriter(WholeNumberWriter):
    """Whole numbers with signs; what is known now costs no instruction."""

    def plus(self, left: Number, right: Number) -> Number:
        """Sum."""
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        if left == 0 or right == 0:
            return right if left == 0 else left
        return self.add(left, right)

    def minus(self, left: Number, right: Number) -> Number:
        """Difference."""
        if isinstance(left, int) and isinstance(right, int):
            return left - right
        return left if right == 0 else self.sub(left, right)

    def times(self, left: Number, right: int) -> Number:
        """Product."""
        if isinstance(left, int):
            return left * right
        if right in (0, 1):
            return left if right else 0
        return self.mul(left, right)

    def smaller(self, left: Number, right: Number) -> Number:
        """The smaller of two."""
        if isinstance(left, int) and isinstance(right, int):
            return min(left, right)
        self.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        return self.value(f"call i64 @llvm.smin.i64(i64 {left}, i64 {right})")

    def larger(self, left: Number, right: Number) -> Number:
        """The larger of two."""
        if isinstance(left, int) and isinstance(right, int):
            return max(left, right)
        return self.most(left, right)

    def floor_divided(self, number: Number, by: int) -> Number:
        """Quotient by a positive number, rounded down."""
        if isinstance(number, int):
            return number // by
        if by == 1:
            return number
        # For negative ones by way of the complement: floor(a / b) is ~(~a / b).
        sign = self.value(f"ashr i64 {number}, 63")
        quotient = self.value(f"udiv i64 {self.value(f'xor i64 {number}, {sign}')}, {by}")
        return self.value(f"xor i64 {quotient}, {sign}")

    def moved(self, pointer: str, number: Number, bytes_: int) -> str:
        """A pointer after a number of steps of so many bytes."""
        return self.advance(pointer, self.times(number, bytes_))

    def each(self, count: int, body: Callable[[Number], None]) -> None:
        """The body for every number below a count."""

        def one(number: str, _: list[str]) -> list[str]:
            body(0 if count == 1 else number)
            return []

        self.loop(count, [], one)
