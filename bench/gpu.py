"""The GPU benchmark, in three steps on two machines: build anywhere, evaluate on the GPU, collect.

::

    python bench/gpu.py build                     # on any machine: jobs, kernels, bundles
    python bench/gpu.py evaluate --seconds 500    # on the GPU machine: the bundles, in slices
    python bench/gpu.py collect                   # back here: results, tables, JSON

On the GPU machine more scripts may follow ``evaluate``: ``gpu_compile.py`` (vector operations
beside torch.compile), ``gpu_autotune.py`` (searches beside triton.autotune's), and
``gpu_start_well.py`` (how near the first configs are to the best).

Every step is made of Skipjack's own commands, as a user would give them. What travels is the folder
``bench/gpu_work`` (bundles one way, results the other, and the fleet's key). Each problem's
candidates and the vendor's library are timed beside each other in one session, in graphs, over
buffers that take turns so that caches hold nothing of the last call. ``collect`` writes
``bench/results/gpu_<suite>_<arch>.json``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_summary import MACHINE, describe_machine, keep_beside, summarize_label, write_results

ROOT = Path(__file__).resolve().parent
WORK = ROOT / "gpu_work"
LISTS = ROOT / "lists"
DEVICE = "sm_90/132"
BESIDE = ("compile", "autotune", "start_well")
"""What ``gpu_NAME.py`` printed on the GPU machine, kept there as ``NAME.json``."""


@dataclass(frozen=True, slots=True)
class Part:
    """Problems that are imported together."""

    arguments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    """One table of the benchmark: a label of the fleet."""

    name: str
    parts: tuple[Part, ...]
    budget: int


def _conv(layout: str, batches: str) -> Part:
    more = ("--layout", layout, "--direction", "all", "-b", batches)
    return Part(("--list", "resnet50", *more))


def _list(name: str, dtype: str) -> Part:
    return Part(("-f", str(LISTS / f"{name}.txt"), "--dtype", dtype))


SUITES = {
    suite.name: suite
    for suite in (
        Suite("matmul", (_list("gpu_matmul", "f16"), _list("gpu_matmul", "bf16")), 16),
        Suite("conv", (_conv("NHWC", "32,256"), _conv("NCHW", "32,256")), 12),
        Suite("vector", (_list("gpu_vector", "f16"), _list("gpu_vector", "f32")), 12),
    )
}


def skipjack(*arguments: str, check: bool = True) -> int:
    """A command of Skipjack's, on the benchmark's own store and user directory."""
    environment = {
        **os.environ,
        "SKIPJACK_USER_DB_PATH": str(WORK / "user"),
        "SKIPJACK_FLEET_KEY": str(WORK / "fleet.key"),
    }
    print("$ skipjack", *arguments, flush=True)
    command = [sys.executable, "-m", "skipjack", *arguments]
    done = subprocess.run(command, env=environment, check=False)
    if check and done.returncode:
        sys.exit(f"skipjack {arguments[0]} ended with {done.returncode}")
    return done.returncode


def build(suites: Iterable[Suite], device: str, budget: int | None) -> None:
    """Import, load, build, bundle."""
    WORK.mkdir(exist_ok=True)
    _make_key()
    for suite in suites:
        started = time.monotonic()
        for part in suite.parts:
            skipjack("import", *part.arguments, "-t", suite.name)
        trials = str(budget or suite.budget)
        plan = ("--device", device, "--budget", trials, "--round", trials)
        skipjack("load", "-t", suite.name, "-l", suite.name, *plan)
        skipjack("run", "-l", suite.name, "--build")
        _bundle(suite).unlink(missing_ok=True)
        skipjack("bundle", "export", "-l", suite.name, "-o", str(_bundle(suite)))
        print(f"{suite.name}: {time.monotonic() - started:.0f} s to build", flush=True)


def evaluate(suites: Sequence[Suite], seconds: float) -> None:
    """Each suite gets its share of the time that is left; running again goes on."""
    end = time.monotonic() + seconds
    describe_machine(_out() / MACHINE)
    for number, suite in enumerate(suites):
        share = (end - time.monotonic()) / (len(suites) - number)
        most = ("--max-seconds", f"{max(share, 10):.0f}")
        skipjack("bundle", "evaluate", str(_bundle(suite)), "-o", str(_results(suite)), *most)


def collect(suites: Iterable[Suite]) -> None:
    """Import what came back, and write the tables."""
    for suite in suites:
        if _results(suite).exists():
            skipjack("bundle", "import", str(_results(suite)))
        found = summarize_label(WORK / "user", suite.name)
        write_results(found, suite.name, _out() / MACHINE)
    for name in BESIDE:
        keep_beside(f"gpu_{name}", _out() / f"{name}.json", _out() / MACHINE)


def _make_key() -> None:
    from skipjack.fleet.signature import fleet_key
    from skipjack.settings import load_settings

    if not (WORK / "fleet.key").exists():
        os.environ["SKIPJACK_USER_DB_PATH"] = str(WORK)
        fleet_key(load_settings())


def _bundle(suite: Suite) -> Path:
    return WORK / f"{suite.name}.skj"


def _results(suite: Suite) -> Path:
    return _out() / f"{suite.name}_results.skj"


def _out() -> Path:
    """Where results go: a machine that gives back one folder alone says so in ``OUT``."""
    return Path(os.environ.get("OUT", WORK))


def main() -> None:
    """One step."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("step", choices=["build", "evaluate", "collect"])
    parser.add_argument("--suite", action="append", choices=list(SUITES), help="only this one")
    parser.add_argument("--device", default=DEVICE)
    parser.add_argument("--budget", type=int, help="configs of each problem")
    parser.add_argument("--seconds", type=float, default=500.0, help="for evaluate, in all")
    options = parser.parse_args()
    suites = [SUITES[name] for name in options.suite or SUITES]
    if options.step == "build":
        build(suites, options.device, options.budget)
    elif options.step == "evaluate":
        evaluate(suites, options.seconds)
    else:
        collect(suites)


if __name__ == "__main__":
    main()
