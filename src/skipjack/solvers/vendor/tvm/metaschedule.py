"""Tunes float32 matrix products with TVM MetaSchedule and keeps the best kernels.

This script runs in TVM's own Python environment and shares nothing with the rest of the project
except the files that it writes. It reads shapes ``M_N_K`` (``C[M, N] = A[M, K] @ B[K, N]``,
float32, row-major) from standard input, one per line. For each it prints the name when
``FOLDER/M_N_K/meta.json`` exists, which says what was done, and what is needed to call
``kernel.so``, the best kernel found, without TVM. It ends when its input ends, or when the process
that started it ends.

A shape whose ``meta.json`` exists for the same number of trials is not tuned again; ``meta.json``
is written last. If a shape failed, its ``meta.json`` has an ``error``, and the shape is tried again
the next time.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import hashlib
import json
import os
import re
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

FORMAT = 1
META_NAME = "meta.json"
KERNEL_NAME = "kernel.so"
SYMBOL = "__tvm_ffi_main"

# Set before TVM or NumPy is imported, and inherited by TVM's worker processes.
# Without TVM_BIND_THREADS=0 TVM's thread pool may move the thread to another core.
ENVIRONMENT = {
    "TVM_NUM_THREADS": "1",
    "TVM_BIND_THREADS": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class ProductShape(NamedTuple):
    """The three extents of one matrix product."""

    m: int
    n: int
    k: int

    @classmethod
    def parse(cls, text: str) -> ProductShape:
        """Read a shape written as ``M_N_K``."""
        match = re.fullmatch(r"([1-9]\d*)_([1-9]\d*)_([1-9]\d*)", text.strip())
        if match is None:
            raise ValueError(f"not a shape M_N_K: {text!r}")
        return cls(*(int(part) for part in match.groups()))

    @property
    def name(self) -> str:
        """The shape as ``M_N_K``."""
        return f"{self.m}_{self.n}_{self.k}"


class TrialOptions(NamedTuple):
    """How every shape is tuned.

    TVM's cost model guesses at random until it has seen ``warmup_samples`` trials.
    """

    trials: int
    trials_per_iter: int
    warmup_samples: int
    seed: int
    core: int


def write_meta(path: Path, meta: dict[str, Any]) -> None:
    """Write ``meta`` as JSON so that ``path`` is either absent or complete."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(meta, indent=2) + "\n", encoding="utf-8")
    temporary.replace(path)


def is_done(path: Path, trials: int) -> bool:
    """Whether ``path`` is a complete record made with this many trials."""
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    if not isinstance(meta, dict) or "error" in meta:
        return False
    return (meta.get("format"), meta.get("trials")) == (FORMAT, trials)


def matmul(shape: ProductShape) -> Any:
    """Return the untuned product as a TVM function of (A, B, C)."""
    from tvm import te

    a = te.placeholder((shape.m, shape.k), name="A", dtype="float32")
    b = te.placeholder((shape.k, shape.n), name="B", dtype="float32")
    r = te.reduce_axis((0, shape.k), name="r")
    c = te.compute((shape.m, shape.n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=[r]), name="C")
    return te.create_prim_func([a, b, c])


def libraries() -> list[str]:
    """List the libraries a process without TVM must open before a kernel, in order."""
    import tvm
    import tvm_ffi

    found = [
        Path(tvm_ffi.__file__).parent / "lib" / "libtvm_ffi.so",
        Path(tvm.__file__).parent / "lib" / "libtvm_runtime.so",
    ]
    return [str(path.resolve(strict=True)) for path in found]


def check(module: Any, shape: ProductShape) -> float:
    """Run the built kernel once; return the largest error relative to NumPy's product."""
    import numpy as np
    import tvm.runtime

    rng = np.random.default_rng(0)
    a = rng.standard_normal((shape.m, shape.k), dtype=np.float32)
    b = rng.standard_normal((shape.k, shape.n), dtype=np.float32)
    tensors = [tvm.runtime.tensor(x) for x in (a, b, np.zeros((shape.m, shape.n), np.float32))]
    module["main"](*tensors)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    worst = float(np.max(np.abs(tensors[2].numpy() - exact) / scale))
    if not worst < 1e-5:
        raise ArithmeticError(f"wrong product: relative error {worst:.3g}")
    return worst


