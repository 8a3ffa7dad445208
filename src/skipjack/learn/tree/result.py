"""What a search did, step by step, and what it found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A schedule that a search looked at."""

    problem: str
    search: str
    seed: int
    step: int
    """From 0, the start."""
    actions: tuple[str, ...]
    """From the start of the game to here; the last is the one that was taken."""
    cursor: int
    schedule: str
    """What was built and measured."""
    seconds: float | None
    """None: it cannot be built, or computes something else."""
    cached: bool
    """Whether this search had measured the schedule before, so that it cost nothing."""
    measured: int
    """Distinct schedules that this search had measured by then."""
    elapsed_s: float
    """Since the search began; what another search had measured before is charged, too."""
    best_s: float | None
    """The fastest so far."""

    @property
    def action(self) -> str:
        """The action that led here; none at the start."""
        return self.actions[-1] if self.actions else ""


@dataclass(frozen=True, slots=True)
class SearchRun:
    """One search on one problem with one seed."""

    problem: str
    search: str
    seed: int
    steps: tuple[SearchStep, ...]
    flops: float = 0.0
    """Of the problem; 0 where it is not known."""
    interrupted: bool = False
    """Whether it was stopped from outside; the steps until then are all there."""

    @property
    def best(self) -> SearchStep | None:
        """The first step with the fastest schedule."""
        usable = [step for step in self.steps if step.seconds is not None]
        return min(usable, key=lambda step: step.seconds or 0.0, default=None)

    @property
    def start_s(self) -> float | None:
        """Seconds of the schedule that the game starts from."""
        return self.steps[0].seconds if self.steps else None

    @property
    def gain(self) -> float | None:
        """How many times faster than the start the best is."""
        best = self.best
        if best is None or best.seconds is None or self.start_s is None:
            return None
        return self.start_s / best.seconds

    @property
    def measured(self) -> int:
        """Distinct schedules that were measured."""
        return self.steps[-1].measured if self.steps else 0

    @property
    def elapsed_s(self) -> float:
        """Until the last step."""
        return self.steps[-1].elapsed_s if self.steps else 0.0

    def gains_per_action(self) -> list[float | None]:
        """The gain after 0, 1, 2, ... actions of the best path; None where it was not measured."""
        best, start_s = self.best, self.start_s
        if best is None or start_s is None:
            return []
        seconds = {step.actions: step.seconds for step in self.steps}
        prefixes = (best.actions[:length] for length in range(len(best.actions) + 1))
        known = (seconds.get(prefix) for prefix in prefixes)
        return [start_s / each if each else None for each in known]
