"""Writes LLVM IR as text: values, vectors with tails, counted loops with carried values.

It writes text because building the same module object by object through llvmlite took longer than
generating the code.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ITEM_BYTES = {"f32": 4, "f64": 8}
_SCALAR = {"f32": "float", "f64": "double"}
_ZERO = "0x" + "0" * 16
STREAM_METADATA = "!0 = !{i32 1}\n"
"""Metadata that `IRWriter.stream` refers to; a module needs it once."""


@dataclass(frozen=True, slots=True)
class VectorType:
    """A vector of `lanes` elements, or the plain scalar for one lane."""

    dtype: str
    lanes: int

    @property
    def scalar(self) -> str:
        """LLVM's name of the element type."""
        return _SCALAR[self.dtype]

    @property
    def text(self) -> str:
        """LLVM's name of the type."""
        return self.scalar if self.lanes == 1 else f"<{self.lanes} x {self.scalar}>"

    @property
    def suffix(self) -> str:
        """The suffix of overloaded intrinsics."""
        return self.dtype if self.lanes == 1 else f"v{self.lanes}{self.dtype}"

    @property
    def item_bytes(self) -> int:
        """Bytes of an element."""
        return ITEM_BYTES[self.dtype]

    def constant(self, value: float) -> str:
        """A constant with the same value in all lanes, as exact bits."""
        rounded = struct.unpack("f", struct.pack("f", value))[0] if self.dtype == "f32" else value
        bits = f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
        if self.lanes == 1:
            return bits
        if bits == _ZERO:
            return "zeroinitializer"
        return "<" + ", ".join([f"{self.scalar} {bits}"] * self.lanes) + ">"


Carried = list[tuple[str, str]]
"""Values that a loop carries from one iteration to the next, as (type, value)."""


