"""Does everything between an artifact and a measured time work on this GPU? One JSON says.

``--build FOLDER`` compiles the kernels, on any machine with Triton. On a machine with a GPU,
``--artifacts FOLDER`` verifies and times them beside the libraries, provokes faults, and goes on.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skipjack.core import gpu_protocol
from skipjack.execute import Failure, Loadable, RunSession, summarize
from skipjack.gpu import ABI, Argument, Descriptor, Launch, Pointer, Scratch, launch, to_slots
from skipjack.operations import get, parse
from skipjack.solvers.gpu.triton import KernelSpec

KERNELS = str(Path(__file__).with_name("gpu_smoke_kernels.py"))
BLOCK = 1024
TILE = (128, 256, 64)
SMALL, LARGE, SQUARE = "add:1048576", "add:67108864", "matmul:4096x4096x4096:f16"
ODD = "matmul:1000x1304x520:f16"
LIBRARY_PROBLEMS = (
    ("cublas", "matmul:4096x4096x4096:f16"),
    ("cublas", "matmul:4096x4096x4096:bf16"),
    ("cublas", "matmul:2048x2048x2048:tf32"),
    ("cublas", "matmul:2048x2048x2048:f32"),
    ("cublas", "matmul:2048x2048x2048/bias=1/act=gelu:f16"),
    ("cublas", "matmul:2048x2048x2048/tb=1:f8e4m3"),
    ("cublas", "bmm:16x1024x1024x64:f16"),
    ("cudnn", "conv2d:n32c128h56w56k128y3x3p1q1:f16:NHWC:fwd"),
    ("cudnn", "conv2d:n32c128h56w56k128y3x3p1q1:f16:NHWC:bwd"),
    ("cudnn", "conv2d:n32c128h56w56k128y3x3p1q1:f16:NHWC:wrw"),
    ("cudnn", "conv2d:n16c64h56w56k64y3x3p1q1:f32:NCHW:fwd"),
    ("aten", "softmax:4096x4096:f16"),
    ("aten", "layernorm:8192x4096:bf16"),
    ("aten", "rmsnorm:8192x4096:bf16"),
    ("aten", "sum:8192x8192/axis=1:f32"),
    ("aten", "gelu:67108864:f16"),
    ("aten", "batchnorm:n32c64h56w56:f32"),
)


@dataclass(frozen=True)
class Case:
    """A kernel, what it computes, and what must come of checking it."""

    name: str
    problem: str
    spec: KernelSpec
    step: Launch
    fate: str = "ok"


def _add(name: str, problem: str, how: int = 0, fate: str = "ok") -> Case:
    pointer = Argument("*fp32", 16)
    arguments = {"x": pointer, "y": pointer, "out": pointer, "n": Argument("i32", 16)}
    constants = {"BLOCK": BLOCK, "HOW": how}
    n = parse(problem).shape[0]
    spec = KernelSpec(name, KERNELS, "add", arguments, constants)
    return Case(name, problem, spec, launch(name, (-(-n // BLOCK),), ["x", "y", "out", n]), fate)


def _product(name: str, problem: str) -> Case:
    m, n, k = parse(problem).shape
    rows, columns, deep = TILE
    arguments = {
        "a": Argument(f"tensordesc<fp16[{rows}, {deep}]>"),
        "b": Argument(f"tensordesc<fp16[{deep}, {columns}]>"),
        "out": Argument("*fp16", 16),
        **{size: Argument("i32") for size in "mnk"},
    }
    constants = {"BM": rows, "BN": columns, "BK": deep}
    spec = KernelSpec(name, KERNELS, "product", arguments, constants, warps=8, stages=3)
    a = Descriptor(Pointer("a"), (m, k), (k, 1))
    b = Descriptor(Pointer("b"), (k, n), (n, 1))
    grid = (-(-m // rows) * -(-n // columns),)
    return Case(name, problem, spec, launch(name, grid, [a, b, "out", m, n, k]))


def cases() -> list[Case]:
    """All kernels, the worst last."""
    greedy = _add("greedy", SMALL, fate="out_of_memory")
    values = (Scratch("all", 1 << 45), *greedy.step.values[1:])
    spin = _add("spin", SMALL, fate="timeout")
    endless = replace(spin.spec, function="spin", constants={})
    return [
        _add("add_small", SMALL),
        _add("add_large", LARGE),
        _product("product", SQUARE),
        _product("product_odd", ODD),
        _add("wrong", SMALL, 3, "wrong"),
        _add("stray", SMALL, 1, "wrong"),
        replace(greedy, step=replace(greedy.step, values=values)),
        _add("fault", SMALL, 2, "crash"),
        _add("add_again", SMALL),
        replace(spin, spec=endless),
        _add("add_at_last", SMALL),
    ]


def build(folder: Path, target: str) -> None:
    """Compile all kernels into a folder."""
    from skipjack.solvers.gpu.triton.compilation import compile_specs

    folder.mkdir(parents=True, exist_ok=True)
    for case in cases():
        (folder / f"{case.name}.bin").write_bytes(compile_specs([case.spec], target).data)


def loadable(case: Case, folder: Path) -> Loadable:
    """From the folder."""
    data = (folder / f"{case.name}.bin").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return Loadable(data, digest, "gpu", ABI, tuple(to_slots([case.step])))


def shown(failure: Failure | None, error: float) -> dict[str, Any]:
    """What came of a check."""
    if failure is None:
        return {"status": "ok", "error_ratio": round(error, 4)}
    return {"status": failure.status.value, "reason": failure.reason}


def timed(session: RunSession, kernels: dict[str, int]) -> dict[str, Any]:
    """Times of some kernels, interleaved."""
    blocks, failures = session.time(list(kernels.values()), 10)
    record: dict[str, Any] = {"failures": [failure.reason for failure in failures]}
    for name, kernel in kernels.items():
        own = [block for block in blocks if block.kernel == kernel]
        if own:
            timing = summarize(own)
            record[name] = {
                "us": round(timing.time_ns / 1e3, 3),
                "spread": round(timing.spread, 4),
                "calls": own[0].calls,
                "set_aside": timing.set_aside,
            }
    record["sentinel_us"] = sorted(round(max(b.sentinel_ns) / 1e3, 2) for b in blocks)[::5]
    return record


def run_case(session: RunSession, case: Case, folder: Path) -> dict[str, Any]:
    """Check a kernel, here and on arrays of little alignment, and time it beside a library."""
    problem = parse(case.problem)
    started = time.monotonic()
    session.prepare(problem)
    record: dict[str, Any] = {"problem": problem.key, "prepare_s": time.monotonic() - started}
    kernel = session.add(loadable(case, folder))
    started = time.monotonic()
    record["check"] = shown(*session.verify(kernel))
    record["check_s"] = time.monotonic() - started
    record["as_expected"] = record["check"]["status"] == case.fate
    if case.fate == "ok":
        started = time.monotonic()
        record["check_again"] = shown(*session.verify(kernel))
        record["check_again_s"] = time.monotonic() - started
        record["elsewhere"] = shown(*session.verify(kernel, unaligned=True))
        library = "cublas" if problem.operation == "matmul" else "aten"
        other = session.add(Loadable(vendor=library))
        record["library_check"] = shown(*session.verify(other))
        started = time.monotonic()
        record["times"] = timed(session, {case.name: kernel, library: other})
        record["time_s"] = time.monotonic() - started
    record["restarts"] = session.restarts
    return record


def run_library(session: RunSession, name: str, key: str) -> dict[str, Any]:
    """Check a library's call and time it."""
    problem = parse(key)
    started = time.monotonic()
    session.prepare(problem)
    record: dict[str, Any] = {"prepare_s": time.monotonic() - started}
    kernel = session.add(Loadable(vendor=name))
    record["check"] = shown(*session.verify(kernel))
    record["times"] = timed(session, {name: kernel})
    found = record["times"].get(name)
    if found:
        record["tflops"] = get(problem.operation).flops(problem) / found["us"] / 1e6
    return record


def attempt(report: dict[str, Any], name: str, work: Callable[[], Any]) -> None:
    """Whatever goes wrong in one part is told, and the next is begun."""
    started = time.monotonic()
    try:
        report[name] = work()
    except Exception:
        report[name] = {"exception": traceback.format_exc(limit=-6)}
    print(f"{name}: {time.monotonic() - started:.1f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Build, or run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--artifacts", type=Path, default=Path("build/gpu_smoke"))
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--gpu", default="cuda:0")
    parser.add_argument("--call-timeout", type=float, default=6.0)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.target)
        return
    report: dict[str, Any] = {}
    protocol = replace(gpu_protocol(), call_timeout_s=options.call_timeout)
    cores = sorted(os.sched_getaffinity(0))
    with RunSession(protocol, cores, gpu=options.gpu) as session:
        attempt(report, "peaks", session.measure_peaks)
        for case in cases():
            attempt(
                report, case.name, functools.partial(run_case, session, case, options.artifacts)
            )
        for name, key in LIBRARY_PROBLEMS:
            attempt(report, f"{name} {key}", functools.partial(run_library, session, name, key))
    print(json.dumps(report, indent=1, default=str))


if __name__ == "__main__":
    main()
