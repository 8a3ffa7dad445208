"""GreedyStepper: parameter by parameter, each as far as it helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from skipjack.errors import SkipjackError, UsageError, blaming
from skipjack.search.points import Point, Points, Run, SearcherInterface, check_callable
from skipjack.search.scripted.step import Step

Better = Callable[[Run, Run], Any]
"""Given the best run so far and a new one: whether the new one is kept. Truthiness counts."""


class GreedyStepper(SearcherInterface):
    """Starts where all steppers start; then each in turn is moved while that is kept.

    At the first value that is not kept, or at its end, a stepper stays at its best value and the
    next one is moved. There is one round.
    """

    is_dynamic = True

    def __init__(self, steppers: Sequence[Step], predicate: Better) -> None:
        self.steppers = tuple(steppers)
        # Not `predicate`: that name is what Composer asks with one run.
        self._better = predicate
        self._best: dict[str, Any] | None = None
        check_callable(predicate, "predicate of GreedyStepper")
        _check(self.steppers)

    def generate(self) -> Points:
        """The starts, then one change at a time."""
        self._best = None
        here = {stepper.search_param: stepper.values[0] for stepper in self.steppers}
        best_run = yield dict(here)
        if best_run is not None and best_run.ok:
            self._best = here
        for stepper in self.steppers:
            for value in stepper.values[1:]:
                there = {**here, stepper.search_param: value}
                run = yield dict(there)
                if not self._keeps(best_run, run):
                    break
                here, best_run, self._best = there, run, there

    def get_best(self) -> Point:
        """The last point that was kept."""
        if self._best is None:
            names = ", ".join(stepper.search_param for stepper in self.steppers)
            raise SkipjackError(f"no feasible point of {names}: none that was run came to its end")
        return dict(self._best)

    def _keeps(self, best: Run | None, new: Run | None) -> bool:
        """Whatever runs is better than what does not."""
        if new is None or not new.ok:
            return False
        if best is None or not best.ok:
            return True
        with blaming("the predicate of GreedyStepper"):
            return bool(self._better(best, new))


def _check(steppers: Sequence[object]) -> None:
    if not steppers:
        raise UsageError("GreedyStepper needs at least one Step")
    names: set[str] = set()
    for stepper in steppers:
        if not isinstance(stepper, Step):
            raise UsageError(f"GreedyStepper moves Steps only, not {type(stepper).__name__}")
        if stepper.search_param in names:
            raise UsageError(f"GreedyStepper was given two Steps of {stepper.search_param!r}")
        names.add(stepper.search_param)
