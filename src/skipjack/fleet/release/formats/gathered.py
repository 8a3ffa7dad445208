"""What of rankings and configs goes into files of any format, and what is left out of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from skipjack.core.times import possible_time
from skipjack.fleet.release.results import FoundProblem, TunedProblem
from skipjack.interop.miopen import Item, Record
from skipjack.interop.miopen.find_values import find_text
from skipjack.interop.miopen.records import complaint_of
from skipjack.reading import numbered


@dataclass(slots=True)
class GatheredRankings:
    """Rankings without times that cannot be; the counts are whole once all were taken."""

    impossible: int = 0
    empty: int = 0

    def of(self, found: Iterable[FoundProblem]) -> Iterator[FoundProblem]:
        """Those of which anything is left."""
        for problem in found:
            lines, lost = _harvested(problem.miopen)
            dropped = {entry.solver for entry in problem.ranking if not entry.possible} | lost
            self.impossible += len(dropped)
            kept = replace(problem, ranking=problem.possible, miopen=lines)
            if kept.ranking or kept.miopen:
                yield kept
            else:
                self.empty += 1

    def counts(self) -> dict[str, int]:
        """What was left out."""
        return {
            "impossible_times": self.impossible,
            "without_a_time": self.empty,
            "shared_keys": 0,
            "not_in_this_format": 0,
        }

    def remarks(self) -> Iterator[str]:
        """Sentences about that."""
        if self.impossible:
            yield _impossible(self.impossible)
        if self.empty:
            yield f"{numbered(self.empty, 'problem')} left out of which nothing ran"


@dataclass(slots=True)
class GatheredConfigs:
    """Problems whose solvers have something to set; the counts are whole once all were taken."""

    impossible: int = 0
    empty: int = 0

    def of(self, tuned: Iterable[TunedProblem]) -> Iterator[TunedProblem]:
        """Those of which anything is left."""
        for problem in tuned:
            self.impossible += problem.impossible
            if problem.configs or problem.miopen:
                yield problem
            else:
                self.empty += 1

    def counts(self) -> dict[str, int]:
        """What was left out."""
        return {
            "impossible_times": self.impossible,
            "without_settings": self.empty,
            "shared_keys": 0,
            "sharing_problems": 0,
            "not_in_this_format": 0,
        }

    def remarks(self) -> Iterator[str]:
        """Sentences about that."""
        if self.impossible:
            yield _impossible(self.impossible)
        if self.empty:
            problems = numbered(self.empty, "problem")
            yield f"{problems} left out whose solvers have nothing to set"


def _impossible(count: int) -> str:
    return f"{numbered(count, 'time')} left out that cannot be: zero, less, or no number"


def _harvested(lines: Iterable[str]) -> tuple[tuple[str, ...], set[str]]:
    """Lines of MIOpen without times that cannot be, and the solvers that had such a one."""
    kept: list[str] = []
    lost: set[str] = set()
    for line in lines:
        if complaint_of(line) is not None:
            continue  # half a line: its job was ended while MIOpen wrote
        record = Record.of_line(line)
        good = [item for item in record.items if _possible(item)]
        if len(good) == len(record.items):
            kept.append(line)
            continue
        lost |= {solver_of(item) for item in record.items if not _possible(item)}
        if good:
            kept.append(Record(record.key, good).line)
    return tuple(kept), lost


def solver_of(item: Item) -> str:
    """That an item is the result of."""
    text = find_text(item)
    return text.solver if text else item.id


def time_ms_of(item: Item) -> float:
    """As it is written; not a number if it cannot be read."""
    text = find_text(item)
    return float(text.time) if text else math.nan


def _possible(item: Item) -> bool:
    return possible_time(time_ms_of(item))
