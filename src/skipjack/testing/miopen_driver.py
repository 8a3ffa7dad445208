"""A stand-in for MIOpenDriver, which prints the same output and writes the same databases.

It computes nothing. Times follow from the sizes and the solver's name, so that two runs agree. Its
output follows the program's published sources and logs in public reports; it was not compared with
the real program. `install` creates the program. ``STAND_IN_DRIVER`` is a list of misbehaviours with
commas between them: see `BEHAVIOURS`.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skipjack.core import Problem
from skipjack.interop import CONV, parse_driver
from skipjack.interop.miopen import (
    DatabaseRecord,
    DbName,
    FileKind,
    FindResultLine,
    KernelRow,
    RecordItem,
    algorithm_name,
    db_name,
    find_item,
    find_key,
    find_results,
    parse_find_key,
    perf_key,
    read_kernel_db,
    read_text_db,
    write_kernel_db,
    write_text_db,
)

VARIABLE = "STAND_IN_DRIVER"
DEVICE_VARIABLE = "STAND_IN_DEVICE"
"""The device, as ``gfx908/120``."""
PIDS_VARIABLE = "STAND_IN_PIDS"
"""A file for the process ids of the processes that hang."""
BEHAVIOURS = {
    "crash": "is ended by a signal before it has found anything",
    "hang": "never ends, nor does its child process",
    "garbage": "prints nonsense, writes nothing, and ends with status 0",
    "unknown-flag": "does not know -s, says so, and ends with status 0",
    "wrong": "says that the result is wrong, and ends with status 0, as 0x100 does in eight bits",
    "silent": "does everything but write a find-db record",
    "zero": "stores times that are zero or negative for some solvers",
    "hopeless": "likewise, and its immediate mode has no times either",
    "failing": "cannot run: no algorithm fits",
}
VERSION, BUILD = "3.2.0", "a1b2c3d"
_STEPS = {"fwd": "Forward", "bwd": "Backward Data", "wrw": "Backward Weights"}
_CHECKS = {"fwd": "", "bwd": " Data", "wrw": " Weights"}
_LETTERS = {"F": "fwd", "B": "bwd", "W": "wrw"}
_WORDS = {"fwd": "Fwd", "bwd": "Bwd", "wrw": "Wrw"}


@dataclass(frozen=True, slots=True)
class StandInSolver:
    """A solver of the stand-in."""

    number: int
    name: str
    family: str
    tunable: bool
    workspace_bytes: int = 0

    def time_ms(self, problem: Problem, tuned: bool) -> float:
        """An invented time, which is always the same."""
        text = f"{self.name} {problem.key}"
        draw = hashlib.sha256(text.encode()).digest()[0] / 256
        return (0.02 + draw) * (0.5 if tuned and self.tunable else 1.0)


def solvers(direction: str) -> tuple[StandInSolver, ...]:
    """The solvers for a direction."""
    word = _WORDS[direction]
    return (
        StandInSolver(16, "ConvAsm1x1U", "Direct", True),
        StandInSolver(85, f"ConvDirectNaiveConv{word}", "Direct", False),
        StandInSolver(91, f"Gemm{word}Rest", "GEMM", False, 903168),
        StandInSolver(53, "ConvBinWinogradRxSf2x3g1", "Winograd", True),
        StandInSolver(114, f"ConvAsmImplicitGemmGTCDynamic{word}Xdlops", "ImplicitGEMM", True),
    )


def install(folder: Path) -> Path:
    """Create the program in a folder, and return its path."""
    path = folder / "MIOpenDriver"
    path.write_text(
        f"#!{sys.executable}\nfrom skipjack.testing.miopen_driver import main\n\nmain()\n"
    )
    path.chmod(0o755)
    return path


def main(words: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> None:
    """Behave like MIOpenDriver."""
    arguments = list(sys.argv[1:] if words is None else words)
    if arguments == ["--version"]:
        print(f"MIOpen (version: {VERSION})")
        return
    print("MIOpenDriver", *arguments, flush=True)
    misbehaviour = set(filter(None, environment.get(VARIABLE, "").split(",")))
    if _is_probe(arguments):  # so that it is what comes afterwards that fails
        misbehaviour = set()
    _misbehave(misbehaviour, environment)
    if "unknown-flag" in misbehaviour and "-s" in arguments:
        print("Input Flag: s Not Found !", end="")
        return
    _Run(arguments, environment, misbehaviour).go()


def _is_probe(arguments: Sequence[str]) -> bool:
    return shlex.join(arguments).startswith("conv -n 1 -c 1 -H 4 -W 4 -k 1 ")


def _misbehave(how: set[str], environment: Mapping[str, str]) -> None:
    if "crash" in how:
        print("Memory access fault by GPU node-1 on address 0x118114f000.", file=sys.stderr)
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGABRT)
    if "hang" in how:
        os.fork()
        if PIDS_VARIABLE in environment:
            with Path(environment[PIDS_VARIABLE]).open("a") as file:
                file.write(f"{os.getpid()}\n")
        time.sleep(3600)
    if "garbage" in how:
        print("\x00\x1b[31m?? 0x7f; ; == ::: Conv. Elapsed: soon ms")
        raise SystemExit(0)
    if "failing" in how:
        print("MIOpen(HIP): Error [FindConvolution] No suitable algorithm was found", flush=True)
        print("RunForwardGPU() FAILED, rc = 0x7")
        raise SystemExit(7)


class _Run:
    """A command."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str], misbehaviour: set[str]
    ) -> None:
        self._flags = _flags(arguments)
        self._environment, self._how = environment, misbehaviour
        (problem,) = parse_driver("MIOpenDriver " + shlex.join(arguments))
        assert isinstance(problem, Problem), problem
        self._problem = problem
        parts = parse_find_key(find_key(problem))
        assert parts
        # A transposed convolution is a plain one of another direction.
        self._direction = _LETTERS[parts.direction]
        arch, _, units = environment.get(DEVICE_VARIABLE, "gfx908/120").partition("/")
        self._arch, self._units = arch, int(units)
        self._user_db = Path(environment["MIOPEN_USER_DB_PATH"])
        self._cache = Path(environment["MIOPEN_CUSTOM_CACHE_DIR"])

    def go(self) -> None:
        """Find, run, compare."""
        print("PRNG seed: 12345678")
        immediate = self._flags.get("solution", "-1")
        chosen = self._immediate(immediate) if immediate != "-1" else self._found()
        self._print_times(*chosen)
        if self._flags.get("verify", "1") == "1":
            self._print_check()

    def _immediate(self, solver: str) -> tuple[StandInSolver, float]:
        (one,) = (each for each in self._solvers() if solver in (each.name, str(each.number)))
        self._compile([one])
        return one, 0.0 if "hopeless" in self._how else one.time_ms(self._problem, tuned=True)

    def _found(self) -> tuple[StandInSolver, float]:
        mode = self._environment.get("MIOPEN_FIND_MODE", "5")
        stored = self._record("find", find_key(self._problem))
        if mode in ("2", "3", "5") and stored is not None:
            best = min(find_results(stored), key=lambda line: line.time_ms)
            (one,) = (each for each in self._solvers() if each.name == best.solver)
            self._compile([one])
            return one, best.time_ms
        tuned = self._tuned()
        self._compile(self._solvers())
        lines = [self._line(one, one.name in tuned) for one in self._solvers()]
        if "silent" not in self._how:
            self._store("find", DatabaseRecord(find_key(self._problem), map(find_item, lines)))
        times = {one: one.time_ms(self._problem, one.name in tuned) for one in self._solvers()}
        winner = min(times, key=lambda one: times[one])
        return winner, times[winner]

    def _solvers(self) -> list[StandInSolver]:
        only = self._environment.get("MIOPEN_DEBUG_FIND_ONLY_SOLVER", "")
        wanted = set(filter(None, only.split(";")))
        known = solvers(self._direction)
        return [one for one in known if not wanted or {one.name, str(one.number)} & wanted]

    def _tuned(self) -> set[str]:
        """Search if that is enforced, or requested and needed; the solvers with parameters."""
        key = perf_key(self._problem)
        stored = self._record("perf", key)
        known = {item.id: item.values for item in stored.items} if stored else {}
        enforce = self._environment.get("MIOPEN_FIND_ENFORCE", "1")
        if enforce in ("3", "4") or self._flags.get("search", "0") == "1":
            for one in self._solvers():
                if one.tunable and (enforce == "4" or one.name not in known):
                    note = f"{one.name}, enforce: SEARCH_DB_UPDATE({enforce})"
                    print(f"MIOpen(HIP): Warning [FindSolutionImpl] Perf Db: load skipped: {note}")
                    known[one.name] = f"{one.number % 8},8,16,{one.number}"
            items = [RecordItem(name, values) for name, values in known.items()]
            self._store("perf", DatabaseRecord(key, items))
        return set(known)

    def _line(self, one: StandInSolver, tuned: bool) -> FindResultLine:
        time_ms = one.time_ms(self._problem, tuned)
        if self._how & {"zero", "hopeless"}:
            time_ms = {"GEMM": 0.0, "Winograd": -1.2}.get(one.family, time_ms)
        algorithm = algorithm_name(self._direction, one.family)
        return FindResultLine(one.name, time_ms, one.workspace_bytes, algorithm)

    def _compile(self, wanted: Sequence[StandInSolver]) -> None:
        self._cache.mkdir(parents=True, exist_ok=True)
        path = self._cache / db_name(DbName("user_kernel", self._arch, self._units))
        rows = list(read_kernel_db(path)) if path.exists() else []
        there = {(row.name, row.args) for row in rows}
        for one in wanted:
            if one.family != "GEMM":  # whose kernels are in a library
                name, args = f"{one.name}.s.o", f"-Wa,-defsym,id={one.number} -mcpu={self._arch}"
                code = f"code of {one.name}".encode() * 50
                if (name, args) not in there:
                    rows.append(KernelRow(name, args, code))
        write_kernel_db(path, rows)

    def _file(self, kind: FileKind) -> Path:
        version = f"{VERSION.replace('.', '_')}_{BUILD}"
        return self._user_db / db_name(DbName(kind, self._arch, self._units, user_version=version))

    def _record(self, kind: FileKind, key: str) -> DatabaseRecord | None:
        path = self._file(kind)
        records = read_text_db(path) if path.exists() else []
        return next((record for record in records if record.key == key), None)

    def _store(self, kind: FileKind, record: DatabaseRecord) -> None:
        self._user_db.mkdir(parents=True, exist_ok=True)
        path = self._file(kind)
        others = read_text_db(path) if path.exists() else []
        kept = [other for other in others if other.key != record.key]
        write_text_db(path, [*kept, record])

    def _print_times(self, one: StandInSolver, time_ms: float) -> None:
        step = _STEPS[self._problem.direction]
        print(f"MIOpen {step} Conv. Algorithm: 1, Solution: {one.number}/{one.name}")
        print(f"GPU Kernel Time {step} Conv. Elapsed: {time_ms:f} ms (average)")
        print(
            "stats: name, n, c, ho, wo, y, x, k, flopCnt, bytesRead, bytesWritten, GFLOPs, GB/s, "
            "timeMs"
        )

    def _print_check(self) -> None:
        what = f"{_STEPS[self._problem.direction].split()[0]} Convolution"
        what += _CHECKS[self._problem.direction]
        if "wrong" in self._how:
            print(f"{what} FAILED: 0.032568 > 0.01", flush=True)
            raise SystemExit(0x100 & 0xFF)
        print(f"{what} Verifies OK on GPU reference (2.87131e-07 < 1.5e-06)")


def _flags(arguments: Sequence[str]) -> dict[str, str]:
    """The flags by long name; unknown ones end the program like the real one."""
    letters = {flag.letter: flag.name for flag in CONV}
    names = set(letters.values())
    found = {}
    for flag, value in zip(arguments[1::2], arguments[2::2], strict=False):
        name = flag[2:] if flag.startswith("--") else letters.get(flag[1:2], "")
        if name not in names:
            word = f"Long Name: {flag[2:]}" if flag.startswith("--") else f"Input Flag: {flag[1:2]}"
            print(f"{word} Not Found !", end="")
            raise SystemExit(0)
        found[name] = value
    return found


if __name__ == "__main__":
    main()
