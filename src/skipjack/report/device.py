"""A device as text and as a JSON record."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skipjack.core import Device, Peaks
from skipjack.gpu import FoundGpu
from skipjack.native import named_cpu
from skipjack.report import screen
from skipjack.report.numbers import rate_text, size_text


def device_record(device: Device, peaks: Peaks, gpus: Sequence[FoundGpu] = ()) -> dict[str, Any]:
    """The CPU's record with its peaks, which contains the records of GPUs."""
    return {
        **_record(device),
        "absent_features": list(named_cpu.absent_features(device)),
        "peaks": _peaks_record(peaks),
        "gpus": [_gpu_record(one) for one in gpus],
    }


def _peaks_record(peaks: Peaks) -> dict[str, Any]:
    """Rates by dtype, and by footprint in bytes."""
    return {
        "flops_per_s": dict(peaks.flops_per_s),
        "bytes_per_s": [_point(*pair) for pair in peaks.bytes_per_s],
        "read_bytes_per_s": [_point(*pair) for pair in peaks.read_bytes_per_s],
        "noise": peaks.noise,
    }


def _point(footprint: int, rate: float) -> dict[str, float]:
    return {"footprint_bytes": footprint, "rate": rate}


def _gpu_record(found: FoundGpu) -> dict[str, Any]:
    driver, index, device = found
    version = ".".join(map(str, driver.version()))
    return {**_record(device), "gpu": f"{driver.name}:{index}", "driver": version}


def _record(device: Device) -> dict[str, Any]:
    """A flat record, with the same field names as in other commands."""
    return {
        "device": device.name,
        "device_class": device.class_key,
        "device_instance": device.instance_key,
        "kind": device.kind,
        "arch": device.arch,
        "units": device.units,
        "model": device.model,
        "cores": device.cores,
        "vector_bytes": device.vector_bytes,
        "caches": dict(device.caches),
        "memory_bytes": device.memory_bytes,
        "level": device.level,
        "features": list(device.features),
        "compat": device.compat_key,
    }


def print_device(device: Device, peaks: Peaks, gpus: Sequence[FoundGpu] = ()) -> None:
    """Print the CPU with the peaks of one core, then each GPU."""
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
    screen.print_fields(lines)


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
        (f"peak {dtype}", f"{rate_text(rate / 1e9, 'GFLOP/s')} on one core")
        for dtype, rate in peaks.flops_per_s
    ]
    reading = dict(peaks.read_bytes_per_s)
    lines += [
        (
            f"in {size_text(size)}",
            f"{rate_text(rate / 1e9, 'GB/s')} two reads and a write, "
            f"{rate_text(reading[size] / 1e9, 'GB/s')} reads alone",
        )
        for size, rate in peaks.bytes_per_s
    ]
    lines.append(("noise", f"{100 * peaks.noise:.2f} % (spread of the sentinel kernel)"))
    return lines
