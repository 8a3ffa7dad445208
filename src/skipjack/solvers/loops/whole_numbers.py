"""An IR writer with the arithmetic of sizes and strides that are known at run time."""

from __future__ import annotations

from collections.abc import Callable

from skipjack.native.ir import IRWriter


class WholeNumberWriter(IRWriter):
    """An `IRWriter` with whole-number arithmetic; operands are i64 values or numbers."""

    def mul(self, left: str | int, right: str | int) -> str:
        """Product of two i64."""
        return self.value(f"mul i64 {left}, {right}")

    def add(self, left: str | int, right: str | int) -> str:
        """Sum of two i64."""
        return self.value(f"add i64 {left}, {right}")

    def sub(self, left: str | int, right: str | int) -> str:
        """Difference of two i64."""
        return self.value(f"sub i64 {left}, {right}")

    def least(self, left: str | int, right: str | int) -> str:
        """The smaller of two i64."""
        self.declarations.add("declare i64 @llvm.umin.i64(i64, i64)")
        return self.value(f"call i64 @llvm.umin.i64(i64 {left}, i64 {right})")

    def without(self, left: str | int, right: str | int) -> str:
        """What is left after taking away; nothing where that is more."""
        self.declarations.add("declare i64 @llvm.usub.sat.i64(i64, i64)")
        return self.value(f"call i64 @llvm.usub.sat.i64(i64 {left}, i64 {right})")

    def positive(self, number: str | int) -> str:
        """A signed number, or 0 where it is negative."""
        return self.most(number, 0)

    def most(self, left: str | int, right: str | int) -> str:
        """The larger of two signed i64."""
        self.declarations.add("declare i64 @llvm.smax.i64(i64, i64)")
        return self.value(f"call i64 @llvm.smax.i64(i64 {left}, i64 {right})")

    def divided(self, number: str, by: int) -> tuple[str, str]:
        """How often a number goes into another, and what is left."""
        return self.value(f"udiv i64 {number}, {by}"), self.value(f"urem i64 {number}, {by}")

    def rounds(self, total: str | int, size: str | int) -> str:
        """How many pieces of a size cover a total."""
        return self.value(f"udiv i64 {self.sub(self.add(total, size), 1)}, {size}")

    def first_lanes(self, lanes: int, count: str) -> str:
        """A mask of the first `count` lanes of several."""
        numbers = "<" + ", ".join(f"i64 {lane}" for lane in range(lanes)) + ">"
        limit = self.splat_text(f"<{lanes} x i64>", "i64", count, lanes)
        return self.value(f"icmp ult <{lanes} x i64> {numbers}, {limit}")

    def prefetch(self, pointer: str, cache: int = 1) -> None:
        """Fetch the line there into the first or second cache; any address will do."""
        self.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.emit(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 0, i32 {4 - cache}, i32 1)")

    def either(self, condition: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """One of two bodies."""
        self.when(condition, yes)
        self.when(self.value(f"xor i1 {condition}, true"), no)
