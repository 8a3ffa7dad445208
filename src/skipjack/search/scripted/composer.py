"""Composer: several searchers take turns by what they want. Overlay: one with values fixed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skipjack.errors import SkipjackError, UsageError, blaming
from skipjack.search.points import (
    MissingStatError,
    Point,
    Points,
    Predicate,
    Repeat,
    Run,
    SearcherInterface,
    check_callable,
    do_send,
    is_good,
)

Part = SearcherInterface | tuple[SearcherInterface, Predicate]


class _Member:
    """A searcher, and when it wants to be asked."""

    def __init__(self, part: object) -> None:
        self.given: Predicate | None
        searcher, self.given = part if isinstance(part, tuple) and len(part) == 2 else (part, None)
        if not isinstance(searcher, SearcherInterface):
            raise UsageError(
                f"Composer takes searchers, or pairs of a searcher and a predicate, not {part!r}"
            )
        self.searcher, self.name = searcher, type(searcher).__name__
        self.own: Predicate | None = getattr(searcher, "predicate", None)
        if isinstance(part, tuple):
            check_callable(self.given, f"predicate given for {self.name} in Composer")

    def wants(self, run: Run | None) -> bool:
        """The given predicate decides, else the searcher's own, else it always wants."""
        if self.given is None:
            return self.own is None or is_good(run, self.own, f"{self.name} in Composer")
        if run is None:
            return False
        with blaming(f"the predicate of {self.name} in Composer"):
            try:
                return bool(self.given(run))
            except MissingStatError:
                if run.ok:
                    raise
                return False  # a failing run has few numbers


class Composer(SearcherInterface):
    """Runs the union of one term of each searcher, and changes one term at a time.

    After each run the searchers are asked in order, each only if its predicate accepts the run:
    the one given with it as ``(searcher, predicate)``, else its own `predicate`, else always. The
    first that has a term gives it. If none has, all are asked in reverse order, whatever their
    predicates say. `timeout` is a number of runs; None or a negative one is no limit.
    """

    is_dynamic = True

    def __init__(self, searchers: Iterable[Part], timeout: int | None) -> None:
        self._members = [_Member(part) for part in searchers]
        if not self._members:
            raise UsageError("Composer needs at least one searcher")
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int)):
            raise UsageError(f"timeout of Composer is a number of runs, not {timeout!r}")
        self.timeout = timeout
        self._best: Point | None = None

    def generate(self) -> Points:
        """One term of each, then one change at a time."""
        self._best = None
        terms = [member.searcher.generate() for member in self._members]
        firsts = [first for each in terms if (first := do_send(each)) is not None]
        here: dict[str, Any] = {}
        for first in firsts:
            here.update(first)
        term = firsts[-1] if firsts else None
        runs = 0
        while term is not None and runs != self.timeout:
            run = yield Repeat(here) if isinstance(term, Repeat) else dict(here)
            runs += 1
            leads = self._members[0].wants(run)
            if leads and run is not None and run.ok:
                self._best = dict(here)
            term = self._next(terms, run, leads)
            here.update(term or {})

    def get_best(self) -> Point:
        """The point of the last run that the first searcher's predicate accepted."""
        if self._members[0].given is None and self._members[0].own is None:
            return super().get_best()
        if self._best is None:
            raise SkipjackError(
                f"no feasible point: {self._members[0].name}, the first searcher of Composer, "
                "accepted none of its runs"
            )
        return dict(self._best)

    def _next(self, terms: Sequence[Points], run: Run | None, leads: bool) -> dict[str, Any] | None:
        for member, points in zip(self._members, terms, strict=True):
            wants = leads if member is self._members[0] else member.wants(run)
            if wants and (term := do_send(points, run)) is not None:
                return term
        for points in reversed(terms):
            if (term := do_send(points, run)) is not None:
                return term
        return None


class Overlay(SearcherInterface):
    """Lays `overlay_dict` over every point of `subject`, and over its best one."""

    def __init__(self, subject: SearcherInterface, overlay_dict: Mapping[str, Any]) -> None:
        if not isinstance(subject, SearcherInterface):
            raise UsageError(f"Overlay goes over a searcher, not {subject!r}")
        self.subject = subject
        self.overlay_dict = dict(overlay_dict)
        self.predicate: Predicate | None = getattr(subject, "predicate", None)
        """The subject's own, so that a Composer asks both alike."""

    @property
    def is_dynamic(self) -> bool:
        return self.subject.is_dynamic

    def generate(self) -> Points:
        """The subject's points in its order."""
        points = self.subject.generate()
        run: Run | None = None
        while (point := do_send(points, run)) is not None:
            point.update(self.overlay_dict)
            run = yield point

    def get_best(self) -> Point:
        """The subject's best point, with what was fixed."""
        return {**self.subject.get_best(), **self.overlay_dict}
