"""Overlay: another searcher's points, with some parameters fixed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skipjack.errors import UsageError
from skipjack.search.scripted.contract import (
    Point,
    Points,
    Predicate,
    Run,
    SearcherInterface,
    do_send,
)


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
        """As the subject."""
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
