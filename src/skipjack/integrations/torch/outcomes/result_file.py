"""What was decided about each call, and the file that holds it:
``tune_result_{timestamp}_pid{pid}.json``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from skipjack.errors import NewerFormatError
from skipjack.reading import Field, read_json, read_plain
from skipjack.storage import atomic_write

# The decision about a call of PyTorch when it was first seen: our kernel, or PyTorch's.


class TorchStatus(StrEnum):
    """The status of a problem: those of AutoTune's result file, and two more."""

    HIT = "bank_hit"
    """A bank had it; there was no search."""
    APPEND = "bank_append"
    """A search added it to the user bank."""
    UPDATE = "bank_update"
    """A search replaced the user bank's entry."""
    RESERVED = "bank_reserved"
    """A search found nothing better than the default or the bank's entry."""
    VENDOR = "vendor"
    """No kernel of ours computes it, or there was no search: PyTorch's own kernel runs."""
    FAILED = "failed"
    """The lookup or the search failed; PyTorch's own kernel runs."""


@dataclass(frozen=True, slots=True)
class TorchDecision:
    """A decision about calls with equal operation, device, dtypes, sizes, strides and options."""

    op: str
    """PyTorch's name, as ``aten::mm``."""
    description: str
    """Dtypes, sizes and strides, for people."""
    problem: str | None
    """Its key; None if none of our operations matches."""
    device: str
    """Its name as on the command line: ``znver4/2``."""
    is_ours: bool
    """Whether our kernel runs from now on."""
    reason: str
    """The reason, in a few words."""
    status: TorchStatus
    solver: str = ""
    """The solver or library that computes it."""
    kernel: str = ""
    """Digests of our kernels' code: equal digests mean equal kernels."""
    searcher: str = ""
    """The searcher, if there was a search: ``genetic``, ``policy`` ..."""
    before_ns: float | None = None
    """Time of a call with PyTorch's own kernel."""
    after_ns: float | None = None
    """Time of a call with our kernel, including the hook."""
    is_final: bool = True
    """False during a search: when a bank knows the problem, there is a new decision."""
    rounds: tuple[tuple[float, str], ...] = ()
    """For each round of the search, the best time in nanoseconds and when the round ended."""


# ``tune_result_{timestamp}_pid{pid}.json``: the outcome of each call, updated continually.
#
# Fields of AutoTune's file have AutoTune's names: ``result_data`` with times in microseconds,
# ``status_data`` with a flag for each status, ``ticks_best`` with the best time of each round and
# when it ended. The file is replaced as a whole, so it is valid JSON at any moment.

FORMAT = 1
GAIN = "gain = before_tune / after_tune, in times; above 1 is faster"
_SEARCHED = (TorchStatus.APPEND, TorchStatus.UPDATE, TorchStatus.RESERVED)
_FLAGS = (TorchStatus.HIT, *_SEARCHED)
"""The statuses in AutoTune's file."""

CallKey = tuple[str, str, str]
CountCalls = Callable[[], Mapping[CallKey, int]]


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """A program and how it was run."""

    command: tuple[str, ...]
    directory: str
    pid: int
    policy: str
    auto_tune_mode: str = ""
    """MindSpore's mode, if there is one for the policy."""


@dataclass(frozen=True, slots=True)
class ProgramTime:
    """The total run time of the program."""

    seconds: float
    was_tuned: bool
    """Whether it used our kernels."""
    has_searched: bool
    """Whether its time includes searches."""
    before_seconds: float | None = None
    """Time of the last run of the same program without our kernels."""

    @property
    def gain(self) -> float | None:
        """The speedup of the tuned program."""
        if self.before_seconds is None or not self.was_tuned or self.has_searched:
            return None
        return self.before_seconds / self.seconds if self.seconds else None


def call_key(decision: TorchDecision) -> CallKey:
    """Identifies a row of the file."""
    return decision.op, decision.description, decision.device


def has_searched(decision: TorchDecision) -> bool:
    """Whether there was a search for it, or one is running."""
    return bool(decision.searcher) or decision.status in _SEARCHED or not decision.is_final


class ResultFile:
    """The file of one process; `write` creates it."""

    def __init__(
        self, folder: Path, facts: ProgramFacts, now: Callable[[], datetime] = datetime.now
    ) -> None:
        self._facts, self._now = facts, now
        self._began = now()
        stamp = self._began.strftime("%Y%m%d_%H%M%S")
        self.path = folder / f"tune_result_{stamp}_pid{facts.pid}.json"
        self._decisions: dict[CallKey, TorchDecision] = {}
        self._counts: CountCalls = dict
        self._time: ProgramTime | None = None
        self.is_written = False

    @property
    def decisions(self) -> tuple[TorchDecision, ...]:
        """The latest decision about each call."""
        return tuple(self._decisions.values())

    def add(self, decision: TorchDecision) -> None:
        """Add a decision; a later one about the same calls replaces an earlier one.

        Results of a search are kept if a later decision only takes them from the bank.
        """
        before = self._decisions.get(call_key(decision))
        if before is not None and has_searched(before) and not has_searched(decision):
            decision = replace(
                decision,
                status=before.status,
                searcher=before.searcher,
                rounds=before.rounds,
            )
        self._decisions[call_key(decision)] = decision

    def change(self, policy: str, auto_tune_mode: str) -> None:
        """Set another policy."""
        self._facts = replace(self._facts, policy=policy, auto_tune_mode=auto_tune_mode)

    def count_calls(self, counts: CountCalls) -> None:
        """Set the function that counts calls when the file is written."""
        self._counts = counts

    def end(self, time: ProgramTime) -> None:
        """Record the end of the program."""
        self._time = time

    def write(self) -> None:
        """Replace the file; `StorageError` if it cannot be written."""
        text = json.dumps(self.content(), indent=1)
        atomic_write(self.path, text.encode() + b"\n", durable=False)
        self.is_written = True

    def content(self) -> dict[str, Any]:
        """The contents of the file as JSON values."""
        counts = self._counts()
        rows = [_row(one, counts.get(key)) for key, one in self._decisions.items()]
        return {
            "format": FORMAT,
            "program": asdict(self._facts) | {"began_at": _stamp(self._began)},
            "updated_at": _stamp(self._now()),
            "has_ended": self._time is not None,
            "summary": _summary(rows),
            "gain_formula": GAIN,
            "end_to_end": _end_to_end(self._time),
            "operations": rows,
        }


