"""What makes a sitting the check of one config that was chosen before: nothing is searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.study import Budget
from skipjack.core.trial import Candidate
from skipjack.solvers.solver import BuildingSolver
from skipjack.tuning.arm import Arm
from skipjack.tuning.contest import Contest
from skipjack.tuning.final import finish_tuning
from skipjack.tuning.result import TuneResult
from skipjack.tuning.rules import Known
from skipjack.tuning.study_run import StudyRun
from skipjack.tuning.time_limit import TimeLimit
from skipjack.tuning.verdict import confirm_winner, judge


@dataclass(frozen=True, slots=True)
class ChosenRules:
    """One solver, which asks for nothing."""

    chosen: BuildingSolver
    hurried = False
    forgiving = False
    compares = False

    def solvers(self, problem: Problem, device: Device) -> Sequence[BuildingSolver]:
        """The chosen one."""
        return (self.chosen,)

    def again(self, known: Known) -> list[Candidate]:
        """Nothing: the config runs once."""
        return []

    def most_trials(self, budget: Budget, arms: Sequence[Arm]) -> int | None:
        """One."""
        return 1

    def turns(self, arms: Sequence[Arm], contest: Contest) -> list[tuple[Arm, int]]:
        """Nobody's."""
        return []

    def round_turns(self, arms: Sequence[Arm]) -> list[tuple[Arm, int]]:
        """Nobody's."""
        return []

    def enough(self, arms: Sequence[Arm], limit: TimeLimit) -> bool:
        """Always."""
        return True

    def final_s(self, contest: Contest) -> float:
        """There is none."""
        return 0.0


def vouch_for(run: StudyRun) -> TuneResult:
    """Time the config beside the libraries; no verdict is kept, for whoever chose it has spoken."""
    standing = finish_tuning(run)
    return judge(run, standing, confirm_winner(run, standing), keep=False)
