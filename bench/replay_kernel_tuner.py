"""Kernel Tuner's strategies as peers in replays: an environment and processes of their own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metaschedule import CACHE
from replay_spaces import Case

_SCRIPT = Path(__file__).resolve().parent / "peers" / "kernel_tuner_replay.py"
_PACKAGES = ("kernel_tuner==1.5.*", "scikit-optimize", "pyatf")
ENVIRONMENT = CACHE / "kernel-tuner-1.5-env"
_TECHNIQUES = (
    *("auc_bandit", "differential_evolution", "pattern_search", "round_robin"),
    *("simulated_annealing", "torczon"),
)


@dataclass(frozen=True)
class PeerRuns:
    """What a strategy evaluated with each seed, and why some are missing."""

    asked: dict[int, list[int]] = field(default_factory=dict)
    seconds: float = 0.0
    note: str = ""


class KernelTuner:
    """Its strategies by name, such as ``kt:pso``."""

    def __init__(self, folder: Path | None = ENVIRONMENT) -> None:
        """None if it does not take part."""
        self.version, self.names = "", list[str]()
        self.absent = ""
        if folder is None:
            return
        self._python = folder / "bin" / "python"
        try:
            if not self._python.exists():
                _install(folder)
            said = subprocess.run(
                [self._python, _SCRIPT], check=True, capture_output=True, text=True
            )
            self.version, self.names = json.loads(said.stdout)
        except (OSError, subprocess.CalledProcessError) as error:
            self.absent = f"Kernel Tuner is not there: {error}"

    def searchers(self) -> list[str]:
        """All strategies with their own defaults, and each technique of pyATF."""
        found = [f"kt:{name}" for name in self.names if name != "pyatf_strategies"]
        return found + [f"kt:pyatf_strategies={one}" for one in _TECHNIQUES if self.names]

    def run(self, case: Case, name: str, budget: int, seeds: Sequence[int], limit: int) -> PeerRuns:
        """Let a strategy search with each seed; at most so many seconds of a core in all."""
        strategy, _, technique = name.removeprefix("kt:").partition("=")
        request = {
            "strategy": strategy,
            "options": {"searchtechnique": technique} if technique else {},
            "budget": min(budget, case.space.count()),
            "seeds": list(seeds),
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "recording.json"
            case.write_cache(path)
            done = subprocess.run(
                [self._python, _SCRIPT, path, json.dumps(request)],
                capture_output=True,
                text=True,
                env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 30)),
            )
        return _read(done, len(seeds), limit)


_TIMED_OUT = "timed out"


def _read(done: subprocess.CompletedProcess[str], wanted: int, limit: int) -> PeerRuns:
    """The runs; one that was cut off by the limit counts only if there is no other."""
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    asked = {row["seed"]: row["asked"] for row in rows if row["asked"]}
    notes = sorted({row["error"] for row in rows} - {"", _TIMED_OUT})[:1]
    for row in rows:
        if row["error"] == _TIMED_OUT:
            if len(asked) > 1:
                asked.pop(row["seed"], None)
            said = (
                f"after {limit} s of a core at evaluation {len(row['asked'])} of seed {row['seed']}"
            )
            notes.append(f"timed out {said}; {wanted} seeds were wanted")
    if done.returncode:
        notes.append(f"failed: {done.stderr.strip().splitlines()[-1:]}")
    return PeerRuns(asked, sum(row["seconds"] for row in rows), "; ".join(notes))


def _install(folder: Path) -> None:
    print("installing Kernel Tuner into an environment of its own", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *_PACKAGES]
    subprocess.run([str(folder / "bin" / "python"), *words], check=True)
