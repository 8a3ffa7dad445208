"""One kernel, 72 configs, three ways to the best of them, and torch's own search beside.

``triton.autotune``; ``skipjack.autotune`` in the same place, cold and in a second process; and
artifacts that were built beforehand (``--build FOLDER``, on any machine), checked and raced by a
run session. Each starts with empty caches in a process of its own. Their winners are then timed
side by side with cuBLAS and with what ``torch.compile`` chose in its max-autotune mode.

    python bench/gpu_autotune.py --build build/gpu_autotune            # anywhere
    python bench/gpu_autotune.py --artifacts build/gpu_autotune --seconds 230 > $OUT/autotune.json
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

KERNELS = Path(__file__).with_name("gpu_autotune_kernel.py")
PARTS = ("skipjack", "skipjack_again", "ahead", "max_autotune", "triton", "retime")
"""The slowest search comes late: should time run out, it is the one that is cut short."""
ROUNDS = 30
CALLS = 24
SETS = 8
"""Of arrays that take turns."""


def build(folder: Path, target: str, size: int, workers: int) -> None:
    """Compile all configs into a folder, and note what that took."""
    from gpu_autotune_kernel import CONFIGS
    from skipjack.core import Status
    from skipjack.integrations.triton.builds import run_jobs

    folder.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()

    def job(number: int) -> Callable[[], None]:
        return lambda: _build_one(folder / f"{number}.bin", CONFIGS[number], target, size)

    outcomes = run_jobs([job(number) for number in range(len(CONFIGS))], workers, 300.0)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    record = {
        "target": target,
        "size": size,
        "configs": len(CONFIGS),
        "refused": [o.reason for o in outcomes if o.status is not Status.OK],
        "seconds": round(time.monotonic() - started, 2),
        "workers": workers,
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
    }
    (folder / "build.json").write_text(json.dumps(record))
    print(json.dumps(record))


def _build_one(path: Path, config: Mapping[str, int], target: str, size: int) -> None:
    from skipjack.gpu import Argument
    from skipjack.solvers.gpu.triton import KernelSpec
    from skipjack.solvers.gpu.triton.compilation import compile_specs

    divisible = 16 if size % 16 == 0 else 1
    numbers = ("m", "n", "k", "stride_am", "stride_bk", "stride_cm")
    arguments = {name: Argument("*fp16", 16) for name in ("a", "b", "out")}
    arguments |= {name: Argument("i32", divisible) for name in numbers}
    constants = {name: value for name, value in config.items() if name.isupper()}
    constants |= dict.fromkeys(("stride_ak", "stride_bn", "stride_cn"), 1)
    spec = KernelSpec(
        "matmul",
        str(KERNELS),
        "matmul",
        arguments,
        constants,
        config["num_warps"],
        config["num_stages"],
    )
    path.write_bytes(compile_specs([spec], target).data)


# One part each, in a process of its own


def search(size: int, make: Callable[[Any, list[Any]], Any]) -> dict[str, Any]:
    """Time the first call of an autotuned kernel."""
    import torch

    from gpu_autotune_kernel import CONFIGS, as_settings, as_triton, call, matmul

    a, b, out = tensors(size)
    torch.mm(a, b, out=out)
    torch.cuda.synchronize()
    kernel = make(matmul, [as_triton(config) for config in CONFIGS])
    started = time.monotonic()
    call(kernel, a, b, out)
    torch.cuda.synchronize()
    seconds = time.monotonic() - started
    failures = getattr(kernel, "failures", None)
    if failures is None:
        failures = [c for c, t in kernel.configs_timings.items() if t[0] == float("inf")]
    return {
        "seconds": round(seconds, 3),
        "winner": as_settings(kernel.best_config),
        "timed": len(kernel.configs_timings),
        "failed": len(failures),
        "right": bool(torch.allclose(out.float(), (a @ b).float(), rtol=2e-2, atol=2e-1)),
    }


def by_triton(size: int, folder: Path) -> dict[str, Any]:
    """Triton's own."""
    import triton

    return search(size, lambda kernel, configs: triton.autotune(configs, ["m", "n", "k"])(kernel))


