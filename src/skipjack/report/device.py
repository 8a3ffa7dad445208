"""A device for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from skipjack.core.device import Device, Peaks
from skipjack.execute.peaks import peaks_to_json
from skipjack.gpu.opening import Found
from skipjack.native import named_cpu
from skipjack.report import screen
from skipjack.report.numbers import size_text


def device_record(device: Device, peaks: Peaks, gpus: Sequence[Found] = ()) -> dict[str, Any]:
    """The CPU's record with its peaks, and in it those of the GPUs beside it."""
    return {
        "format": 1,
        **_record(device),
        "absent_features": list(named_cpu.absent_features(device)),
        "peaks": peaks_to_json(peaks),
        "gpus": [_gpu_record(one) for one in gpus],
    }


def _gpu_record(found: Found) -> dict[str, Any]:
    driver, index, device = found
    version = ".".join(map(str, driver.version()))
    return {**_record(device), "gpu": f"{driver.name}:{index}", "driver": version}


def _record(device: Device) -> dict[str, Any]:
    """Flat; `num_cu` is the number of units, as GPU tools call it."""
    return {
        "name": device.name,
        "kind": device.kind,
        "arch": device.arch,
        "num_cu": device.units,
        "model": device.model,
        "cores": device.cores,
        "vector_bytes": device.vector_bytes,
        "caches": dict(device.caches),
        "memory_bytes": device.memory_bytes,
        "level": device.level,
        "features": list(device.features),
        "compat_key": device.compat_key,
        "class_key": device.class_key,
        "instance_key": device.instance_key,
    }


def print_device(device: Device, peaks: Peaks, gpus: Sequence[Found] = ()) -> None:
    """What it is and what one core reached, then each GPU."""
    cores = f"{device.cores} usable, vectors of {device.vector_bytes} bytes"
    lines = [
        *_lines("device", device, ("cores", cores)),
        ("level", named_cpu.level_text(device)),
        *_peak_lines(peaks),
    ]
    for driver, index, gpu in gpus:
        version = ".".join(map(str, driver.version()))
        place = ("as", f"{driver.name}:{index}, driver of {driver.name.upper()} {version}")
        lines += [("", ""), *_lines("GPU", gpu, place)]
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        screen.out().print(Text(f"{name:>{width}}  {value}".rstrip()))


def _lines(what: str, device: Device, place: tuple[str, str]) -> list[tuple[str, str]]:
    caches = ", ".join(f"{level} {size_text(size)}" for level, size in device.caches)
    return [
        (what, f"{device.name} ({device.model})"),
        place,
        ("caches", caches or "unknown"),
        ("memory", size_text(device.memory_bytes)),
        ("compat key", device.compat_key),
        ("class key", device.class_key),
        ("instance key", device.instance_key),
    ]


def _peak_lines(peaks: Peaks) -> list[tuple[str, str]]:
    lines = [
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
    return lines
