"""A device for people and for machines."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from skipjack.core.device import Device, Peaks
from skipjack.execute.peaks import peaks_to_json
from skipjack.report import screen
from skipjack.report.numbers import size_text


def device_record(device: Device, peaks: Peaks) -> dict[str, Any]:
    """One flat record; `num_cu` is the number of units, as GPU tools call it."""
    return {
        "format": 1,
        "name": device.name,
        "kind": device.kind,
        "arch": device.arch,
        "num_cu": device.units,
        "model": device.model,
        "cores": device.cores,
        "vector_bytes": device.vector_bytes,
        "caches": dict(device.caches),
        "memory_bytes": device.memory_bytes,
        "features": list(device.features),
        "compat_key": device.compat_key,
        "class_key": device.class_key,
        "instance_key": device.instance_key,
        "peaks": peaks_to_json(peaks),
    }


def print_device(device: Device, peaks: Peaks) -> None:
    """What it is and what one core reached."""
    caches = ", ".join(f"{level} {size_text(size)}" for level, size in device.caches)
    lines = [
        ("device", f"{device.name} ({device.model})"),
        ("cores", f"{device.cores} usable, vectors of {device.vector_bytes} bytes"),
        ("caches", caches or "unknown"),
        ("memory", size_text(device.memory_bytes)),
        ("compat key", device.compat_key),
        ("class key", device.class_key),
        ("instance key", device.instance_key),
    ]
    lines += [
        (f"peak {dtype}", f"{rate / 1e9:.1f} GFLOP/s on one core")
        for dtype, rate in peaks.flops_per_s
    ]
    reading = dict(peaks.read_bytes_per_s)
    lines += [
        (
            f"in {size_text(size)}",
            f"{rate / 1e9:.1f} GB/s two reads and a write, {reading[size] / 1e9:.1f} reads alone",
        )
        for size, rate in peaks.bytes_per_s
    ]
    lines.append(("noise", f"{100 * peaks.noise:.2f} % (spread of the sentinel kernel)"))
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        screen.out().print(Text(f"{name:>{width}}  {value}"))
