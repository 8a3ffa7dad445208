"""TVM MetaSchedule as a contender: its environment, its tuning, its kernels in this process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from peers.tvm_call import NUM_ARGS, Call, load_packed
from shapes import Shape
from skipjack.core.operation import Arrays
from skipjack.execute.kernels import Kernel
from stand import Plan, Stand

TRIALS = 64
NOTE = (
    f"TVM MetaSchedule was given {TRIALS} trials a shape. Each of its four rounds starts a build "
    "worker that imports TVM, about 14 s a round, which is part of its tuning seconds. Its cost "
    "model guesses at random below 100 samples, so the search was not guided by it. Its kernels "
    "were called at the best of four stack alignments, since some of them depend on it."
)

_HERE = Path(__file__).resolve().parent
CACHE = _HERE / ".cache"
_SCRIPT = _HERE / "peers" / "tvm_metaschedule.py"
_PACKAGES = (
    "apache-tvm==0.27.0.post1",
    "apache-tvm-ffi==0.1.14.post1",
    "xgboost",
    "cloudpickle",
    "psutil",
    "numpy",
)

# Some of TVM's kernels keep vectors on the stack without aligning it: one ran at 87 or 62 GFLOP/s
# depending on where its caller's stack happened to lie. The other contenders do not care (0.2 %).
# So the stack is aligned to 64 bytes and then shifted, and TVM gets the shift that suits it best.
_SHIFTS = (64, 80, 96, 112)
_RACE = Plan(rounds=10)
_THUNK = f"""
define void @kernel(ptr %slots) nounwind {{
entry:
  %base = alloca i64, align 64
  store volatile i64 0, ptr %base, align 64
  %p3 = getelementptr i8, ptr %slots, i64 24
  %shift = load i64, ptr %p3, align 8
  %room = alloca i8, i64 %shift, align 16
  store volatile i8 0, ptr %room, align 1
  %function = load ptr, ptr %slots, align 8
  %p1 = getelementptr i8, ptr %slots, i64 8
  %arguments = load ptr, ptr %p1, align 8
  %p2 = getelementptr i8, ptr %slots, i64 16
  %result = load ptr, ptr %p2, align 8
  %status = call i32 %function(ptr null, ptr %arguments, i32 {NUM_ARGS}, ptr %result)
  ret void
}}
"""


class Tuned(NamedTuple):
    """A kernel that MetaSchedule found, ready to be timed; `call` owns its arguments."""

    kernel: Kernel
    call: Call
    meta: Mapping[str, Any]


def tune_missing(shapes: Sequence[Shape], cache: Path, core: int) -> None:
    """Have MetaSchedule tune the shapes that the cache does not hold; takes minutes a shape."""
    missing = [shape.name for shape in shapes if not (cache / shape.name / "meta.json").exists()]
    if not missing:
        return
    python = _environment(CACHE / "tvm-env")
    print(f"TVM MetaSchedule tunes {len(missing)} shapes, about two minutes each", flush=True)
    command = [str(python), str(_SCRIPT), "--shapes", ",".join(missing), "--core", str(core)]
    command += ["--trials", str(TRIALS), "--cache", str(cache)]
    subprocess.run(command, check=True)


def _environment(folder: Path) -> Path:
    """TVM's own Python; made the first time."""
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        print("installing TVM into an environment of its own", flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *_PACKAGES], check=True)
        ready.touch()
    return python


def find(shape: Shape, cache: Path, stand: Stand, arrays: Arrays) -> Tuned | str:
    """The kernel of a shape, or why there is none."""
    path = cache / shape.name / "meta.json"
    if not path.exists():
        return f"no TVM kernel in {cache.name}; --tvm makes them"
    meta = json.loads(path.read_text(encoding="utf-8"))
    if "error" in meta:
        return f"TVM failed on it: {meta['error']}"
    if meta.get("cpu") != stand.device.arch:
        return f"its TVM kernel is for {meta.get('cpu')}, this is {stand.device.arch}"
    try:
        call = load_packed(path).bind(arrays["a"], arrays["b"], arrays["out"])
    except (OSError, ValueError, LookupError) as error:
        return f"its TVM kernel cannot be loaded: {error}"
    call()  # raises if the kernel reports a failure, which the native loop would not see
    slots = [call.function, call.args, call.result]
    kernels = {
        str(shift % 64): stand.assemble(_THUNK, [*slots, shift], arrays) for shift in _SHIFTS
    }
    rounds = stand.time(kernels, _RACE)
    rates = {name: round(shape.flops / rounds.time_ns(name), 2) for name in kernels}
    best = max(rates, key=lambda name: rates[name])
    return Tuned(kernels[best], call, {**meta, "gflops_by_stack_shift": rates})
