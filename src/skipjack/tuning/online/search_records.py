"""When a problem was last searched for a program, by any process of this host, and what came of it.

A bank tells of searches that found something; processes that wait for the same search need to know
of the others, too.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from skipjack.errors import MalformedError
from skipjack.reading import read_json
from skipjack.runtime.online import FOLDER, SearchRequest
from skipjack.storage import atomic_write, ensure_directory
from skipjack.tuning.limits import DAY_S
from skipjack.tuning.result import Outcome


@dataclass(frozen=True, slots=True)
class SearchRecord:
    """One search."""

    problem: str
    device: str
    """Its class, and the deployment."""
    ended_at: float
    """By the wall clock."""
    status: str
    reason: str = ""
    verb: str = ""
    seconds: float = 0.0
    """What it was allowed to take."""
    searcher: str = ""

    def answers(self, request: SearchRequest) -> bool:
        """Whether there is nothing to search: it ended after the request, or would end the same.

        A search that other programs disturbed leaves no entry, so that every process would begin it
        again: the same one, with no more time, is not repeated within a day.
        """
        if self.ended_at >= request.asked_at:
            return True
        same = self.verb == request.verb and request.seconds <= self.seconds
        recent = request.asked_at - self.ended_at < DAY_S
        return self.status == Outcome.NOISY and same and recent and not request.retune


class SearchRecords:
    """One small file for each problem and class of device, in the user directory."""

    def __init__(self, user_dir: Path) -> None:
        self._folder = user_dir / FOLDER

    def last(self, problem: str, device: str) -> SearchRecord | None:
        """The last search; None if there was none, or nothing can be read of it."""
        try:
            found = read_json(self._path(problem, device).read_bytes()).mapping()
            record = SearchRecord(**found)
            return record if (record.problem, record.device) == (problem, device) else None
        except (OSError, MalformedError, TypeError):
            return None

    def put(self, record: SearchRecord) -> None:
        """Keep it in the place of the one before."""
        path = self._path(record.problem, record.device)
        ensure_directory(path.parent)
        atomic_write(path, json.dumps(asdict(record)).encode())

    def _path(self, problem: str, device: str) -> Path:
        name = hashlib.sha256(f"{problem}|{device}".encode()).hexdigest()[:24]
        return self._folder / f"search-{name}.json"