def _row(decision: TorchDecision, calls: int | None) -> dict[str, Any]:
    flags = {str(one): decision.status == one for one in _FLAGS}
    return {
        "op": decision.op,
        "description": decision.description,
        "problem": decision.problem,
        "device": decision.device,
        "calls": calls,
        "kernel": "skipjack" if decision.is_ours else "torch",
        "solver": decision.solver,
        "status": str(decision.status),
        "status_data": flags,
        "searcher": decision.searcher,
        "result_data": {
            "before_tune": _us(decision.before_ns),
            "after_tune": _us(decision.after_ns),
        },
        "ticks_best": [[_us(best), ended] for best, ended in decision.rounds],
        "reason": decision.reason,
    }


def _summary(rows: list[dict[str, Any]]) -> dict[str, int]:
    """Each operation is counted once, by its status: the counts add up to the total."""
    counts = Counter(row["status"] for row in rows)
    return {
        "total": len(rows),
        **{str(status): counts[str(status)] for status in TorchStatus},
        "with_skipjack_kernel": sum(row["kernel"] == "skipjack" for row in rows),
    }


def _end_to_end(time: ProgramTime | None) -> dict[str, Any] | None:
    return None if time is None else asdict(time) | {"gain": time.gain}


def _us(ns: float | None) -> float | None:
    return None if ns is None else round(ns / 1000, 3)


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True, slots=True)
class ResultRow:
    """An operation in a result file."""

    op: str
    description: str
    device: str
    status: str
    kernel: str
    solver: str
    searcher: str
    reason: str
    calls: int
    before_us: float | None
    after_us: float | None
    rounds: int
    problem: str | None = None

    @property
    def gain(self) -> float | None:
        """The speedup of a call; None if it was not timed with both kernels."""
        if self.before_us is None or not self.after_us:
            return None
        return self.before_us / self.after_us

    @property
    def value_us(self) -> float:
        """The total time of its calls before tuning, which says how much a gain matters."""
        return self.calls * (self.before_us or 0.0)

    @property
    def saved_us(self) -> float:
        """The time that its calls saved."""
        ours = self.kernel == "skipjack" and self.before_us is not None and self.after_us
        return self.calls * (self.before_us - self.after_us) if ours else 0.0  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class ReadResult:
    """The contents of a result file."""

    command: tuple[str, ...]
    directory: str
    pid: int
    policy: str
    auto_tune_mode: str
    has_ended: bool
    summary: Mapping[str, int]
    gain_formula: str
    time: ProgramTime | None
    rows: tuple[ResultRow, ...]


def read_result(path: Path) -> ReadResult:
    """Read a result file; `MalformedError`, or `NewerFormatError` for a later format."""
    field = read_json(read_plain(path), str(path))
    number = field["format"].integer()
    if number > FORMAT:
        raise NewerFormatError(
            f"{path} has format {number}, and this Skipjack reads up to {FORMAT}; update Skipjack"
        )
    program = field["program"]
    return ReadResult(
        command=tuple(one.text() for one in program["command"].elements()),
        directory=program["directory"].text(),
        pid=program["pid"].integer(),
        policy=program["policy"].text(),
        auto_tune_mode=program["auto_tune_mode"].text(),
        has_ended=field["has_ended"].flag(),
        summary={name: one.integer(0) for name, one in field["summary"].fields().items()},
        gain_formula=field["gain_formula"].text(),
        time=_read_time(field["end_to_end"]),
        rows=tuple(_read_row(one) for one in field["operations"].elements()),
    )


def _read_time(field: Field) -> ProgramTime | None:
    if field.null:
        return None
    return ProgramTime(
        seconds=field["seconds"].number(0.0),
        was_tuned=field["was_tuned"].flag(),
        has_searched=field["has_searched"].flag(),
        before_seconds=_number(field["before_seconds"]),
    )


def _read_row(field: Field) -> ResultRow:
    texts = {
        name: field[name].text()
        for name in ("op", "description", "device", "status", "kernel", "solver", "searcher")
    }
    times = field["result_data"]
    return ResultRow(
        **texts,
        reason=field["reason"].text(),
        problem=None if field["problem"].null else field["problem"].text(),
        calls=0 if field["calls"].null else field["calls"].integer(0),
        before_us=_number(times["before_tune"]),
        after_us=_number(times["after_tune"]),
        rounds=len(field["ticks_best"].elements()),
    )


def _number(field: Field) -> float | None:
    return None if field.null else field.number(0.0)
