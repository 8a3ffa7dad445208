"""The door to LLVM: compile, load, unload, and refuse."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from skipjack.native import llvm
from skipjack.native.cpu import detect, target_of

TARGET = target_of(detect())


def store(number: int) -> str:
    """A module whose kernel writes a number through its first slot, by way of a private name."""
    return f"""
define internal void @inner(ptr %at) noinline {{
  store i64 {number}, ptr %at
  ret void
}}
define void @kernel(ptr %slots) {{
  %at = load ptr, ptr %slots
  call void @inner(ptr %at)
  ret void
}}
"""


def run(address: int) -> int:
    out = np.zeros(1, np.int64)
    slots = (ctypes.c_void_p * 1)(out.ctypes.data)
    llvm.native(address, ctypes.c_void_p)(slots)
    return int(out[0])


def test_many_objects_with_the_same_names_live_side_by_side() -> None:
    loader = llvm.Loader()
    addresses = [
        loader.load(llvm.compile_object(store(number), TARGET), "kernel") for number in range(5)
    ]
    assert [run(address) for address in addresses] == list(range(5))
    loader.unload(addresses[0])
    assert [run(address) for address in addresses[1:]] == [1, 2, 3, 4]
    loader.close()


def test_the_same_text_gives_the_same_bytes() -> None:
    assert llvm.compile_object(store(1), TARGET) == llvm.compile_object(store(1), TARGET)
    assert llvm.compile_object(store(1), TARGET) != llvm.compile_object(store(2), TARGET)


@pytest.mark.parametrize("text", ["nonsense", "define void @kernel() {\n  ret i64 1\n}\n"])
def test_a_broken_module_is_refused(text: str) -> None:
    with pytest.raises(llvm.CompileError, match="LLVM refused"):
        llvm.compile_object(text, TARGET)


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(llvm.CompileError):
        llvm.compile_object(store(1), "pdp11-dec-unix|pdp11|")


def test_assembly_is_for_people() -> None:
    assert "kernel:" in llvm.assembly(store(1), "x86_64-unknown-linux-gnu|haswell|")


def test_builds_record_the_compiler_and_its_options() -> None:
    version = llvm.compiler_version()
    assert version.startswith("llvm-")
    assert "-disable-lsr" in version


def test_importing_skipjack_does_not_load_llvm() -> None:
    script = "import sys, skipjack, skipjack.native.llvm; print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n"
