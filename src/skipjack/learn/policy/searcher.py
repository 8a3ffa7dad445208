"""The searcher ``policy``: a policy's proposals, then a genetic search that breeds from them.

It searches schedules of loop nests. For spaces of parameters (row programs, packed products, GPU
kernels) the registry of searchers uses the usual searcher instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from skipjack.core import Config
from skipjack.errors import SkipjackError, UsageError
from skipjack.learn.loops import Preset, space_game, space_refusal
from skipjack.learn.policy.built_in import find_policy, leads, shipped
from skipjack.learn.policy.network import Policy
from skipjack.learn.policy.play import ANALYTIC, best_schedules
from skipjack.search import Count, GeneticSearch, SearchContext
from skipjack.solvers.cpu.nest import ScheduleSpace

_PROPOSED = 12


class PolicySearch(GeneticSearch):
    """Requests a policy's proposals, best first, then breeds from them and from other seeds.

    Args:
        context: what to search; its space must be of schedules.
        proposed: the number of proposals.
        file: the policy's file or the folder of its training run; by default the policy that comes
            with Skipjack.

    Example::

        tune("matmul:160x224x192", searcher="policy:file=run/policy.npz")
    """

    def __init__(
        self, context: SearchContext, *, proposed: Count = _PROPOSED, file: str = ""
    ) -> None:
        if reason := self.refuses(context, proposed=proposed, file=file):
            raise UsageError(f"the policy cannot search this: {reason}")
        space, problem, device = context.space, context.problem, context.device
        assert isinstance(space, ScheduleSpace)
        assert problem is not None
        assert device is not None
        game = space_game(space, problem.dtype, device, Preset.FULL)
        analytic = [space.schedule(each) for each in space.promising(ANALYTIC)]
        found = best_schedules(_policy(file), game, analytic, proposed)
        configs = [Config(schedule=each.text()) for each in found]
        others = _without_tail(context.seeds, [space.config(each) for each in analytic])
        super().__init__(replace(context, seeds=(*configs, *others)))

    @staticmethod
    def refuses(context: SearchContext, *, proposed: int = _PROPOSED, file: str = "") -> str:
        """Why it cannot search a space; empty if it can."""
        if context.problem is None or context.device is None:
            return "it schedules loop nests, and this search has no problem"
        if reason := space_refusal(context.space, context.device):
            return f"{reason}; the policy schedules only loop nests"
        try:
            policy = _policy(file)
        except SkipjackError as error:
            if file:
                raise
            return str(error)
        if policy.preset is not Preset.FULL:
            return f"{policy.name} plays the preset {policy.preset}; tuning needs one for full"
        return ""

    @classmethod
    def leads(cls, context: SearchContext) -> bool:
        """Whether ``auto`` uses it, because an evaluation showed that it beats the others."""
        assert context.problem is not None
        assert context.device is not None
        return not cls.refuses(context) and leads(context.problem, context.device)


def _without_tail(seeds: Sequence[Config], analytic: Sequence[Config]) -> Sequence[Config]:
    """Seeds without the analytic proposals at their end, which were considered already.

    Winners of similar problems come before and stay, even if they are such proposals.
    """
    places = {config: place for place, config in enumerate(analytic)}
    count, last = len(seeds), len(analytic)
    while count and places.get(seeds[count - 1], last) < last:
        count -= 1
        last = places[seeds[count]]
    return seeds[:count]


def _policy(file: str) -> Policy:
    return find_policy(file) if file else shipped(Preset.FULL)