class IRWriter:
    """One function body under construction. Blocks are opened in program order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._counter = 0
        self.block = "entry"

    def name(self, prefix: str = "v") -> str:
        """A new local name, without the percent sign."""
        self._counter += 1
        return f"{prefix}{self._counter}"

    def value(self, text: str) -> str:
        """Emit an instruction with a result, and return the name of the result."""
        self._counter += 1
        result = f"%v{self._counter}"
        self.lines.append(f"  {result} = {text}")
        return result

    def emit(self, text: str) -> None:
        """Emit an instruction without a result."""
        self.lines.append(f"  {text}")

    def open_block(self, label: str) -> None:
        """Start a basic block."""
        self.lines.append(f"{label}:")
        self.block = label

    def call(
        self, vector: VectorType, intrinsic: str, arguments: Sequence[str], flags: str = ""
    ) -> str:
        """Call an elementwise intrinsic on values of one type, under LLVM's fast-math `flags`."""
        name = f"@llvm.{intrinsic}.{vector.suffix}"
        types = ", ".join([vector.text] * len(arguments))
        self.declarations.add(f"declare {vector.text} {name}({types})")
        given = ", ".join(f"{vector.text} {argument}" for argument in arguments)
        call = f"call {flags}" if flags else "call"
        return self.value(f"{call} {vector.text} {name}({given})")

    def advance(self, pointer: str, bytes_: int | str) -> str:
        """A pointer plus a number of bytes, which is an int or the name of an i64 value."""
        if bytes_ in (0, "0"):
            return pointer
        return self.value(f"getelementptr i8, ptr {pointer}, i64 {bytes_}")

    def load(self, vector: VectorType, pointer: str, mask: str | None = None) -> str:
        """Load a vector; masked-off lanes are zero and their memory is not accessed."""
        if mask is None:
            return self.value(f"load {vector.text}, ptr {pointer}, align {vector.item_bytes}")
        name = f"@llvm.masked.load.{vector.suffix}.p0"
        lanes = f"<{vector.lanes} x i1>"
        self.declarations.add(f"declare {vector.text} {name}(ptr, i32, {lanes}, {vector.text})")
        return self.value(
            f"call {vector.text} {name}(ptr {pointer}, i32 {vector.item_bytes}, "
            f"{lanes} {mask}, {vector.text} zeroinitializer)"
        )

    def store(self, vector: VectorType, value: str, pointer: str, mask: str | None = None) -> None:
        """Store a vector; masked-off lanes are not written."""
        if mask is None:
            self.emit(f"store {vector.text} {value}, ptr {pointer}, align {vector.item_bytes}")
            return
        name = f"@llvm.masked.store.{vector.suffix}.p0"
        lanes = f"<{vector.lanes} x i1>"
        self.declarations.add(f"declare void {name}({vector.text}, ptr, i32, {lanes})")
        self.emit(
            f"call void {name}({vector.text} {value}, ptr {pointer}, "
            f"i32 {vector.item_bytes}, {lanes} {mask})"
        )

    def stream(self, vector: VectorType, value: str, pointer: str, alignment: int) -> None:
        """Store a vector without caching it, in pieces if it is not aligned to its size.

        A module with such stores must contain `STREAM_METADATA`. The stores are not ordered: a
        fence must follow before other threads read them.
        """
        self.emit(f"store {vector.text} {value}, ptr {pointer}, align {alignment}, !nontemporal !0")

    def broadcast(self, vector: VectorType, pointer: str) -> str:
        """Load an element into all lanes."""
        element = self.value(f"load {vector.scalar}, ptr {pointer}, align {vector.item_bytes}")
        return element if vector.lanes == 1 else self.splat(vector, element)

    def splat(self, vector: VectorType, element: str) -> str:
        """Copy a scalar into all lanes."""
        return self.splat_text(vector.text, vector.scalar, element, vector.lanes)

    def splat_text(self, vector: str, scalar: str, element: str, lanes: int) -> str:
        """Like `splat`, for types given by LLVM's names."""
        first = self.value(f"insertelement {vector} poison, {scalar} {element}, i64 0")
        return self.value(
            f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer"
        )

    def shuffle(self, vector: VectorType, pair: tuple[str, str], lanes: Sequence[int]) -> str:
        """A vector of selected lanes of two vectors, whose lanes are numbered consecutively."""
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.value(
            f"shufflevector {vector.text} {pair[0]}, {vector.text} {pair[1]}, "
            f"<{len(lanes)} x i32> <{chosen}>"
        )

    def loop(
        self,
        rounds: int | str,
        carried: Carried,
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A loop of at least one iteration; `body(index, values)` returns the next values."""
        if rounds == 1:
            return body("0", [value for _, value in carried])
        head, after, before = self.name("loop"), self.name("after"), self.block
        self.emit(f"br label %{head}")
        self.open_block(head)
        counter, next_counter = f"%{self.name('i')}", f"%{self.name('i')}"
        phis = [f"%{self.name('c')}" for _ in carried]
        at = len(self.lines)
        results = body(counter, phis)
        self.emit(f"{next_counter} = add nuw nsw i64 {counter}, 1")
        again = self.value(f"icmp ult i64 {next_counter}, {rounds}")
        self.emit(f"br i1 {again}, label %{head}, label %{after}")
        last = self.block
        heads = [f"  {counter} = phi i64 [ 0, %{before} ], [ {next_counter}, %{last} ]"]
        for phi, (kind, start), result in zip(phis, carried, results, strict=True):
            heads.append(f"  {phi} = phi {kind} [ {start}, %{before} ], [ {result}, %{last} ]")
        self.lines[at:at] = heads
        self.open_block(after)
        return results

    def loop_or_skip(
        self,
        rounds: str,
        carried: Carried,
        body: Callable[[str, list[str]], list[str]],
    ) -> list[str]:
        """A counted loop that may have no iterations."""
        before, run, join = self.block, self.name("run"), self.name("join")
        some = self.value(f"icmp ne i64 {rounds}, 0")
        self.emit(f"br i1 {some}, label %{run}, label %{join}")
        self.open_block(run)
        results = self.loop(rounds, carried, body)
        ran = self.block
        self.emit(f"br label %{join}")
        self.open_block(join)
        return [
            self.value(f"phi {kind} [ {start}, %{before} ], [ {result}, %{ran} ]")
            for (kind, start), result in zip(carried, results, strict=True)
        ]

    def when(self, condition: str, body: Callable[[], None]) -> None:
        """Run the body only if an i1 value is true."""
        then, after = self.name("then"), self.name("after")
        self.emit(f"br i1 {condition}, label %{then}, label %{after}")
        self.open_block(then)
        body()
        self.emit(f"br label %{after}")
        self.open_block(after)


def constant_mask(lanes: int, active: int) -> str | None:
    """A mask of the first `active` lanes; None if all lanes are active."""
    if active == lanes:
        return None
    return "<" + ", ".join(f"i1 {str(lane < active).lower()}" for lane in range(lanes)) + ">"


def function(
    writer: IRWriter, signature: str, vector_bits: int, *, linkage: str = "", attributes: str = ""
) -> str:
    """The text of a function with a finished body, which must end with ``ret``."""
    # Without these two LLVM splits 512-bit vectors on CPUs that it thinks prefer 256 bits.
    width = f'"prefer-vector-width"="{vector_bits}" "min-legal-vector-width"="{vector_bits}"'
    body = "\n".join(writer.lines)
    return f"define {linkage} {signature} nounwind {attributes} {width} {{\nentry:\n{body}\n}}\n"