def by_skipjack(size: int, folder: Path) -> dict[str, Any]:
    """Ours in its place."""
    import skipjack

    return search(size, lambda kernel, configs: skipjack.autotune(configs, ["m", "n", "k"])(kernel))


def ahead(size: int, folder: Path) -> dict[str, Any]:
    """Artifacts that were built beforehand: load, check and race them."""
    from gpu_autotune_kernel import CONFIGS
    from skipjack.core import gpu_protocol
    from skipjack.execute import RunSession
    from skipjack.operations import parse

    problem = parse(f"matmul:{size}x{size}x{size}:f16")
    started = time.monotonic()
    with RunSession(gpu_protocol(), sorted(os.sched_getaffinity(0)), gpu="cuda:0") as session:
        session.prepare(problem)
        prepared = time.monotonic()
        kernels, reasons = {}, []
        for number, config in enumerate(CONFIGS):
            path = folder / f"{number}.bin"
            if not path.is_file():
                continue
            kernel = session.add(_loadable(path, config, size))
            failure, _ = session.verify(kernel)
            if failure is None:
                kernels[kernel] = config
            else:
                reasons.append(failure.reason)
        checked = time.monotonic()

        best = _fastest(session, list(kernels))
    done = time.monotonic()
    return {
        "seconds": round(done - prepared, 3),
        "start_s": round(prepared - started, 3),
        "check_s": round(checked - prepared, 3),
        "race_s": round(done - checked, 3),
        "winner": kernels[best],
        "timed": len(kernels),
        "failed": len(CONFIGS) - len(kernels),
        "reasons": reasons[:5],
        "build": json.loads((folder / "build.json").read_text()),
    }


def _fastest(session: Any, kernels: Sequence[int]) -> int:
    """One block of all, then more of those that may be the fastest, as a search does."""
    from skipjack.execute import by_kernel, summarize

    times: dict[int, float] = {}
    for blocks, within in ((1, 1.25), (4, 1.05), (16, 1.0)):
        timed = by_kernel(session.time(kernels, blocks)[0])
        times = {kernel: summarize(mine).time_ns for kernel, mine in timed.items()}
        kernels = [kernel for kernel in kernels if times[kernel] <= within * min(times.values())]
    return min(times, key=lambda kernel: times[kernel])


