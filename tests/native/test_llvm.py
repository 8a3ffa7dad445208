"""The door to LLVM: compile, load, unload, and refuse."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from processes import PATIENCE_S
from skipjack.core import features_of
from skipjack.native import detect, llvm, target_of

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
    llvm.c_function(address, ctypes.c_void_p)(slots)
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
        llvm.compile_object(store(1), "pdp11-dec-unix|x86-64||pdp11")


def test_assembly_is_for_people() -> None:
    assert "kernel:" in llvm.assembly(store(1), "x86_64-unknown-linux-gnu|x86-64-v3||haswell")


TEMPTING = """
declare <64 x i8> @llvm.bitreverse.v64i8(<64 x i8>)
declare <16 x i32> @llvm.ctpop.v16i32(<16 x i32>)
declare <16 x i32> @llvm.fshl.v16i32(<16 x i32>, <16 x i32>, <16 x i32>)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define void @kernel(ptr %p, ptr %q) {
  %bytes = load <64 x i8>, ptr %p
  %turned = call <64 x i8> @llvm.bitreverse.v64i8(<64 x i8> %bytes)
  store <64 x i8> %turned, ptr %p
  %words = load <16 x i32>, ptr %q
  %ones = call <16 x i32> @llvm.ctpop.v16i32(<16 x i32> %words)
  %both = call <16 x i32> @llvm.fshl.v16i32(<16 x i32> %ones, <16 x i32> %words, <16 x i32> %ones)
  %float = bitcast <16 x i32> %both to <16 x float>
  %sum = call <16 x float> @llvm.fma.v16f32(<16 x float> %float, <16 x float> %float,
                                            <16 x float> %float)
  store <16 x float> %sum, ptr %q
  ret void
}
"""
"""LLVM would use gf2p8affineqb, vpopcntd and vpshldvd here, which lie beyond every level."""
AVX512 = re.compile(r"zmm|%k[0-7]|[xy]mm(?:1[6-9]|[23]\d)")
BEYOND = re.compile(r"gf2p8|vpopcnt|vpshldv|vpdp|vpermb")


@pytest.mark.parametrize(
    ("level", "has", "lacks"),
    [
        ("x86-64-v4", "zmm", BEYOND),
        ("x86-64-v3", "vfmadd", re.compile(f"{AVX512.pattern}|{BEYOND.pattern}")),
        ("x86-64-v2", "xmm", re.compile(r"ymm|zmm|\bv[a-z]")),
        ("x86-64", "xmm", re.compile(r"ymm|zmm|\bv[a-z]|pshufb|popcnt")),
    ],
)
def test_the_level_decides_the_instructions_and_not_the_name(
    level: str, has: str, lacks: re.Pattern[str]
) -> None:
    listing = llvm.assembly(TEMPTING, f"x86_64-unknown-linux-gnu|{level}||znver4")
    code = "\n".join(line for line in listing.splitlines() if not line.lstrip().startswith("."))
    assert has in code
    assert not lacks.search(code)


def test_a_solver_gets_the_instructions_that_it_asked_for() -> None:
    listing = llvm.assembly(TEMPTING, "x86_64-unknown-linux-gnu|x86-64-v4|+gfni|znver4")
    assert "gf2p8" in listing
    assert "vpopcnt" not in listing


@pytest.mark.parametrize("flags", ["", "+avxvnni"])
def test_code_for_another_level_is_refused_in_a_sentence(
    flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    triple, name, _ = llvm.host()
    if not triple.startswith("x86_64"):
        pytest.skip("levels are those of x86-64")
    monkeypatch.setattr(llvm, "host", lambda: (triple, name, features_of("x86-64-v2")))
    loader = llvm.Loader()
    loader.load(llvm.compile_object(store(1), f"{triple}|x86-64-v2||{name}"), "kernel")
    data = llvm.compile_object(store(1), f"{triple}|x86-64-v3|{flags}|{name}")
    with pytest.raises(llvm.CannotRunError) as caught:
        loader.load(data, "kernel")
    assert f"machine code for {' '.join(('x86-64-v3', *filter(None, [flags])))} " in str(
        caught.value
    )
    assert "this CPU has x86-64-v2, without avx, avx2" in str(caught.value)


def test_code_that_says_nothing_of_its_needs_is_taken() -> None:
    assert llvm.needs_of(b"\x7fELF made by another compiler") is None
    data = llvm.compile_object(store(1), "x86_64-unknown-linux-gnu|x86-64-v4|+gfni|znver4")
    needs = llvm.needs_of(data)
    assert needs and (needs.level, needs.flags) == ("x86-64-v4", ("+gfni",))


def told(level: str) -> subprocess.CompletedProcess[str]:
    """What a new process says of the CPU if only this level may be used."""
    script = (
        "from skipjack.errors import UsageError\n"
        "from skipjack.native import cpu\n"
        "try:\n"
        "    device = cpu.detect()\n"
        "    print(device.arch, device.level, device.vector_bytes, cpu.target_of(device))\n"
        "except UsageError as error:\n"
        "    print('refused:', error)\n"
    )
    environment = {**os.environ, llvm.LEVEL_VARIABLE: level}
    return subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, env=environment
    )


def test_a_variable_lowers_what_is_used() -> None:
    triple, name, _ = llvm.host()
    if not triple.startswith("x86_64"):
        pytest.skip("levels are those of x86-64")
    assert told("x86-64").stdout == f"{name} x86-64 16 {triple}|x86-64||{name}\n"
    refused = told("x86-64-v9").stdout
    assert refused.startswith("refused: SKIPJACK_CPU_LEVEL is 'x86-64-v9'; this CPU has x86-64")


def test_builds_record_the_compiler_and_its_options() -> None:
    version = llvm.compiler_version()
    assert version.startswith("llvm-")
    assert "-disable-lsr" in version


def test_importing_skipjack_does_not_load_llvm() -> None:
    script = "import sys, skipjack, skipjack.native.llvm; print('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_process_forked_while_another_thread_compiles_can_compile() -> None:
    lock, held = llvm.binding().ffi.lib._lock, threading.Event()

    def compile_for_long() -> None:
        with lock:
            held.set()
            time.sleep(0.2)

    thread = threading.Thread(target=compile_for_long)
    thread.start()
    assert held.wait(PATIENCE_S)
    child = os.fork()
    if child == 0:
        signal.alarm(5)  # it would wait for a thread that it does not have
        llvm.binding().get_default_triple()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_process_forked_while_another_thread_loads_llvm_can_compile() -> None:
    script = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
from skipjack.native import llvm
begun = threading.Event()
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "llvmlite.binding":
            begun.set()
            threading.Event().wait(0.2)
sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=llvm.binding)
thread.start()
begun.wait()
child = os.fork()
signal.alarm(20)
if child == 0:
    llvm.host()
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
thread.join()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "0\n", done.stderr
