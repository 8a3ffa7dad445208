"""What this machine is called in base configs: ``A10x1``, ``A100-PCIex8``, or its CPU."""

from __future__ import annotations

import logging
import re
import subprocess

_log = logging.getLogger(__name__)

_QUERY = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
_WAIT_S = 30
_PREFIXES = ("NVIDIA", "Tesla", "Quadro", "GeForce", "AMD", "Instinct")


def detect_system_id() -> str:
    """The GPUs of this machine with their number, otherwise its CPU with its cores."""
    return gpu_system_id(gpu_names()) or _cpu_system_id()


def gpu_system_id(names: list[str]) -> str:
    """``["NVIDIA A10", "NVIDIA A10"]`` is ``A10x2``; empty if there are none.

    Different models are listed in turn, as ``A10x1+T4x2``.
    """
    counts: dict[str, int] = {}
    for name in names:
        short = _short_name(name)
        counts[short] = counts.get(short, 0) + 1
    return "+".join(f"{name}x{count}" for name, count in counts.items())


def _short_name(name: str) -> str:
    words = [word for word in re.split(r"[\s_]+", name.strip()) if word not in _PREFIXES]
    return "-".join(words) or "GPU"


def gpu_names() -> list[str]:
    """The models of the GPUs that NVIDIA's tool finds here."""
    try:
        done = subprocess.run(_QUERY, capture_output=True, text=True, timeout=_WAIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.debug("no GPU was found by nvidia-smi: %s", error)
        return []
    if done.returncode:
        return []
    return [line for line in done.stdout.splitlines() if line.strip()]


def _cpu_system_id() -> str:
    from skipjack.native.cpu import detect

    device = detect()
    model = re.sub(r"[^A-Za-z0-9.]+", "-", device.model or device.arch).strip("-")
    return f"{model}x{device.cores}"
