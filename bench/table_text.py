"""What the tables of docs/performance.md have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Record = dict[str, Any]

_NAMES = {
    "numpy": "NumPy",
    "cblas": "OpenBLAS (C)",
    "mkl": "MKL",
    "torch": "PyTorch",
    "best_of_numpy_mkl": "the better of NumPy and MKL",
    "tvm": "TVM MetaSchedule",
    "default": "untuned default",
    "recipe": "one recipe for all shapes",
    "best_of_them": "the best library or peer of each shape",
}

_AVX2_BYTES = 32


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def where(result: Record) -> str:
    """The machine, the day and the versions of a result."""
    device, versions = result["device"], result["versions"]
    parts = [f"{name} {version}" for name, version in versions.items() if version]
    return (
        f"**{device['model']} (`{device['name']}`)**, {_cores(device)}, {_width(result)}"
        f"{result['date'][:10]}; {', '.join(parts)}."
    )


def is_held(result: Record) -> bool:
    """Whether we and the libraries were held to AVX2."""
    return "libraries" in result and result["device"].get("vector_bytes") == _AVX2_BYTES


def _width(result: Record) -> str:
    if not is_held(result):
        return ""
    said = ", ".join(f"{name} says {text}" for name, text in result["libraries"].items())
    return f"held to AVX2 ({said}), "


def name(contender: str) -> str:
    """What a reader calls it."""
    return _NAMES.get(contender, f"`{contender}`")


def _cores(device: Record) -> str:
    used = str(device["core_used"])
    if not used:
        return f"{device['cores']} core{'s' if device['cores'] != 1 else ''}"
    return f"{'cores' if ',' in used else 'core'} {used} of {device['cores']}"


def threads(result: Record) -> str:
    """A heading for the tables of one number of threads."""
    count = result["settings"]["threads"]
    return f"**{'One thread' if count == 1 else f'{count} threads'}**"


def mean(found: Record) -> str:
    """A geometric mean with its interval."""
    return f"{found['geomean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"
