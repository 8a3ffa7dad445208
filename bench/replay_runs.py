"""Runs of searchers on recorded spaces, kept by what they depend on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import skipjack
from metaschedule import CACHE
from replay_kernel_tuner import KernelTuner, PeerRuns
from replay_spaces import Case
from skipjack.learn.replay import run_replay
from skipjack.search import names

RUNS = CACHE / "replay"
_CODE = ("core", "models", "search", "learn/replay", "learn/ranker")
_OPTUNA_CODE = ("search/optuna_samplers.py", "learn/replay/run.py", "learn/replay/space.py")
_PRIOR_BY_DEFAULT = "model"


def with_priors(searchers: Iterable[str], suffix: str) -> list[str]:
    """The searchers, and those that learn a second time: with recordings of other devices."""
    found = []
    for one in dict.fromkeys(searchers):
        found.append(one)
        if one.partition(":")[0] == _PRIOR_BY_DEFAULT:
            found.append(one + suffix)
    return list(dict.fromkeys(found))


def our_runs(case: Case, searcher: str, budget: int, seeds: Sequence[int], limit: int) -> PeerRuns:
    """A searcher of the registry with each seed, until the limit in seconds of a core."""
    name, _, prior = searcher.partition(" with ")
    trials = [other.trials for other in case.prior] if prior else []
    asked: dict[int, list[int]] = {}
    begun, ended = time.perf_counter(), time.process_time() + limit
    note = ""
    for seed in seeds:
        if asked and time.process_time() > ended:
            note = f"timed out after {limit} s of a core with {len(asked)} of {len(seeds)} seeds"
            break
        asked[seed] = list(run_replay(case.space, name, budget, seed, prior=trials).asked)
    return PeerRuns(asked, time.perf_counter() - begun, note)


class RunStore:
    """A file for each space, searcher, version of its code, and budget, with the runs by seed."""

    def __init__(self, folder: Path = RUNS) -> None:
        self._folder = folder

    def runs(
        self, case: Case, searcher: str, budget: int, seeds: Sequence[int], limit: int
    ) -> PeerRuns:
        """Of a searcher of the registry; a note if there is none of that name."""
        if (name := searcher.partition(":")[0].split(" ")[0]) not in names():
            return PeerRuns(note=f"there is no searcher {name}")
        prior = [space.name for space in case.prior] if " with " in searcher else []
        parts = [case.digest, searcher, _version(name), budget, prior]
        return self._kept(
            parts, seeds, limit, lambda new: our_runs(case, searcher, budget, new, limit)
        )

    def peer_runs(
        self,
        tuner: KernelTuner,
        case: Case,
        strategy: str,
        budget: int,
        seeds: Sequence[int],
        limit: int,
    ) -> PeerRuns:
        """Of a strategy of Kernel Tuner."""
        parts = [case.digest, strategy, tuner.version, _script_digest(), budget]
        return self._kept(
            parts, seeds, limit, lambda new: tuner.run(case, strategy, budget, new, limit)
        )

    def _kept(
        self,
        parts: Sequence[object],
        seeds: Sequence[int],
        limit: int,
        make: Callable[[Sequence[int]], PeerRuns],
    ) -> PeerRuns:
        """The runs with these seeds; those that are not kept are made now."""
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]
        path = self._folder / str(parts[0]) / f"{digest}.json"
        asked: dict[int, list[int]] = {}
        seconds, note, spent = 0.0, "", 0
        if path.is_file():
            kept = json.loads(path.read_text(encoding="utf-8"))
            asked = {int(seed): found for seed, found in kept["asked"].items()}
            seconds, note, spent = kept["seconds"], kept["note"], kept["limit"]
        missing = [seed for seed in seeds if seed not in asked]
        if missing and not (note and spent >= limit):
            made = make(missing)
            asked, seconds, note = asked | made.asked, seconds + made.seconds, made.note
            fields = {"of": parts, "asked": asked, "seconds": seconds, "note": note, "limit": limit}
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_suffix(".new")
            unfinished.write_text(json.dumps(fields), encoding="utf-8")
            unfinished.replace(path)
        return PeerRuns({seed: asked[seed] for seed in seeds if seed in asked}, seconds, note)


@cache
def _script_digest() -> str:
    script = Path(__file__).resolve().parent / "peers" / "kernel_tuner_replay.py"
    return hashlib.sha256(script.read_bytes()).hexdigest()[:12]


@cache
def _version(name: str) -> str:
    """Of the code that a searcher consists of."""
    if name == "optuna":
        return f"{importlib.metadata.version('optuna')} {_digest(_OPTUNA_CODE)}"
    return _digest(_CODE)


def _digest(parts: Sequence[str]) -> str:
    root, digest = Path(skipjack.__file__).parent, hashlib.sha256()
    for part in parts:
        place = root / part
        for path in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(path.read_bytes() if path.is_file() else b"")
    return digest.hexdigest()[:12]
