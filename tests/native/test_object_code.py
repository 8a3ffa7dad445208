"""Machine code tells its size, its spills and what it calls."""

from __future__ import annotations

import pytest

from skipjack.native import llvm, text_bytes, undefined_symbols, vector_spills

HASWELL = "x86_64-unknown-linux-gnu|x86-64-v3||haswell"
SKYLAKE = "x86_64-unknown-linux-gnu|x86-64-v4||skylake-avx512"
ARM = "aarch64-unknown-linux-gnu|aarch64||neoverse-n1"
MAC = "arm64-apple-macosx|aarch64||apple-m1"
CALLING = "declare void @elsewhere()\ndefine void @kernel() { call void @elsewhere() ret void }"


def sums(count: int, lanes: int) -> str:
    """Reads `count` vectors, then writes all of them plus one in the opposite order."""
    kind = f"<{lanes} x float>"
    size = 4 * lanes
    lines = ["define void @kernel(ptr %p, ptr %q) {"]
    for n in range(count):
        lines.append(f"  %a{n} = getelementptr i8, ptr %p, i64 {n * size}")
        lines.append(f"  %v{n} = load volatile {kind}, ptr %a{n}")
    for n in reversed(range(count)):
        lines.append(f"  %b{n} = getelementptr i8, ptr %q, i64 {n * size}")
        lines.append(f"  store volatile {kind} %v{n}, ptr %b{n}")
    return "\n".join([*lines, "  ret void", "}"])


@pytest.mark.parametrize(
    ("target", "lanes", "registers"), [(HASWELL, 8, 16), (SKYLAKE, 16, 32), (ARM, 4, 32)]
)
def test_spills_begin_where_registers_end(target: str, lanes: int, registers: int) -> None:
    assert vector_spills(sums(registers - 9, lanes), target) == 0
    few = vector_spills(sums(registers + 4, lanes), target)
    more = vector_spills(sums(registers + 8, lanes), target)
    assert few and more
    assert more == few + 4


def test_what_is_no_ir_has_no_count_of_spills() -> None:
    assert vector_spills("int main(void);", HASWELL) is None


@pytest.mark.parametrize("target", [HASWELL, ARM, MAC])
def test_more_code_is_larger(target: str) -> None:
    small, large = (llvm.compile_object(sums(count, 4), target) for count in (1, 9))
    assert 0 < text_bytes(small) < text_bytes(large) < len(large)


@pytest.mark.parametrize("target", [HASWELL, ARM])
def test_an_object_names_what_it_needs(target: str) -> None:
    assert undefined_symbols(llvm.compile_object(CALLING, target)) == ["elsewhere"]
    assert undefined_symbols(llvm.compile_object(sums(1, 4), target)) == []


def test_needs_of_other_formats_are_not_known() -> None:
    assert undefined_symbols(llvm.compile_object(CALLING, MAC)) is None
