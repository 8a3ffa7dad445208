"""Where the time went: spans as a Chrome trace, and the share of overhead."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from skipjack.storage import atomic_write

WORK = ("build", "run")
"""Tracks of useful work; all other time is overhead."""


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A named interval on a track, in seconds of the monotonic clock."""

    name: str
    track: str
    start: float
    seconds: float


class Tracer:
    """Collects spans; cheap enough to be always enabled."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.spans: list[TraceSpan] = []
        self._clock = clock
        self.started = clock()

    def add(self, name: str, track: str, start: float, seconds: float) -> None:
        """Record a span that was timed elsewhere."""
        self.spans.append(TraceSpan(name, track, start, seconds))

    @contextlib.contextmanager
    def span(self, name: str, track: str) -> Iterator[None]:
        """Record the time within this context."""
        start = self._clock()
        try:
            yield
        finally:
            self.add(name, track, start, self._clock() - start)

    def overhead(self, since: float, until: float) -> float:
        """The share of an interval in which nothing was built or run."""
        intervals = sorted(
            (max(span.start, since), min(span.start + span.seconds, until))
            for span in self.spans
            if span.track in WORK
        )
        covered, end = 0.0, since
        for start, stop in intervals:
            if stop > end:
                covered += stop - max(start, end)
                end = stop
        return 1.0 - covered / (until - since) if until > since else 0.0

    def write(self, path: Path) -> None:
        """Write a file for chrome://tracing or Perfetto."""
        tracks = {track: n for n, track in enumerate(sorted({s.track for s in self.spans}))}
        events: list[dict[str, object]] = [
            {"name": "thread_name", "ph": "M", "pid": 1, "tid": n, "args": {"name": track}}
            for track, n in tracks.items()
        ]
        events += [
            {
                "name": span.name,
                "cat": span.track,
                "ph": "X",
                "pid": 1,
                "tid": tracks[span.track],
                "ts": round((span.start - self.started) * 1e6, 1),
                "dur": round(span.seconds * 1e6, 1),
            }
            for span in self.spans
        ]
        atomic_write(path, json.dumps({"traceEvents": events}).encode())
