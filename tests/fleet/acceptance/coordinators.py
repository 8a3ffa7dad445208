"""Several parallel ``skipjack run``, each restarted if it ends before the work is finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from process_tree import Process, below, process, survivors

from processes import command

LEASE_S = 5.0


@dataclass
class _Run:
    place: int
    child: subprocess.Popen[bytes]
    process: Process
    said: Path
    began: float

    def words(self) -> str:
        return self.said.with_suffix(".err").read_text(errors="replace")

    def summary(self) -> dict[str, Any]:
        text = self.said.with_suffix(".out").read_text().strip()
        found: dict[str, Any] = json.loads(text.splitlines()[-1]) if text else {}
        return found


@dataclass
class Coordinators:
    """Use as a context manager; nothing that was started is left behind."""

    label: str
    folder: Path
    count: int = 2
    arguments: Sequence[str] = ("--builders", "1")
    lease_s: float = LEASE_S
    environment: Mapping[str, str] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)
    """Exit codes of those that were not killed."""
    settled: Counter[str] = field(default_factory=Counter)
    """What those say they did that lived to say so."""
    tracebacks: list[str] = field(default_factory=list)
    started: int = 0
    seen: set[Process] = field(default_factory=set)
    """Every process that was ever noticed."""

    def __post_init__(self) -> None:
        self._runs: dict[int, _Run] = {}
        self._cores = sorted(os.sched_getaffinity(0))

    def __enter__(self) -> Coordinators:
        self.tend()
        return self

    def __exit__(self, *_: object) -> None:
        self.look()
        for run in self._runs.values():
            run.process.send(signal.SIGKILL)
            run.child.wait()
        for one in survivors(self.seen, 10.0):
            one.send(signal.SIGKILL)

    def tend(self, *, again: bool = True) -> None:
        """Note those that ended, and restart them if work is left."""
        self.look()
        for place in range(self.count):
            run = self._runs.get(place)
            if run is not None and run.child.poll() is None:
                continue
            if run is not None:
                self._note(self._runs.pop(place))
            if again:
                self._runs[place] = self._start(place)

    def look(self) -> None:
        """Remember every process below the coordinators."""
        self.seen |= {run.process for run in self._runs.values()}
        self.seen |= set(self.below())

    def alone(self) -> list[Process]:
        """The coordinators themselves."""
        return [run.process for _, run in sorted(self._runs.items()) if run.process.alive]

    def below(self, *words: str) -> list[Process]:
        """Their workers and those of their workers, if a command line has any of these words."""
        family = below(*(run.process.pid for run in self._runs.values()))
        return [one for one in family if not words or any(word in one.words for word in words)]

    def wait(self, within_s: float) -> list[Process]:
        """Let them end by themselves; those that did not are the answer."""
        left = survivors([run.process for run in self._runs.values()], within_s)
        self.tend(again=False)
        return left

    def _start(self, place: int) -> _Run:
        self.started += 1
        said = self.folder / f"coordinator-{place}-{self.started:03}"
        variables = {
            **os.environ,
            "SKIPJACK_MACHINE": f"machine-{place}",
            "SKIPJACK_CORE": str(self._cores[place % len(self._cores)]),
            **self.environment,
        }
        words = ["run", "-l", self.label, "--lease", f"{self.lease_s:g}", "--json"]
        with _written(said, ".out") as out, _written(said, ".err") as err:
            child = subprocess.Popen(
                command([*words, *self.arguments]),
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        return _Run(place, child, process(child.pid), said, time.monotonic())

    def _note(self, run: _Run) -> None:
        words = run.words()
        if "Traceback" in words:
            self.tracebacks.append(words)
        code = run.child.returncode
        if code == -signal.SIGKILL:
            return
        lines = words.strip().splitlines()
        self.endings[f"{code}: {lines[-1] if code and lines else ''}"] += 1
        summary = run.summary()
        self.settled.update(summary.get("settled", {}))
        self.settled["refused"] += summary.get("refused", 0)


def _written(said: Path, suffix: str) -> IO[bytes]:
    return said.with_suffix(suffix).open("wb")
