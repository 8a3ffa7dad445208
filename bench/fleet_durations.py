"""How long jobs of 100 trials take, from recorded tuning spaces in the T4 format.

``fleet_durations.py FOLDER`` reads every ``*_T4.json.gz`` there. A trial takes what its runs and
the framework took, without compilation, which is a builder's; a job is 100 configs of one space,
drawn without replacement. Of these sums only quantiles are kept, in
``results/fleet_durations.json``, divided by one number for all spaces, so that the median is 2 s.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

import machine

MEDIAN_S, TRIALS = 2.0, 100
_JOBS = 4000
_QUANTILES = 200
_FILE = machine.RESULTS / "fleet_durations.json"

Record = dict[str, Any]


def derive(folder: Path, rng: np.random.Generator) -> Record:
    """The quantiles of all recorded spaces together, and of which each was made."""
    files = sorted(folder.glob("*_T4.json.gz"))
    jobs = {file.name: _jobs_s(file, rng) for file in files}
    together = np.concatenate(list(jobs.values()))
    slower = float(np.median(together)) / MEDIAN_S
    steps = np.linspace(0.0, 1.0, _QUANTILES + 1)
    return {
        "format": 1,
        "trials": TRIALS,
        "divided_by": round(slower, 3),
        "recorded_median_s": {name: round(float(np.median(of)), 2) for name, of in jobs.items()},
        "quantiles_s": [round(float(q), 4) for q in np.quantile(together / slower, steps)],
    }


def _jobs_s(file: Path, rng: np.random.Generator) -> np.ndarray:
    with gzip.open(file, "rt", encoding="utf-8") as text:
        times = [one["times"] for one in json.load(text)["results"]]
    trials_ms = np.array([sum(one.get("runtimes", ())) + one["framework"] for one in times])
    draws = [rng.choice(trials_ms, TRIALS, replace=False).sum() for _ in range(_JOBS)]
    return np.array(draws) / 1e3


def load() -> np.ndarray:
    """The kept quantiles, in seconds."""
    return np.array(json.loads(_FILE.read_text(encoding="utf-8"))["quantiles_s"])


def draw(quantiles: np.ndarray, rng: np.random.Generator) -> float:
    """How long one job takes."""
    steps = np.linspace(0.0, 1.0, len(quantiles))
    return float(np.interp(rng.uniform(), steps, quantiles))


def main() -> None:
    """Derive and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    found = derive(parser.parse_args().folder, np.random.default_rng(0))
    _FILE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print({name: value for name, value in found.items() if name != "quantiles_s"})


if __name__ == "__main__":
    main()