def _loadable(path: Path, config: Mapping[str, int], size: int) -> Any:
    from skipjack.execute import Loadable
    from skipjack.gpu import ABI, launch, to_slots

    data = path.read_bytes()
    blocks = -(-size // config["BLOCK_M"]) * -(-size // config["BLOCK_N"])
    step = launch("matmul", (blocks,), ["a", "b", "out", *[size] * 6])
    digest = hashlib.sha256(data).hexdigest()
    return Loadable(data, digest, "gpu", ABI, tuple(to_slots([step])))


def by_torch(size: int, folder: Path) -> dict[str, Any]:
    """What torch.compile searches by itself."""
    import torch

    a, b, out = tensors(size)
    torch.mm(a, b, out=out)
    torch.cuda.synchronize()
    started = time.monotonic()
    compiled_product()(a, b)
    torch.cuda.synchronize()
    return {"seconds": round(time.monotonic() - started, 3)}


@functools.cache
def compiled_product() -> Callable[[Any, Any], Any]:
    """The product as torch.compile makes it."""
    import torch

    product: Callable[[Any, Any], Any] = torch.compile(
        lambda a, b: a @ b, mode="max-autotune-no-cudagraphs"
    )
    return product


def retime(size: int, folder: Path) -> dict[str, Any]:
    """The winners, side by side: rows of calls in a graph, in turn, and the median of each.

    Once on arrays that take turns, so that caches hold nothing of the last call, and once on the
    same arrays again and again, as ``triton.autotune`` and others time.
    """
    winners = json.loads(os.environ["WINNERS"])
    sets = [tensors(size) for _ in range(SETS)]
    found: dict[str, dict[str, float]] = {}
    for name, used in {"": sets, "hot_": sets[:1]}.items():
        for contender, us in _side_by_side(winners, used).items():
            record = found.setdefault(contender, {})
            record[f"{name}us"] = round(us, 2)
            record[f"{name}tflops"] = round(2.0 * size**3 / us / 1e6, 1)
    return found


def _side_by_side(winners: Mapping[str, Any], sets: Sequence[Any]) -> dict[str, float]:
    """Microseconds of each, on these sets of arrays in turn."""
    import torch

    from gpu_autotune_kernel import call, matmul

    calls: dict[str, Callable[..., object]] = {"cublas": lambda a, b, out: torch.mm(a, b, out=out)}
    for name, config in winners.items():
        calls[name] = functools.partial(_tuned, call, matmul, config)
    product = compiled_product()
    calls["max_autotune"] = lambda a, b, out: product(a, b)
    graphs = {name: _recorded(one, sets) for name, one in calls.items()}
    times: dict[str, list[float]] = {name: [] for name in graphs}
    cuda: Any = torch.cuda
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            start, end = (cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            cuda.synchronize()
            times[name].append(start.elapsed_time(end) * 1e3 / CALLS)
    return {name: float(median(us)) for name, us in times.items()}


def _tuned(call: Any, matmul: Any, config: Mapping[str, int], a: Any, b: Any, out: Any) -> None:
    call(matmul, a, b, out, **config)


def _recorded(one: Callable[..., object], sets: Sequence[Any]) -> Any:
    import torch

    one(*sets[0])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for number in range(CALLS):
            one(*sets[number % len(sets)])
    return graph


def tensors(size: int) -> tuple[Any, Any, Any]:
    """Two factors and room for their product."""
    import torch

    torch.manual_seed(0)
    a, b = (torch.rand(size, size, device="cuda").sub_(0.5).half() for _ in range(2))
    return a, b, torch.empty_like(a)


WORK: dict[str, Callable[[int, Path], dict[str, Any]]] = {
    "triton": by_triton,
    "skipjack": by_skipjack,
    "skipjack_again": by_skipjack,
    "ahead": ahead,
    "max_autotune": by_torch,
    "retime": retime,
}


def run(part: str, options: argparse.Namespace, home: Path, left_s: float) -> dict[str, Any]:
    """A part in a process of its own, with caches of its own."""
    own = home / part.removesuffix("_again")
    environment = {
        **os.environ,
        "TRITON_CACHE_DIR": str(own / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(home / "inductor"),
        "SKIPJACK_USER_DB_PATH": str(own / "user"),
        "SKIPJACK_LOCK_DIR": str(home),
        "WINNERS": json.dumps(options.winners),
    }
    command = [sys.executable, __file__, "--part", part, "--size", str(options.size)]
    command += ["--artifacts", str(options.artifacts)]
    started = time.monotonic()
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=left_s, check=False
        )
    except subprocess.TimeoutExpired:
        return {"cut_after_s": round(left_s, 1)}
    if done.returncode:
        return {"error": done.stderr[-1500:]}
    record: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**record, "process_s": round(time.monotonic() - started, 2)}


def main() -> None:
    """Build, one part, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--artifacts", type=Path, default=Path("build/gpu_autotune"))
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=230.0)
    parser.add_argument("--part", choices=PARTS)
    options = parser.parse_args()
    if options.build:
        build(options.build, options.target, options.size, options.workers)
        return
    if options.part:
        print(json.dumps(WORK[options.part](options.size, options.artifacts)))
        return
    options.winners = {}
    report: dict[str, Any] = {"format": 1, "size": options.size}
    deadline = time.monotonic() + options.seconds
    with tempfile.TemporaryDirectory() as home:
        for part in PARTS:
            # The last part, which takes some 15 s, is worth more than the end of a slow search.
            left_s = deadline - time.monotonic() - (0.0 if part == "retime" else 20.0)
            report[part] = run(part, options, Path(home), max(1.0, left_s))
            if "winner" in report[part]:
                options.winners[part] = report[part]["winner"]
            print(f"{part}: {json.dumps(report[part])[:300]}", file=sys.stderr, flush=True)
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
