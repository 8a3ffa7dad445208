"""Who was found right: once for each build and set of arguments, and what that call took."""

from __future__ import annotations

from skipjack.execute.session import Failure
from skipjack.tuning.context import TuningContext
from skipjack.tuning.runner import Runner


class Checks:
    """Checks runners of one problem in the session, and notes on them what came of it."""

    def __init__(self, shop: TuningContext) -> None:
        self._shop = shop
        self._judged: dict[tuple[str, tuple[str | int, ...]], Failure | tuple[float, float]] = {}

    def check(self, runner: Runner) -> Failure | None:
        """What is wrong with it; the error and the time of the checked call go to the runner."""
        key = (runner.source_digest or runner.solver, runner.slots)
        if key not in self._judged:
            self._judged[key] = self.again(runner) or (runner.error_ratio, runner.checked_ns)
        known = self._judged[key]
        if isinstance(known, Failure):
            return known
        runner.error_ratio, runner.checked_ns = known
        return None

    def again(self, runner: Runner) -> Failure | None:
        """The same, whatever is known already."""
        session = self._shop.session
        with self._shop.tracer.span(f"verify {runner.candidate.config}", "run"):
            failure, error = session.verify(runner.kernel)
        if failure is None:
            runner.error_ratio = error
            runner.checked_ns = session.checked_ns(runner.kernel)
        return failure

    def elsewhere(self, runner: Runner) -> Failure | None:
        """What is wrong with it on arrays that are not aligned."""
        with self._shop.tracer.span(f"verify {runner.candidate.config} elsewhere", "run"):
            failure, _ = self._shop.session.verify(runner.kernel, elsewhere=True)
        runner.anywhere = failure is None
        return failure
