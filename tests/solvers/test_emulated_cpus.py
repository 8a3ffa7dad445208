"""Kernels on CPUs that are not here, in the emulator QEMU: detected, built, loaded and verified.

Each CPU is one emulated process, since a child of one would run on the real CPU.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import emulated_cpu
import pytest

from needs import lacking
from skipjack.core import features_of
from skipjack.native import llvm

QEMU = shutil.which("qemu-x86_64")


def run_on(cpu: str, script: str = emulated_cpu.__file__, *arguments: str) -> Any:
    """What a script prints on this CPU, as JSON."""
    if QEMU is None:
        lacking("QEMU", "qemu-x86_64 is not installed (Debian: qemu-user)")
    if not llvm.host()[0].startswith("x86_64"):
        pytest.skip("this Python is no program for x86-64")
    environment = {**os.environ, "QEMU_LOG_FILENAME": os.devnull}
    environment.pop(llvm.LEVEL_VARIABLE, None)
    # It may name kernels for the real CPU, which NumPy's OpenBLAS would run on the emulated one.
    environment.pop("OPENBLAS_CORETYPE", None)
    command = [QEMU, "-cpu", cpu, sys.executable, "-P", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("cpu", "arch", "level", "vector_bytes", "registers"),
    [
        # Named after AVX-512 and without it, as behind many a hypervisor.
        ("Skylake-Server-v1", "skylake-avx512", "x86-64-v3", 32, ["xmm", "ymm"]),
        pytest.param(
            *("Haswell-v1", "haswell", "x86-64-v3", 32, ["xmm", "ymm"]), marks=pytest.mark.long
        ),
        pytest.param(*("Nehalem-v1", "nehalem", "x86-64-v2", 16, ["xmm"]), marks=pytest.mark.long),
        pytest.param(
            *("EPYC-Milan-v1", "znver3", "x86-64-v3", 32, ["xmm", "ymm"]), marks=pytest.mark.long
        ),
    ],
)
def test_kernels_are_right_on_another_cpu(
    cpu: str, arch: str, level: str, vector_bytes: int, registers: list[str]
) -> None:
    told = run_on(cpu)
    assert (told["arch"], told["level"], told["vector_bytes"]) == (arch, level, vector_bytes)
    assert set(features_of(level)) <= set(told["features"])
    assert not [name for name in told["features"] if name.startswith("avx512")]
    assert told["registers"] == registers
    assert {key.partition(" ")[0] for key in told["verdicts"]} == set(emulated_cpu.KEYS)
    assert not {key: reason for key, reason in told["verdicts"].items() if reason}


def test_code_for_a_wider_cpu_is_refused_before_it_runs(tmp_path: Path) -> None:
    text = "define void @kernel(ptr %slots) {\n  ret void\n}\n"
    for level in ("x86-64-v2", "x86-64-v3"):
        code = llvm.compile_object(text, f"x86_64-unknown-linux-gnu|{level}||znver4")
        (tmp_path / f"{level}.o").write_bytes(code)
    script = tmp_path / "load.py"
    script.write_text(
        "import json, sys\n"
        "from pathlib import Path\n"
        "from skipjack.native import llvm\n"
        "told = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        llvm.Loader().load(Path(name).read_bytes(), 'kernel')\n"
        "        told[Path(name).stem] = ''\n"
        "    except llvm.CannotRunError as error:\n"
        "        told[Path(name).stem] = str(error)\n"
        "print(json.dumps(told))\n"
    )
    told = run_on("Nehalem-v1", str(script), *map(str, sorted(tmp_path.glob("*.o"))))
    assert told["x86-64-v2"] == ""
    assert told["x86-64-v3"].startswith("machine code for x86-64-v3 does not run here")
