"""Steps of unchanged networks, tuned by one short run, against plain eager PyTorch, end to end.

For each network, batch and number of threads: one run under ``skipjack exec --policy incremental``
from an empty user directory and without the bank that comes with Skipjack; then, in one process for
each case, blocks of steps with the hook enabled and undone by turns. Run as ``make bench-torch``.
A run of all cases that was interrupted goes on where it was; ``--limit`` ends it early by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import machine
import torch_summary
from journal import Journal, code_digest
from metaschedule import CACHE
from sitting import thread_counts
from skipjack.native import cpu
from torch_models import DTYPES, MODELS, MODES, Place
from torch_summary import Record

NAME = "torch_steps"
_CHILD = Path(__file__).with_name("torch_child.py")
_BATCHES = (1, 16)
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Tuned:
    """What one tuning run serves: both modes of a network."""

    model: str
    batch: int
    threads: int

    @property
    def name(self) -> str:
        return f"{self.model} b{self.batch} t{self.threads}"

    def case(self, mode: str) -> str:
        return f"{self.name} {mode}"


@dataclass(frozen=True, slots=True)
class Options:
    """What was asked for."""

    models: tuple[str, ...]
    modes: tuple[str, ...]
    batches: tuple[int, ...]
    threads: tuple[int, ...]
    place: Place
    seconds: float
    """Of tuning, for each problem."""
    case_seconds: float
    limit_s: float
    again: bool
    retime: bool
    json: Path | None

    @property
    def tuned(self) -> list[Tuned]:
        """The quickest first: an interrupted run has seen as many networks as possible."""
        return [
            Tuned(model, batch, threads)
            for batch in self.batches
            for threads in self.threads
            for model in self.models
        ]

    @property
    def cases(self) -> list[str]:
        return [one.case(mode) for one in self.tuned for mode in self.modes]

    @property
    def whole(self) -> bool:
        """Whether this is the benchmark as it is reported, and not a part of it."""
        asked = (set(self.models), set(self.modes), set(self.batches), set(self.threads))
        return asked == (set(MODELS), set(MODES), set(_BATCHES), {1, 2})

    @property
    def label(self) -> str:
        where = cpu.detect().arch if self.place.device == "cpu" else self.place.device
        return f"{NAME}_{where}_{self.place.dtype}"

    def settings(self) -> Record:
        return {
            "place": asdict(self.place),
            "tuning_seconds": self.seconds,
            "case_seconds": self.case_seconds,
            "policy": "incremental",
        }


def parse_options(argv: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS), help="some of them, with commas")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--batches", default=",".join(map(str, _BATCHES)))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--dtype", default="f32", choices=tuple(DTYPES))
    parser.add_argument("--seconds", type=float, default=2.0, help="of tuning, for each problem")
    parser.add_argument("--case-seconds", type=float, default=20.0, help="of timing, for each case")
    parser.add_argument("--limit", type=float, default=float("inf"), help="in minutes, for all")
    parser.add_argument("--quick", action="store_true", help="batches of 1 on one thread")
    parser.add_argument("--again", action="store_true", help="do what was done before once more")
    parser.add_argument(
        "--retime", action="store_true", help="time once more what was tuned and timed before"
    )
    parser.add_argument("--json", type=Path, help="where to write the result")
    args = parser.parse_args(argv)
    if unknown := set(args.models.split(",")) - set(MODELS):
        parser.error(f"no such network: {', '.join(sorted(unknown))}; known: {', '.join(MODELS)}")
    if unknown := set(args.modes.split(",")) - set(MODES):
        parser.error(f"no such mode: {', '.join(sorted(unknown))}; known: {', '.join(MODES)}")
    return Options(
        models=tuple(args.models.split(",")),
        modes=tuple(args.modes.split(",")),
        batches=(1,) if args.quick else tuple(map(int, args.batches.split(","))),
        threads=(1,) if args.quick else tuple(thread_counts(args.threads)),
        place=Place(args.device, args.dtype),
        seconds=args.seconds,
        case_seconds=args.case_seconds,
        limit_s=args.limit * 60,
        again=args.again,
        retime=args.retime,
        json=args.json,
    )


class Bench:
    """Children that tune and time, each with the user directory of its network."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._root = CACHE / options.label
        self._code = code_digest()

    def tune(self, one: Tuned) -> Record:
        """A run of the program under ``skipjack exec``, with nothing known before."""
        shutil.rmtree(self._directory(one), ignore_errors=True)
        self._directory(one).mkdir(parents=True)
        started = time.monotonic()
        seconds = str(self._options.seconds)
        under = (str(_program()), "exec", "--policy", "incremental", "--seconds", seconds, "--")
        self._child(one, under, "run", ",".join(self._options.modes))
        return {
            "case": tuning_of(one),
            "tuning_run_seconds": round(time.monotonic() - started, 1),
        }

    def time(self, one: Tuned, mode: str) -> Record:
        """A case; raises ``ChildError`` if its process failed."""
        seconds = str(self._options.case_seconds)
        found = self._child(one, (), "time", mode, "--seconds", seconds)
        return {
            "case": one.case(mode),
            "model": one.model,
            "kind": MODELS[one.model].kind,
            "mode": mode,
            "batch": one.batch,
            "threads": one.threads,
            "date": machine.now(),
            "code": self._code,
            **found,
        }

    def _child(self, one: Tuned, under: Sequence[str], action: str, *rest: str) -> Record:
        modes, *options = rest
        place = self._options.place
        command = [
            *under,
            *(sys.executable, str(_CHILD), action, one.model, modes, str(one.batch), *options),
            *("--threads", str(one.threads), "--device", place.device, "--dtype", place.dtype),
        ]
        memory = {} if under else machine.MEMORY  # workers place their arrays as they always do
        environment = self._environment(one) | memory
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ChildError(done.returncode, (done.stderr or done.stdout).splitlines())
        record: Record = json.loads(done.stdout.splitlines()[-1])
        return record

    def _environment(self, one: Tuned) -> dict[str, str]:
        own = self._directory(one)
        nothing = self._root / "no-system-bank"
        nothing.mkdir(parents=True, exist_ok=True)
        return os.environ | {
            "SKIPJACK_USER_DB_PATH": str(own),
            "SKIPJACK_SYSTEM_DB_PATH": str(nothing),
            "OMP_NUM_THREADS": str(one.threads),
            "MKL_NUM_THREADS": str(one.threads),
        }

    def _directory(self, one: Tuned) -> Path:
        return self._root / one.name.replace(" ", "-")


