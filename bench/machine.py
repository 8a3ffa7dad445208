"""What a result file says about where it came from, and one thread for every library."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from skipjack.core.device import Device
from skipjack.native import llvm

FORMAT = 1
RESULTS = Path(__file__).resolve().parent / "results"

_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def one_thread() -> None:
    """Start this program over if a library might use more threads: they read this when loaded."""
    if any(os.environ.get(name) != value for name, value in _ONE_THREAD.items()):
        os.environ.update(_ONE_THREAD)
        os.execv(sys.executable, sys.orig_argv)


def header(name: str, device: Device, core: int) -> dict[str, Any]:
    """The facts that every result file begins with."""
    now = datetime.datetime.now(datetime.UTC)
    return {
        "format": FORMAT,
        "name": name,
        "date": now.isoformat(timespec="seconds"),
        "device": {
            "name": device.name,
            "model": device.model,
            "cores": device.cores,
            "core_used": core,
            "vector_bytes": device.vector_bytes,
            "caches": dict(device.caches),
        },
        "versions": versions(),
    }


def versions() -> dict[str, str | None]:
    """Of everything that takes part; None for what is not installed."""
    return {
        "python": platform.python_version(),
        "llvm": llvm.compiler_version(),
        **{name: _version(name) for name in ("skipjack", "llvmlite", "numpy", "mkl")},
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
    """Keep a result as JSON that a person can read and a diff can show."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written to {os.path.relpath(path)}")
