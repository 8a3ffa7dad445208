"""The flow of `bench/fleet.py` on this code and on an earlier checkout, in turns, as ratios.

``bench/fleet_before.py CHECKOUT``, as ``git worktree add CHECKOUT COMMIT`` makes it. Each side is a
process of its own with the same interpreter, whose PYTHONPATH is its checkout's ``src`` and
``bench``, and has a database of its own on the same servers, with the same jobs. The side that goes
first changes from round to round. Writes ``bench/results/fleet_before_<arch>.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from fleet_record import Record, in_words, spread, write
from skipjack.errors import SkipjackError
from skipjack.testing.servers import MariaDB, NotInstalledError, PostgreSQL

_HERE = Path(__file__).resolve().parent
_SIDE = _HERE / "peers" / "fleet_side.py"
_JOBS = {1: 120, 32: 960}
"""Of a flow, by batch: about a second's work or less."""


class Side:
    """A checkout and a store, ready for jobs; a context manager."""

    def __init__(self, checkout: Path, url: str, user_dir: Path) -> None:
        self._command = (sys.executable, str(_SIDE), url, str(user_dir))
        self._path = os.pathsep.join(str(checkout / part) for part in ("src", "bench"))

    def __enter__(self) -> Side:
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self._command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": self._path},
        )
        self._answer()
        return self

    def __exit__(self, *about: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)

    def jobs_per_s(self, jobs: int, batch: int) -> float:
        """Of one flow."""
        assert self._process.stdin
        self._process.stdin.write(f"{jobs} {batch}\n")
        self._process.stdin.flush()
        return jobs / float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise SkipjackError(f"{' '.join(self._command)} ended; PYTHONPATH was {self._path}")
        return line


def measure(before: Path, home: Path, repeats: int) -> Record:
    """How many times as many jobs per second this code does, by database and batch."""
    ratios: dict[str, dict[int, list[float]]] = {}
    skipped = {}
    with contextlib.ExitStack() as opened:
        sides: dict[str, tuple[Side, Side]] = {}
        for name in ("sqlite", "postgresql", "mariadb"):
            try:
                urls = _urls(name, home, opened)
            except NotInstalledError as error:
                skipped[name] = str(error)
                print(f"{name} is left out: {error}")
                continue
            pairs = zip((before, _HERE.parent), urls, ("before", "now"), strict=True)
            earlier, now = (
                opened.enter_context(Side(checkout, url, home / f"{name}_{word}"))
                for checkout, url, word in pairs
            )
            sides[name] = earlier, now
        for number in range(repeats):
            for batch, jobs in _JOBS.items():
                for name, pair in sides.items():
                    ratio = _ratio(*pair, jobs, batch, swapped=bool(number % 2))
                    ratios.setdefault(name, {}).setdefault(batch, []).append(ratio)
                    print(f"{name:10} batch {batch:2}: now / before {ratio:.3f}", flush=True)
    found = {
        name: {str(batch): spread(values) for batch, values in of.items()}
        for name, of in ratios.items()
    }
    return {"now / before": found, "skipped": skipped}


def _ratio(before: Side, now: Side, jobs: int, batch: int, *, swapped: bool) -> float:
    """Of two flows, one after the other."""
    order = (now, before) if swapped else (before, now)
    speeds = {side: side.jobs_per_s(jobs, batch) for side in order}
    return speeds[now] / speeds[before]


def _urls(name: str, home: Path, opened: contextlib.ExitStack) -> tuple[str, str]:
    """Two empty databases."""
    if name == "sqlite":
        return f"sqlite:///{home / 'before.sqlite'}", f"sqlite:///{home / 'now.sqlite'}"
    server = {"postgresql": PostgreSQL, "mariadb": MariaDB}[name](durable=True)
    opened.callback(server.close)
    return server.fresh(), server.fresh()


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="an earlier version of this repository")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="an impression, nothing is kept")
    options = parser.parse_args()
    before = options.checkout.resolve()
    if not (before / "bench" / "fleet_flow.py").is_file():
        parser.error(f"{before} has no bench/fleet_flow.py; name a checkout of this repository")
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        found = measure(before, Path(directory), 1 if options.quick else options.repeats)
    for name, ratios in found["now / before"].items():
        print(f"{name:10}", *(f"batch {batch}: {in_words(ratios[batch])}" for batch in ratios))
    if not options.quick:
        commits = {"before": _commit(before), "now": _commit(_HERE)}
        write("fleet_before", {"commits": commits} | found)


if __name__ == "__main__":
    main()
