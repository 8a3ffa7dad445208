"""What this machine is called in base configs: ``A10x1``, ``A100-PCIex8``, or its CPU."""

from __future__ import annotations

import re
from collections import Counter

from skipjack.sweep.heat.gpu_sensors import printed_by

_QUERY = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
_WAIT_S = 30.0
"""What a machine is must be known: a driver that wakes up many GPUs takes its time."""
_PREFIXES = ("NVIDIA", "Tesla", "Quadro", "GeForce", "AMD", "Instinct")


def detect_system_id() -> str:
    """The GPUs of this machine with their number, otherwise its CPU with its cores."""
    return gpu_system_id(gpu_names()) or _cpu_system_id()


def gpu_system_id(names: list[str]) -> str:
    """``["NVIDIA A10", "NVIDIA A10"]`` is ``A10x2``; empty if there are none.

    Different models are listed in turn, as ``A10x1+T4x2``.
    """
    counts = Counter(map(_short_name, names))
    return "+".join(f"{name}x{count}" for name, count in counts.items())


def _short_name(name: str) -> str:
    words = [word for word in re.split(r"[\s_]+", name.strip()) if word not in _PREFIXES]
    return "-".join(words) or "GPU"


def gpu_names() -> list[str]:
    """The models of the GPUs that NVIDIA's tool finds here."""
    return [line for line in (printed_by(_QUERY, _WAIT_S) or "").splitlines() if line.strip()]


def _cpu_system_id() -> str:
    from skipjack.native.cpu import detect

    device = detect()
    model = re.sub(r"[^A-Za-z0-9.]+", "-", device.model or device.arch).strip("-")
    return f"{model}x{device.cores}"
