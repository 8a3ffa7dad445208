"""The peaks of a core: arithmetic by dtype, bandwidth by footprint, and its noise.

They are measured once for a device on a host, kept in a file, and measured again when the device or
the measurement changes.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from skipjack.core import Device, Peaks
from skipjack.errors import MalformedError
from skipjack.execute.cpu.kernels import NativeKernel
from skipjack.native import (
    ITEM_BYTES,
    SENTINEL_ROUNDS,
    NativeTimer,
    VectorType,
    aligned,
    arithmetic_flops,
    arithmetic_kernel,
    llvm,
    read_kernel,
    stream_kernel,
)
from skipjack.reading import Field, read_json
from skipjack.storage import FileLock, atomic_write

if TYPE_CHECKING:
    from skipjack.execute.session import RunSession


log = logging.getLogger(__name__)

FILE_NAME = "devices.json"
FORMAT = 1
VERSION = 3
"""The version of the measurement, increased when it changes."""
_LARGEST = 256 << 20


def footprints(device: Device) -> list[int]:
    """Sizes of arrays: half of each cache; parts of the last and all of it; then memory."""
    sizes = [size // 2 for _, size in device.caches]
    last = max((size for _, size in device.caches), default=8 << 20)
    return sorted({*sizes, last // 4, last * 3 // 8, last, min(4 * last, _LARGEST)})


def measure(device: Device, target: str, loader: llvm.Loader, timer: NativeTimer) -> Peaks:
    """Measure in a run worker, on the core that it is pinned to."""
    flops = []
    noise = 0.0
    for dtype, item in ITEM_BYTES.items():
        vector = VectorType(dtype, device.vector_bytes // item)
        code = llvm.compile_object(arithmetic_kernel(vector, SENTINEL_ROUNDS), target)
        out = {"out": aligned((8192,), "float64")}
        kernel = NativeKernel(loader.load(code, "kernel"), ["out"], out, timer)
        kernel.sample(1, 400)
        times = kernel.sample(4, 200)
        low, middle, high = np.percentile(times, [25, 50, 75])
        noise = max(noise, float((high - low) / middle))
        work = arithmetic_flops(vector, SENTINEL_ROUNDS)
        flops.append((dtype, work / float(np.percentile(times, 5)) * 1e9))
    vector = VectorType("f32", device.vector_bytes // 4)
    mixed, reading = [], []
    # Several loops, since which one is fastest depends on the core and on where the data is.
    probes = [
        _Probe(VectorType("f32", lanes), copies, target, loader, timer)
        for lanes in (device.vector_bytes // 4, max(4, device.vector_bytes // 8))
        for copies in (1, 2, 8)
    ]
    for size in footprints(device):
        mixed.append((size, max(probe.mixed(size) for probe in probes)))
        reading.append((size, max(probe.reading(size) for probe in probes)))
    return Peaks(tuple(flops), tuple(mixed), tuple(reading), noise)


class _Probe:
    """Loops that measure bandwidth with vectors of one width, several in an iteration."""

    def __init__(
        self,
        vector: VectorType,
        copies: int,
        target: str,
        loader: llvm.Loader,
        timer: NativeTimer,
    ) -> None:
        self._step, self._timer = copies * vector.lanes, timer
        self._stream, self._read = (
            loader.load(llvm.compile_object(text, target), "kernel")
            for text in (stream_kernel(vector, copies), read_kernel(vector, copies))
        )

    def mixed(self, footprint: int) -> float:
        """Bytes per second of two reads and a write over arrays that fill the footprint."""
        step = self._step
        rounds = max(1, footprint // 3 // 4 // step)
        arrays = {name: _ones(rounds * step) for name in ("x", "y", "out")}
        kernel = NativeKernel(self._stream, ["x", "y", "out", rounds], arrays, self._timer)
        return _rate(kernel, 3 * 4 * rounds * step)

    def reading(self, footprint: int) -> float:
        """Bytes per second of reading an array that fills the footprint."""
        step = self._step
        rounds = max(1, footprint // 4 // step)
        arrays = {"x": _ones(rounds * step), "out": _ones(step)}
        kernel = NativeKernel(self._read, ["x", "out", rounds], arrays, self._timer)
        return _rate(kernel, 4 * rounds * step)


def _ones(size: int) -> npt.NDArray[Any]:
    array = aligned((size,), "float32")
    array.fill(1.0)
    return array


def _rate(kernel: NativeKernel, moved: int) -> float:
    calls = max(1, (1 << 21) // moved)
    kernel.sample(calls, 3)
    times = kernel.sample(calls, 30 if moved < (8 << 20) else 8)
    return moved / float(np.percentile(times, 10)) * 1e9


def peaks_of(session: RunSession, device: Device, directory: Path, *, again: bool = False) -> Peaks:
    """The peaks from the file, or measured now and written to it."""
    path = directory / FILE_NAME
    known = None if again else read_peaks(device, directory)
    if known:
        return known
    log.info("measuring the peaks of %s", device.name)
    measured = peaks_from_json(Field(session.measure_peaks(device), f"peaks of {device.name}"))
    with FileLock(path.with_suffix(".lock")):
        records: dict[str, Any] = {}
        with suppress(MalformedError):  # `read_peaks` has warned already
            records = _read(path).mapping()
        records[device.instance_key] = {"version": VERSION, "peaks": peaks_to_json(measured)}
        text = json.dumps({"format": FORMAT, "devices": records}, sort_keys=True, indent=1)
        atomic_write(path, text.encode())
    return measured


def read_peaks(device: Device, directory: Path) -> Peaks | None:
    """The peaks from the file; None if it has none that are valid.

    The file is a cache: if it is damaged, there is a warning, and the peaks are measured again.
    """
    try:
        record = _read(directory / FILE_NAME).get(device.instance_key)
        if record is None or record["version"].plain != VERSION:
            return None
        return peaks_from_json(record["peaks"])
    except MalformedError as error:
        log.warning("%s; the peaks of %s will be measured again", error, device.name)
        return None


def _read(path: Path) -> Field:
    """The records by the keys of devices; empty if there is no file or it has another format."""
    try:
        content = read_json(path.read_bytes(), str(path))
    except OSError:
        return Field({})
    return content["devices"] if content["format"].plain == FORMAT else Field({})


def peaks_to_json(peaks: Peaks) -> dict[str, Any]:
    """The peaks as lists and numbers."""
    return {
        "flops_per_s": [list(pair) for pair in peaks.flops_per_s],
        "bytes_per_s": [list(pair) for pair in peaks.bytes_per_s],
        "read_bytes_per_s": [list(pair) for pair in peaks.read_bytes_per_s],
        "noise": peaks.noise,
    }


def peaks_from_json(said: Field) -> Peaks:
    """The inverse of `peaks_to_json`; `MalformedError` if the value is not of that form."""
    flops = (pair.elements(2) for pair in said["flops_per_s"].elements())
    return Peaks(
        tuple((dtype.text(), rate.number(least=0.0)) for dtype, rate in flops),
        _rates(said["bytes_per_s"]),
        _rates(said["read_bytes_per_s"]),
        said["noise"].number(least=0.0),
    )


def _rates(said: Field) -> tuple[tuple[int, float], ...]:
    """Bandwidths by footprint; the footprints must ascend, for interpolation."""
    pairs = [pair.elements(2) for pair in said.elements()]
    points = tuple((size.integer(1), rate.number(least=0.0)) for size, rate in pairs)
    if any(first >= second for (first, _), (second, _) in pairwise(points)):
        raise said.malformed("the footprints are not in ascending order")
    return points