def tuning_of(one: Tuned) -> str:
    """The name of its tuning run among the records."""
    return f"{one.name} tuning"


class ChildError(Exception):
    """A process ended without a record."""

    def __init__(self, code: int, lines: Sequence[str]) -> None:
        super().__init__(f"exit code {code}\n  " + "\n  ".join(lines[-_LAST_LINES:]))


def _program() -> Path:
    return Path(sys.executable).with_name("skipjack")


def measure(options: Options, journal: Journal) -> bool:
    """The cases that are not done yet; whether all of these went well."""
    ends = time.monotonic() + options.limit_s
    bench = Bench(options)
    well = True
    print(torch_summary.heading(), flush=True)
    for one in options.tuned:
        left = [mode for mode in options.modes if one.case(mode) not in journal.records]
        if left and time.monotonic() > ends:
            print("the time is over; the next run goes on here", flush=True)
            break
        try:
            if left and tuning_of(one) not in journal.records:
                journal.add(bench.tune(one))
            for mode in left:
                journal.add(bench.time(one, mode))
                print(torch_summary.line(journal.records[one.case(mode)]), flush=True)
        except ChildError as error:
            well = False
            print(f"{one.name} failed: {error}", flush=True)
    return well


def report(options: Options, journal: Journal) -> None:
    """Print the means and write what is there."""
    done = [journal.records[name] for name in options.cases if name in journal.records]
    names = map(tuning_of, options.tuned)
    tunings = [journal.records[name] for name in names if name in journal.records]
    summary = torch_summary.summarize(done)
    print("\n".join(torch_summary.lines(summary)))
    device = cpu.detect(max(options.threads, default=1))
    result = machine.header(NAME, device, range(device.cores))
    if options.place.device == "cuda":
        result["gpu"] = _gpu_name()
    complete = len(done) == len(options.cases)
    result |= {"settings": options.settings(), "complete": complete, "summary": summary}
    result |= {"tunings": tunings, "cases": done}
    folder = machine.RESULTS if options.whole and complete else CACHE
    machine.write_result(options.json or folder / f"{options.label}.json", result)


def _gpu_name() -> str:
    import torch

    return torch.cuda.get_device_name()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    options = parse_options(argv)
    circumstances = {"settings": options.settings(), "versions": machine.versions()}
    journal = Journal(CACHE / f"{options.label}.jsonl", circumstances)
    tunings = [tuning_of(one) for one in options.tuned] if options.again else []
    if options.again or options.retime:
        for name in (*options.cases, *tunings):
            journal.records.pop(name, None)
    well = measure(options, journal)
    report(options, journal)
    return 0 if well else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; the next run goes on here")
