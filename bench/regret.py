"""How good the answers of `skipjack.lookup` are, and how sure.

Some problems are tuned again and again, each time with nothing known, and once for longer. The
tunings tell

- how often the winner is another one (flip rate),
- how much slower what a lookup gives is than the best known (regret): without any bank, with the
  bank of one tuning, and with the banks of all of them merged. The best known is the fastest of
  all winners and of the fastest trial of every tuning, whether that was confirmed or not,
- whether a program runs what was chosen (replay fidelity): in another process, with the user
  directory of each tuning, a lookup must give the solver, the config and the very machine code of
  the bank's entry.

Then a few shapes are tuned, and lookups ask for others within one doubling of every size, which the
nearest of them answers (bucket transfer). That is timed beside what a tuning of the very shape
gives, and beside a solver's first proposal.

Everything of one problem is timed in turns, in interleaved rounds, called from Python. The system's
bank is an empty one. About three minutes; ``--quick`` for an impression.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import calls
import machine
import skipjack
from metaschedule import CACHE
from skipjack.bank import FILE_NAME, Bank, BankEntry
from skipjack.core import Config, Problem
from skipjack.errors import UsageError
from skipjack.execute import paired_ratio, summarize
from skipjack.native import cpu
from skipjack.operations import get, outputs, parse
from skipjack.runtime import explain
from skipjack.runtime.answers import LookupAnswer
from skipjack.settings import Settings, load_settings
from skipjack.tuning import Tuner, make_budget
from skipjack.tuning.study import TuneOptions, TuneResult
from tuned import blank_memory

PROBLEMS = (
    *("matmul:64x64x64", "matmul:112x256x64", "matmul:192x192x192"),
    *("add:65536", "softmax:256x1024", "sum:1024x1024/axis=1"),
)
TUNED_SHAPES = (
    *("matmul:128x128x128", "matmul:64x512x256", "softmax:256x512"),
    *("sum:512x1024/axis=1", "layernorm:128x768", "conv2d:n1c64h28w28k64y3x3p1q1"),
)
NEAR_SHAPES = (
    *("matmul:96x96x96", "matmul:160x160x160", "matmul:200x200x200", "matmul:100x600x200"),
    *("matmul:48x400x300", "softmax:300x700", "sum:700x1500/axis=1", "layernorm:200x1024"),
    "conv2d:n1c48h40w40k96y3x3p1q1",
)
"""Each within one doubling of one above, in every size."""
NOTICED = 0.02
"""A regret that is larger is counted."""
UNKNOWN, MERGED, LONGER = "unknown", "merged", "longer"
NEAREST, PROPOSAL, OWN = "nearest", "proposal", "own"
_PATIENCE_S = 60.0

_REPLAY = """
import json, sys, time
import skipjack
from skipjack.runtime import explain
from skipjack.runtime.local_kernels import kernel
from skipjack.settings import load_settings
patience_s, system = float(sys.argv[1]), sys.argv[2]
for key, directory in json.loads(sys.stdin.read()):
    settings = load_settings(user_dir=directory, system_dir=system)
    until = time.monotonic() + patience_s
    found = skipjack.lookup(key, settings=settings)
    while found.source == "library" and time.monotonic() < until:
        time.sleep(0.05)  # a kernel is verified beside the program
        found = skipjack.lookup(key, settings=settings)
    code = getattr(found, "_code", None)
    digests = [name[0] for name, loaded in kernel._loaded.items() if loaded is code]
    chosen = explain(key, settings=settings).decision.answer
    print(json.dumps({"source": found.source, "solver": found.solver,
                      "config": dict(chosen.config), "code": (digests or [None])[0]}))
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is tuned, how often and how long."""

    problems: tuple[str, ...]
    tunings: int
    seconds: float
    longer_seconds: float
    """Of the one tuning of each problem that only helps to know what is best."""
    tuned_shapes: tuple[str, ...]
    near_shapes: tuple[str, ...]


WHOLE = Plan(PROBLEMS, 10, 1.0, 5.0, TUNED_SHAPES, NEAR_SHAPES)
QUICK = Plan(PROBLEMS[::4], 3, 0.5, 1.0, TUNED_SHAPES[::3], (NEAR_SHAPES[0], NEAR_SHAPES[6]))

Record = dict[str, Any]


class Bench:
    """The user directories of all tunings, below one root."""

    def __init__(self, plan: Plan, root: Path) -> None:
        self._plan, self._root = plan, root
        self._system = root / "system"
        self._system.mkdir()
        (self._system / FILE_NAME).touch()
        self._results: dict[str, list[TuneResult]] = {}
        """Of the problems that are tuned repeatedly; the last one is the longer tuning."""

    def run(self) -> Record:
        """Tune everything, then look up, then time."""
        self._tune()
        replayed = self._replay()
        print(f"replay: {replayed['same']} of {replayed['lookups']} the same", flush=True)
        # Answers are found before the first is timed: that keeps this process on one core.
        repeated = {key: self._repeated(key) for key in self._plan.problems}
        moved = {key: self._moved(key) for key in self._plan.near_shapes}
        problems = []
        for key, found in repeated.items():
            regrets = timed_regrets(parse(key, "f32"), found)
            problems.append(problem_record(key, found, regrets, self._outcomes(key)))
            print(problem_line(problems[-1]), flush=True)
        transfer = []
        for key, found in moved.items():
            transfer.append(transfer_record(key, found))
            print(transfer_line(transfer[-1]), flush=True)
        return {
            "summary": summary(problems, replayed, transfer),
            "problems": problems,
            "replay": replayed,
            "transfer": transfer,
        }

    def _tune(self) -> None:
        settings = load_settings(user_dir=self._root / "tuner")
        plan = self._plan
        with Tuner(settings, cpu.detect(1), print) as tuner:
            tuner.context.peaks()  # otherwise the first problem would wait for them
            for key in plan.problems:
                times = [*[plan.seconds] * plan.tunings, plan.longer_seconds]
                self._results[key] = [
                    self._tuned(tuner, key, self._place(key, number), seconds)
                    for number, seconds in enumerate(times)
                ]
                print(f"{key}: {', '.join(self._outcomes(key))}", flush=True)
            for key in plan.tuned_shapes:
                self._tuned(tuner, key, self._root / "shapes", plan.seconds)
            for key in plan.near_shapes:
                self._tuned(tuner, key, self._place(key, 0), plan.seconds)

    def _tuned(self, tuner: Tuner, key: str, place: Path, seconds: float) -> TuneResult:
        place.mkdir(exist_ok=True)
        options = TuneOptions(budget=make_budget(None, seconds))
        with blank_memory(tuner.context, place):
            return tuner.tune(parse(key, "f32"), options)

    def _outcomes(self, key: str) -> list[str]:
        return [str(result.status) for result in self._results[key][: self._plan.tunings]]

    def _place(self, key: str, number: int) -> Path:
        """The user directory of one tuning."""
        names = (*self._plan.problems, *self._plan.near_shapes)
        return self._root / f"{names.index(key)}-{number}"

    def _settings(self, place: Path) -> Settings:
        place.mkdir(exist_ok=True)
        return load_settings(user_dir=place, system_dir=self._system)

    def _answer(self, key: str, place: Path) -> LookupAnswer:
        answer = explain(key, settings=self._settings(place)).decision.answer
        assert answer is not None, "NumPy computes all of these"
        return answer

    def _replay(self) -> Record:
        """What another process runs, beside what the banks hold."""
        asked = [
            (key, self._place(key, number))
            for key in self._plan.problems
            for number in range(self._plan.tunings)
        ]
        words = [sys.executable, "-c", _REPLAY, str(_PATIENCE_S), str(self._system)]
        told = subprocess.run(
            words,
            input=json.dumps([(key, str(place)) for key, place in asked]),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.splitlines()
        found = []
        for (key, place), line in zip(asked, told, strict=True):
            problem, device = parse(key, "f32"), cpu.detect(1)
            entry = Bank.open(place).lookup(problem.key, device.class_key)
            found.append((key, entry, json.loads(line)))
        return replay_record(found)

    def _repeated(self, key: str) -> dict[str, LookupAnswer]:
        """What lookups give without a bank, with that of each tuning, and with all of them."""
        places = [self._place(key, number) for number in range(self._plan.tunings)]
        merged = Bank.open(self._settings(self._root / "merged").user_dir)
        for place in places:
            if (place / FILE_NAME).is_file():
                merged.merge(place / FILE_NAME)
        found = {str(number): self._answer(key, place) for number, place in enumerate(places)}
        found[MERGED] = self._answer(key, self._root / "merged")
        found[UNKNOWN] = self._answer(key, self._root / "nothing")
        found[LONGER] = self._answer(key, self._place(key, self._plan.tunings))
        return found | self._fastest_trials(key)

    def _fastest_trials(self, key: str) -> dict[str, LookupAnswer]:
        found = {}
        for number, result in enumerate(self._results[key]):
            solver, config = fastest_trial(result)
            settings = self._settings(self._root / "nothing")
            try:
                kernel = skipjack.lookup(key, solver=solver, config=config, settings=settings)
            except UsageError as error:
                print(error, flush=True)
                continue
            assert kernel is not None
            found[f"trial {number}"] = LookupAnswer(kernel, kernel.source, config)
        return found

    def _moved(self, key: str) -> dict[str, LookupAnswer]:
        return {
            OWN: self._answer(key, self._place(key, 0)),
            NEAREST: self._answer(key, self._root / "shapes"),
            PROPOSAL: self._answer(key, self._root / "nothing"),
        }


def fastest_trial(result: TuneResult) -> tuple[str, Config]:
    """Of the search of one tuning."""
    scores = [score for score in result.solvers if score.time_ns is not None]
    trials = [trial for trial in result.trials if trial.ok and trial.value is not None]
    solver = min(scores, key=lambda score: score.time_ns or 0.0).solver
    return solver, min(trials, key=lambda trial: trial.value or 0.0).config


def choice(answer: LookupAnswer) -> str:
    """Solver and config: answers with equal ones are the same."""
    return f"{answer.kernel.solver} {Config(answer.config).key}"


def timed_regrets(problem: Problem, answers: Mapping[str, LookupAnswer]) -> dict[str, float]:
    """How much longer each takes than the fastest of them, as a share; timed in turns."""
    distinct = {choice(answer): answer for answer in answers.values()}
    arrays = calls.arrays_of(problem)
    inputs = [arrays[tensor.name] for tensor in get(problem.operation).inputs(problem)]
    out = {tensor.name: arrays[tensor.name] for tensor in outputs(problem)}
    blocks = calls.timed(
        {name: answer.kernel.bind(*inputs, out=out) for name, answer in distinct.items()}
    )
    best = min(blocks, key=lambda name: summarize(blocks[name]).time_ns)
    regrets = {name: paired_ratio(mine, blocks[best]).ratio - 1 for name, mine in blocks.items()}
    return {who: round(regrets[choice(answer)], 4) for who, answer in answers.items()}


def problem_record(
    key: str,
    answers: Mapping[str, LookupAnswer],
    regrets: Mapping[str, float],
    outcomes: Sequence[str],
) -> Record:
    """Flips and regrets of one problem; tunings are named by their numbers."""
    numbers = [name for name in answers if name.isdecimal()]
    flipped, winners = flips([choice(answers[name]) for name in numbers])
    mine = [regrets[name] for name in numbers]
    best = min(answers, key=lambda name: regrets[name])
    return {
        "problem": key,
        "tunings": len(numbers),
        "outcomes": dict(Counter(outcomes)),
        "winners": winners,
        "flips": flipped,
        "noticed": sum(regret > NOTICED for regret in mine),
        "regret": {
            "one_median": round(statistics.median(mine), 4),
            "one_worst": max(mine),
            MERGED: regrets[MERGED],
            LONGER: regrets[LONGER],
            UNKNOWN: regrets[UNKNOWN],
        },
        "unknown_source": answers[UNKNOWN].source,
        "best": {"solver": answers[best].kernel.solver, "config": dict(answers[best].config)},
    }


def flips(choices: Sequence[str]) -> tuple[int, int]:
    """How many differ from the most frequent, and how many there are."""
    counted = Counter(choices)
    return len(choices) - counted.most_common(1)[0][1], len(counted)


def replay_record(found: Sequence[tuple[str, BankEntry | None, Record]]) -> Record:
    """What programs run beside the entries; a tuning that banked nothing has none."""
    banked = [(key, entry, told) for key, entry, told in found if entry is not None]
    differences = [
        {"problem": key, "banked": _banked(entry), "run": told}
        for key, entry, told in banked
        if told != _banked(entry)
    ]
    return {
        "lookups": len(banked),
        "same": len(banked) - len(differences),
        "without_entry": len(found) - len(banked),
        "differences": differences,
    }


def _banked(entry: BankEntry) -> Record:
    return {
        "source": "user",
        "solver": entry.solver,
        "config": dict(entry.config),
        "code": entry.launch.artifact if entry.launch else None,
    }


def transfer_record(key: str, answers: Mapping[str, LookupAnswer]) -> Record:
    """How much slower than the tuning of the very shape, as a share; may be below 0."""
    regrets = timed_regrets(parse(key, "f32"), answers)
    own = 1 + regrets[OWN]
    return {
        "problem": key,
        "source": answers[NEAREST].source,
        "solver": answers[NEAREST].kernel.solver,
        "own_solver": answers[OWN].kernel.solver,
        "proposal_source": answers[PROPOSAL].source,
        **{name: round((1 + regrets[name]) / own - 1, 4) for name in (NEAREST, PROPOSAL)},
    }


def summary(problems: Sequence[Record], replay: Record, transfer: Sequence[Record]) -> Record:
    """Over all problems."""
    tunings = sum(one["tunings"] for one in problems)
    near = [one for one in transfer if one["source"] == NEAREST]
    kinds = ("one_median", "one_worst", MERGED, LONGER, UNKNOWN)
    return {
        "flip_rate": round(sum(one["flips"] for one in problems) / tunings, 4),
        "noticed_rate": round(sum(one["noticed"] for one in problems) / tunings, 4),
        "noticed": NOTICED,
        "regret": {kind: _mean([one["regret"][kind] for one in problems]) for kind in kinds},
        "worst_regret": max(one["regret"]["one_worst"] for one in problems),
        "replay_fidelity": replay["same"] / replay["lookups"] if replay["lookups"] else None,
        "nearest_answers": f"{len(near)} of {len(transfer)}",
        "transfer_regret": _mean([one[NEAREST] for one in near]) if near else None,
        "worst_transfer": max((one[NEAREST] for one in near), default=None),
        "proposal_regret": _mean([one[PROPOSAL] for one in near]) if near else None,
    }


def _mean(regrets: Sequence[float]) -> float:
    """Of how many times longer it takes, the geometric one."""
    return round(statistics.geometric_mean([1 + regret for regret in regrets]) - 1, 4)


def problem_line(record: Record) -> str:
    """For people."""
    regret = record["regret"]
    return (
        f"{record['problem']}: {record['flips']} of {record['tunings']} flips among "
        f"{record['winners']} winners; regret of one {regret['one_median']:.1%}, at most "
        f"{regret['one_worst']:.1%}, merged {regret[MERGED]:.1%}, unknown {regret[UNKNOWN]:.1%} "
        f"({record['unknown_source']})"
    )


def transfer_line(record: Record) -> str:
    """For people."""
    return (
        f"{record['problem']}: {record['source']} {record[NEAREST]:+.1%}, "
        f"{record['proposal_source']} {record[PROPOSAL]:+.1%} beside a tuning of its own"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; 1 if a program did not run what was chosen."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few problems, three short tunings")
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    machine.library_threads(1)
    plan, device = QUICK if args.quick else WHOLE, cpu.detect(1)
    core = max(cpu.usable_cores())
    with tempfile.TemporaryDirectory(prefix="skipjack-bench-") as name:
        found = Bench(plan, Path(name)).run()
    settings = {**asdict(plan), "threads": 1, "dtype": "f32", "noticed": NOTICED}
    result = machine.header("regret", device, [core]) | {"settings": settings} | found
    place = (CACHE if args.quick else machine.RESULTS) / f"regret_{device.arch}.json"
    print(json.dumps(found["summary"], indent=1))
    machine.write_result(args.json or place, result)
    return int(found["replay"]["same"] != found["replay"]["lookups"])


if __name__ == "__main__":
    sys.exit(main())
