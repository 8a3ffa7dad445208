"""What we write ourselves, and others change, cut off and pass on."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from reader import Reader, as_json, of_bytes, of_file, these


@cache
def _device() -> Any:
    from skipjack.core import Device

    return Device(
        "cpu", "znver4", 1, "AMD EPYC", ("avx2", "fma"), 4, 32, (("L1", 32768), ("L2", 1 << 20))
    )


def _peaks(path: Path) -> object:
    from skipjack.execute.cpu import read_peaks

    peaks = read_peaks(_device(), path.parent)
    return peaks and (peaks.flops("f32"), peaks.bandwidth(4096))


def _peaks_seeds() -> Sequence[bytes]:
    from skipjack.core import Peaks
    from skipjack.execute.cpu import peaks_to_json
    from skipjack.execute.cpu.peaks import VERSION

    peaks = Peaks((("f32", 1e11), ("f64", 5e10)), ((16384, 1e11), (1 << 20, 5e10)), (), 0.01)
    record = {"version": VERSION, "peaks": peaks_to_json(peaks)}
    return as_json({"format": 1, "devices": {_device().instance_key: record}})()


def _device_record(data: bytes) -> object:
    from skipjack.core import Device
    from skipjack.reading import parse_json

    device = Device.from_record(parse_json(data))
    return device.class_key, device.compat_key


def _database(path: Path) -> object:
    from skipjack.interop.miopen import check_paths

    return check_paths([path])


def _converted(path: Path) -> object:
    from skipjack.interop.miopen import convert

    target = ".fdb.txt" if b'"find"' in path.read_bytes() else ".db.txt"
    return convert(path, path.with_name(f"out{target}"))


def _wire(data: bytes) -> object:
    from skipjack.execute import wire

    return wire.Decoder().feed(data)


def _frames() -> Sequence[bytes]:
    from skipjack.execute import wire

    return [wire.encode({"do": "load", "x": [1, 2.5]}, [b"ab", b""])]


def _gpu_artifact(data: bytes) -> object:
    from skipjack.gpu import unpack

    return unpack(data)


def _gpu_artifacts() -> Sequence[bytes]:
    from skipjack.gpu import Argument, GpuArtifact, KernelAbi, pack

    kernel = KernelAbi("k", "k_0", (Argument("*fp16", 16), Argument("i32")), 128)
    return [pack(GpuArtifact("sm_90", (kernel,), (b"binary",), "triton 3"))]


def _launch_plan(data: bytes) -> object:
    from skipjack.gpu import from_slots, scratch_sizes

    return scratch_sizes(from_slots(data.decode(errors="replace").split("\n")))


def _launch_plans() -> Sequence[bytes]:
    from skipjack.gpu import Descriptor, Fill, Number, Pointer, Scratch, launch, to_slots

    values = (Pointer("a", 4), Scratch("s", 64), Number("i32", 3), 1.5, "b")
    seen = Descriptor(Pointer("c"), (4, 8), (8, 1))
    steps = [launch("k", (4, 2), (*values, seen)), Fill(Scratch("s", 64), 64)]
    return ["\n".join(to_slots(steps)).encode()]


def _kernel_record(data: bytes) -> object:
    from skipjack.bank import KernelDb

    connection = sqlite3.connect(":memory:")
    try:
        connection.execute("CREATE TABLE kernels (problem, device, compat, artifact, record)")
        text = data.decode(errors="replace")
        connection.execute("INSERT INTO kernels VALUES ('p', 'd', 'c', 'a', ?)", (text,))
        database = KernelDb(connection, Path("k.skk"))
        record = database.find("p", "d", "c")
        assert record is not None
        return record.recommended, record.slots, list(database.records())
    finally:
        connection.close()


def _bank(path: Path) -> object:
    """All that is read can be compared and written again."""
    from skipjack.bank import Bank, BankEntry, stronger
    from skipjack.bank.content import laid_out

    entries = Bank(path).entries()
    sound = BankEntry.from_line(_bank_seeds()[0].splitlines()[0])
    return laid_out({entry.key: [stronger(entry, sound)] for entry in entries}, ())[0]


@cache
def _bank_seeds() -> Sequence[bytes]:
    from skipjack.bank import FIND, BankEntry, ReplacementReason, replacing

    gain = {"ratio": 1.5, "low": 1.4, "high": None, "pairs": 10}
    place = {"solver": "nest", "time_ns": 10.0, "status": "ok", "config": {"tile": 8}}
    more = {"spread": 0.01, "samples": 20, "behind": gain, "tie": True, "workspace_bytes": 64}
    ranking = [{**place, **more}, {"solver": "rows", "status": "crash", "reason": "x"}]
    common = ("add:8:f32", "cpu:a", "a/1", "nest", 1, {"tile": 8}, 10.0, 15.0, 15.0, "numpy")
    gains = {"default": gain, "vendor": gain}
    first = BankEntry(*common, gains, {"samples": 20, "ties": [{"tile": 4}]}, "t")
    replaced = {"ties": [], "replaced": replacing(first, ReplacementReason.SLOWER)}
    second = BankEntry(*common, gains, replaced, "t")
    found = BankEntry(*common, gains, {"ranking": ranking, "ties": ["rows"]}, "t", FIND)
    old = {**first.record(), "format": 1, "evidence": {"artifact": "a", "protocol": "p"}}
    for name in ("protocol", "toolchain", "output", "origin", "launch"):
        del old[name]
    lines = [*(one.line for one in (first, second, found)), json.dumps(old)]
    return ["".join(f"{line}\n" for line in lines).encode()]


def _dumped(data: bytes) -> object:
    from skipjack.runtime.dumps.problem import dumped_of

    one = dumped_of(data, "problem.json")
    return (one + one).text().encode(), one.time_ns


def _dump(data: bytes, directory: Path) -> object:
    """A folder of a dump, as `skipjack tune DIR` reads and sorts it."""
    from skipjack.runtime.dumps import most_valuable_first, read_dump
    from skipjack.settings import Settings

    folder = directory / "dump" / "one"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "problem.json").write_bytes(data)
    contents = read_dump(folder.parent)
    assert len(contents.problems) + len(contents.damaged) == 1
    assert all(said.isprintable() for said in contents.damaged)
    known = Settings(directory, system_dir=directory)
    return [one.saved_ns for one in most_valuable_first(contents, known)]


def _passed(path: Path) -> object:
    from skipjack.runtime.dumps import read_passed

    return [one + one for one in read_passed(path)]


_DEFAULT = {
    **{"source": "proposal", "solver": "nest", "solver_version": 1, "config": {"a": 1}},
    **{"library": "", "files": {"default.o": "ab"}, "compiler": "llvm", "compat": "cpu:x86-64-v3"},
    **{"symbol": "kernel", "abi": "slots-1", "slots": ["a", 1], "kernels": [], "reason": ""},
}
_DUMPED = {
    **{"format": 1, "problem": "matmul:8x8x8:f32", "device": "znver4/1", "device_class": "cpu:a"},
    **{"calls": 3, "timed_calls": 2, "default_ns": 5.5, "ops": ["aten::mm"], "driver": ""},
    **{"torch": "2.13.0", "default": _DEFAULT},
}
_PASSED = {"op": "aten::a", "description": "f32[4]", "device": "a/1", "reason": "", "calls": 2}


def _promotion(data: bytes, directory: Path) -> object:
    from skipjack.fleet.release.promote.history import MANIFEST, read_manifest

    (directory / MANIFEST).write_bytes(data)
    return [file.counts.total for file in read_manifest(directory).files]


def _export_manifest(data: bytes, directory: Path) -> object:
    from skipjack.fleet.release.export import FILE_NAME, read_manifest

    (directory / FILE_NAME).write_bytes(data)
    return read_manifest(directory).text()


def _cluster(data: bytes, directory: Path) -> object:
    from skipjack.fleet.machines import ClusterFile
    from skipjack.fleet.machines.cluster_record import RECORD
    from skipjack.settings import Settings

    (directory / RECORD).write_bytes(data)
    cluster = ClusterFile(Settings(directory)).read()
    return cluster and cluster.client_address


def _node(data: bytes, directory: Path) -> object:
    from skipjack.fleet.machines.node_start import read_record

    (directory / "node.json").write_bytes(data)
    node = read_record(directory)
    return node and node.what


def _watch_memory(path: Path) -> object:
    from skipjack.sweep.commands.sources import TrackedFiles, frequent

    memory = TrackedFiles.read(path)
    memory.write(path)
    return frequent(memory.changed, {"a"})


def _sweep_result(path: Path) -> object:
    from skipjack.report.sweep import read_json
    from skipjack.report.sweep.files import csv_text
    from skipjack.sweep.results import to_json

    result = read_json(path)
    return csv_text(result), to_json(result)


def _sweep_results() -> Sequence[bytes]:
    from skipjack.core import Config, Objective, Status
    from skipjack.sweep.engine import SweepResult, SweepTrial
    from skipjack.sweep.engine.result import Gain
    from skipjack.sweep.results import to_json

    trial = SweepTrial(1, Config(a=1), Status.OK, {"rate": 2.0, "x": "y"}, 2.0, seconds=1.0)
    failed = SweepTrial(2, Config(a=2), Status.TIMEOUT, {}, None, "slow")
    objectives = (Objective("rate", "max", ("x > 1",)),)
    result = SweepResult("s", objectives, (trial, failed), Config(a=1), 2.0, gain=Gain(1, 1, 1, 3))
    return as_json(to_json(result))()


_FIND_LINE = {
    **{"format": 1, "kind": "find", "problem": "conv2d:n1c64h56w56k64y3x3p1q1", "device": ""},
    **{"find_key": "64-56-56-3x3-64-56-56-1-1x1-1x1-1x1-0-NCHW-FP32-F", "toolchain": ""},
    **{"updated": "", "miopen": []},
    "ranking": [
        {
            "solver": "A",
            "time_ns": 1e5,
            "workspace_bytes": 0,
            "algorithm": "miopenConvolutionFwdAlgoDirect",
        }
    ],
}
_PERF_LINE = {
    **{"format": 1, "kind": "perf", "problem": "p", "device": "gfx90a/104", "toolchain": ""},
    **{"perf_key": "2x64x56x56x1x3x3x1x64x1x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"},
    **{"updated": "", "miopen": [], "configs": [{"solver": "A", "params": "1,2", "time_ns": 5.0}]},
}
_FIND_TEXT = (
    b"64-56-56-3x3-64-56-56-1-1x1-1x1-1x1-0-NCHW-FP32-F="
    b"A:0.01,0,miopenConvolutionFwdAlgoDirect;B:0.5,64,miopenConvolutionFwdAlgoGEMM\n"
)
_PERF_TEXT = b"2x64x56x56x1x3x3x1x64x1x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF=A:1,2;B:x,y\n"

_FIND_JSON = json.dumps(_FIND_LINE).encode() + b"\n"
_PERF_JSON = b"".join(json.dumps(_PERF_LINE | {"problem": p}).encode() + b"\n" for p in "pq")
_COUNTS = {"added": 1, "changed": 0, "unchanged": 0, "kept": 2, "dropped": 0}
_ORIGIN = {
    "label": "L",
    "owner": "",
    "versions": "",
    "image": "",
    "ticket": "",
    "toolchains": ["t"],
}

READERS = (
    Reader("devices.json", of_file("devices.json", _peaks), _peaks_seeds),
    Reader("device record", of_bytes(_device_record), lambda: as_json(asdict(_device()))()),
    Reader("find-db text", of_file("x.fdb.txt", _database), these(_FIND_TEXT), 500),
    Reader("perf-db text", of_file("x.db.txt", _database), these(_PERF_TEXT), 500),
    Reader(
        "JSON lines of a database",
        of_file("x.jsonl", _database),
        these(_FIND_JSON, _PERF_JSON),
        500,
    ),
    Reader(
        "JSON lines that are converted",
        of_file("x.jsonl", _converted),
        these(_FIND_JSON, _PERF_JSON),
        500,
    ),
    Reader("wire", of_bytes(_wire), _frames),
    Reader("GPU artifact", of_bytes(_gpu_artifact), _gpu_artifacts),
    Reader("launch plan", of_bytes(_launch_plan), _launch_plans),
    Reader(
        "record of a kernel file",
        of_bytes(_kernel_record),
        as_json(
            {
                **{"problem": "add:256", "device": "znver4/1", "compat": "c", "solver": "nest"},
                **{"solver_version": 1, "config": {"a": 1}, "artifact": "ab", "symbol": "kernel"},
                **{"abi": "x", "slots": ["a", 1], "time_ns": 5.0, "vendor": "numpy"},
                "vendor_ns": 6.0,
            }
        ),
    ),
    Reader(
        "manifest of a promotion",
        _promotion,
        as_json(
            {
                **{"format": 1, "number": 1, "label": "L", "phase": "done", "at": "", "user": "u"},
                **{"host": "h", "versions": {"skipjack": "1"}},
                "files": [{"name": "a.db", "after": "ab", "before": None, "counts": _COUNTS}],
            }
        ),
        500,
    ),
    Reader(
        "manifest of an export",
        _export_manifest,
        as_json(
            {
                **{"format": 1, "release": "r"},
                "files": [
                    {
                        **{"name": "a.db", "kind": "perf-db", "format": "miopen", "device": "d/1"},
                        **{"sha256": "ab", "bytes": 3, "counts": {"records": 1}, "alias_of": ""},
                        **{"origin": _ORIGIN, "skipjack": "1", "date": ""},
                    }
                ],
            }
        ),
        500,
    ),
    Reader(
        "record of a cluster",
        _cluster,
        as_json(
            {
                **{"format": 1, "head": "a", "id": "ab", "port": 6379, "client_port": 10001},
                **{"ip": "10.0.0.1", "image": "", "nodes": [{"name": "a", "host": "h"}]},
            }
        ),
        500,
    ),
    Reader(
        "record of a node",
        _node,
        as_json(
            {
                **{"format": 1, "id": "ab", "cluster": "c", "ip": "10.0.0.1", "temporary": "/t"},
                **{"pid": 12, "containers": ["x", "y"]},
            }
        ),
        500,
    ),
    Reader(
        "memory of a working directory",
        of_file("watch.json", _watch_memory),
        as_json(
            {
                **{"format": 1, "written": ["a", "b/"], "changed": {"a": [1, 2]}, "built": {}},
                **{"digests": {"s": "d"}, "newest_ns": 12, "state": "s"},
            }
        ),
        500,
    ),
    Reader("bank", of_file("bank.jsonl", _bank), _bank_seeds, 500),
    Reader("problem of a dump", of_bytes(_dumped), as_json(_DUMPED, {**_DUMPED, "default": None})),
    Reader("dump", _dump, as_json(_DUMPED), 500),
    Reader(
        "calls that were passed through",
        of_file("passed_through.json", _passed),
        as_json({"format": 1, "calls": [_PASSED, _PASSED]}),
        500,
    ),
    Reader("result of a sweep", of_file("sweep.json", _sweep_result), _sweep_results, 500),
)
