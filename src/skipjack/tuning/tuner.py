"""`tune`: the front door for Python programs, and the tuner that stays open for many problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType

from skipjack import plugins
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.study import Budget
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.settings import Settings, load_settings
from skipjack.tuning.interrupt import watch_for_interrupt
from skipjack.tuning.options import DEFAULT_SECONDS, TuneOptions
from skipjack.tuning.result import TuneResult
from skipjack.tuning.study_run import StudyRun
from skipjack.tuning.verdict import conclude
from skipjack.tuning.workshop import Workshop


class Tuner:
    """Holds the device and warm workers: ``with Tuner() as tuner: tuner.tune(problem)``.

    `say` is told what a person may have to wait for.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        device: Device | None = None,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.settings = settings or load_settings()
        plugins.load(self.settings.plugins)
        self.workshop = Workshop(self.settings, device, say=say)

    def tune(self, problem: str | Problem, options: TuneOptions | None = None) -> TuneResult:
        """One sitting of one study."""
        asked = parse(problem) if isinstance(problem, str) else problem
        with watch_for_interrupt() as interrupt:
            run = StudyRun(self.workshop, asked, options or TuneOptions(), interrupt)
            try:
                return conclude(run, run.search())
            finally:
                run.close()

    def __enter__(self) -> Tuner:
        self.workshop.__enter__()
        try:
            self.workshop.warm_up()
        except BaseException:
            self.workshop.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.workshop.close()


def make_budget(trials: int | None, seconds: float | None) -> Budget:
    """A budget from what was given; a default number of seconds if nothing was."""
    if trials is None and seconds is None:
        seconds = DEFAULT_SECONDS
    return Budget(trials, seconds)


def tune(
    problem: str,
    *,
    seconds: float | None = None,
    budget: int | None = None,
    dtype: str | None = None,
    searcher: str = "auto",
    seed: int = 0,
    solver: str | None = None,
    retune: bool = False,
    threads: int = 1,
    plugins: str | Sequence[str] = (),
) -> TuneResult:
    """Find the fastest way to compute a problem here, remember it, and give it back.

    `seconds` and `budget` (trials) limit the search, whichever runs out first. Running again
    continues the study; `retune` starts it over. A kernel may use as many `threads`.
    """
    options = TuneOptions(
        budget=make_budget(budget, seconds),
        searcher=searcher,
        seed=seed,
        solver=solver,
        retune=retune,
    )
    named = (plugins,) if isinstance(plugins, str) else tuple(plugins)
    tuner = Tuner(load_settings(plugins=named or None), cpu.detect(threads))
    asked = parse(problem, dtype)  # before workers start: a wrong key should fail at once
    with tuner:
        return tuner.tune(asked, options)
