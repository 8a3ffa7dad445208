"""What a joint search says: the best setting, its load, and how much was run for it."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.search.scripted.boundary import Answer
from skipjack.search.scripted.contract import Point


@dataclass(frozen=True, slots=True)
class JointAnswer:
    """The best setting and its load."""

    setting: Point
    load: Answer
    """From the confirming runs, and from those of the search where they were of the same kind."""
    runs: int
    settings_run: int
    """How many settings were run at all."""
    settings: int

    def __str__(self) -> str:
        words = ", ".join(f"{name} {value}" for name, value in self.setting.items())
        seen = f"{self.settings_run} of {self.settings} settings in {self.runs} runs"
        return f"{words}: {self.load} ({seen})"
