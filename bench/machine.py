"""What a result file says about where it came from, and as many threads for libraries as for us."""

from __future__ import annotations

import argparse
import ctypes
import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from skipjack.core import Device
from skipjack.errors import SkipjackError
from skipjack.native import llvm, named_cpu

FORMAT = 1
_MANY = 100
RESULTS = Path(__file__).resolve().parent / "results"

_SPIN = {
    # A library's threads wait for the next call by spinning. Beside another contender they would
    # take half of its core, so they give up after less than a millisecond, as our own pool does;
    # `Stand` waits for that. Shorter would make every call of theirs pay for waking a thread.
    "OPENBLAS_THREAD_TIMEOUT": "20",
    "KMP_BLOCKTIME": "1",
    "GOMP_SPINCOUNT": "20000",
}
MEMORY = {
    # Where a library allocates its result, memory that it freed before is used again: a call that
    # takes fresh pages from the system each time would be timed for clearing them. The pages are
    # huge, as those of NumPy's arrays are.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


_HELD = {
    "x86-64-v3": {
        "OPENBLAS_CORETYPE": "Haswell",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
    },
}
"""By the level of the instruction set: what keeps libraries to it."""
_WIDER = ("AVX512", "X86_V4")
"""How NumPy's names of what AVX2 does not have begin."""
_NUMPY_CORE = "numpy._core._multiarray_umath"
_STARTED = "SKIPJACK_BENCH_THREADS"


def hold_to(text: str) -> str:
    """Keep us and the libraries to the instructions of a CPU, as ``haswell/1``; for argparse.

    They read it when they are loaded: `library_threads` starts this program over.
    """
    try:
        level = named_cpu.describe(text).level
    except SkipjackError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if level not in _HELD:
        known = ", ".join(_HELD)
        raise argparse.ArgumentTypeError(f"{text} has {level}; libraries can be held to {known}")
    numpy_core = import_module(_NUMPY_CORE)
    disabled = [name for name in numpy_core.__cpu_dispatch__ if name.startswith(_WIDER)]
    os.environ.update(_HELD[level] | {llvm.LEVEL_VARIABLE: level})
    os.environ["NPY_DISABLE_CPU_FEATURES"] = " ".join(disabled)
    return text


def not_held() -> tuple[str, ...]:
    """Libraries that use what instructions they like: MKL, on CPUs that are not Intel's."""
    held = llvm.LEVEL_VARIABLE in os.environ
    return () if not held or "GenuineIntel" in Path("/proc/cpuinfo").read_text() else ("mkl",)


def label(device: Device) -> str:
    """Of result files: the architecture, and the width of vectors where that is less than usual."""
    return f"{device.arch}_avx2" if device.vector_bytes == 32 else device.arch


def libraries() -> dict[str, str]:
    """What libraries say of the instructions that they use."""
    import numpy

    numpy_core = import_module(_NUMPY_CORE)
    used = [name for name in numpy_core.__cpu_dispatch__ if numpy_core.__cpu_features__.get(name)]
    found = {"numpy": " ".join(used) or "baseline"}
    for path in (Path(numpy.__file__).parents[1] / "numpy.libs").glob("*openblas*"):
        core = getattr(ctypes.CDLL(str(path)), "scipy_openblas_get_corename64_", None)
        if core is not None:
            core.restype = ctypes.c_char_p
            found["openblas"] = core().decode()
    if torch := sys.modules.get("torch"):
        found["torch"] = torch.backends.cpu.get_cpu_capability()
    return found


def library_threads(count: int) -> None:
    """Start this program over so that libraries use so many threads: they read it when loaded.

    Their threads must not spin for long, nor their memory go back to the system after each call.
    What concerns memory is for this process alone: workers place their arrays as they always do.
    """
    if os.environ.get(_STARTED) != str(count):
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", _STARTED)
        os.environ.update(dict.fromkeys(names, str(count)) | _SPIN | MEMORY)
        os.execv(sys.executable, sys.orig_argv)
    for name in (*MEMORY, _STARTED):
        os.environ.pop(name, None)


def now() -> str:
    """The moment, for records."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def header(name: str, device: Device, cores: Sequence[int]) -> dict[str, Any]:
    """The facts that every result file begins with."""
    return {
        "format": FORMAT,
        "name": name,
        "date": now(),
        "device": {
            "name": device.name,
            "model": device.model,
            "cores": device.cores,
            "core_used": ", ".join(map(str, cores)),
            "vector_bytes": device.vector_bytes,
            "level": device.level,
            "caches": dict(device.caches),
        },
        "versions": versions(),
        "libraries": libraries(),
    }


def versions() -> dict[str, str | None]:
    """Of everything that takes part; None for what is not installed."""
    return {
        "python": platform.python_version(),
        "llvm": llvm.compiler_version(),
        **{
            name: _version(name)
            for name in ("skipjack", "llvmlite", "numpy", "mkl", "torch", "triton")
        },
        "openblas": _openblas(),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _openblas() -> str | None:
    import numpy as np

    built: Any = np.show_config(mode="dicts")
    try:
        blas = built["Build Dependencies"]["blas"]
        return f"{blas['name']} {blas['version']}"
    except (KeyError, TypeError):
        return None


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Keep a result as JSON that a person can read and a diff can show; many cases a line each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cases = result.get("cases", [])
    many = len(cases) > _MANY
    text = json.dumps(result | {"cases": []} if many else result, indent=1)
    if many:
        lines = ",\n".join(f"  {json.dumps(case, separators=(',', ':'))}" for case in cases)
        text = text.replace('"cases": []', f'"cases": [\n{lines}\n ]')
    path.write_text(text + "\n", encoding="utf-8")
    print(f"written to {os.path.relpath(path)}")