def tune(shape: ProductShape, options: TrialOptions, folder: Path) -> dict[str, Any]:
    """Tune one shape, write its ``kernel.so``, and return the content of ``meta.json``."""
    import tvm.s_tir.tensor_intrin  # noqa: F401 -- takes seconds; here it is not timed
    from tvm.driver import build
    from tvm.s_tir import meta_schedule as ms
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
    from tvm.target import Target
    from tvm.target.codegen import llvm_get_system_cpu

    cpu = str(llvm_get_system_cpu())
    target = Target({"kind": "llvm", "mcpu": cpu, "num-cores": 1})
    function = matmul(shape)
    with tempfile.TemporaryDirectory(prefix=".tune-", dir=folder) as work:
        start = time.perf_counter()
        database = ms.tune_tir(
            mod=function,
            target=target,
            work_dir=work,
            max_trials_global=options.trials,
            num_trials_per_iter=options.trials_per_iter,
            # Each round's new build worker spends half of TVM's default 30 s importing.
            builder=ms.builder.LocalBuilder(max_workers=1, timeout_sec=180.0),
            cost_model=ms.cost_model.XGBModel(
                num_warmup_samples=options.warmup_samples, num_tuning_cores=1, tree_method="auto"
            ),
            num_tuning_cores=1,
            seed=options.seed,
        )
        seconds = time.perf_counter() - start
        records = database.get_all_tuning_records()
        times = [min((float(t) for t in r.run_secs or ()), default=1e10) for r in records]
        times = [t for t in times if t < 1e9]  # TVM records a failed trial as 1e10 s
        schedule = ms.tir_integration.compile_tir(database, function, target)
        if schedule is None or not times:
            raise RuntimeError(f"no valid trial among {len(records)}")
        # The same two steps by which TVM's local builder built each trial.
        module = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(schedule.mod)
        built = build(module, target=target)
        error = check(built, shape)
        kernel = Path(work) / KERNEL_NAME
        built.export_library(str(kernel))
        if not hasattr(ctypes.CDLL(str(kernel)), SYMBOL):
            raise LookupError(f"the library TVM wrote does not export {SYMBOL}")
        kernel.replace(folder / KERNEL_NAME)
    return {
        "tuning_seconds": round(seconds, 3),
        "seconds": min(times),
        "gflops": round(2e-9 * shape.m * shape.n * shape.k / min(times), 3),
        "trials_recorded": len(records),
        "trials_valid": len(times),
        "relative_error": error,
        "cpu": cpu,
        "target": str(target),
        "kernel": KERNEL_NAME,
        "sha256": hashlib.sha256((folder / KERNEL_NAME).read_bytes()).hexdigest(),
        "libraries": libraries(),
        "symbol": SYMBOL,
        "environment": {k: v for k, v in ENVIRONMENT.items() if k.startswith("TVM_")},
    }


def run_shape(shape: ProductShape, options: TrialOptions, folder: Path) -> None:
    """Tune one shape unless that was done before, and write its ``meta.json``."""
    import tvm

    path = folder / META_NAME
    if is_done(path, options.trials):
        return
    folder.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    meta: dict[str, Any] = {"format": FORMAT, "shape": list(shape), **options._asdict()}
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")  # noqa: UP017
    meta |= {"tvm": tvm.__version__, "date": date}
    try:
        meta |= tune(shape, options, folder)
    except Exception as error:  # one shape must not stop the others
        meta["error"] = f"{type(error).__name__}: {error}"
    write_meta(path, meta)


def end_with_parent() -> None:
    """Let Linux end this process when the process that started it ends."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


def main(argv: list[str] | None = None) -> int:
    """Tune every shape that is read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=64, help="measured trials per shape")
    parser.add_argument("--trials-per-iter", type=int, default=64, help="trials per search round")
    parser.add_argument(
        "--warmup-samples", type=int, default=100, help="trials before the cost model is used"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--core", type=int, default=0, help="the core to run on")
    parser.add_argument("--folder", type=Path, required=True, help="the folder of the kernels")
    args = parser.parse_args(argv)
    end_with_parent()
    os.environ.update(ENVIRONMENT)
    os.sched_setaffinity(0, {args.core})
    options = TrialOptions(
        args.trials, args.trials_per_iter, args.warmup_samples, args.seed, args.core
    )
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # TVM prints its progress
        for line in sys.stdin:
            shape = ProductShape.parse(line)
            run_shape(shape, options, args.folder.resolve() / shape.name)
            print(shape.name, file=answers, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
