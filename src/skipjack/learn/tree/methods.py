"""Searches by name."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.errors import UsageError
from skipjack.learn.policy import Policy
from skipjack.learn.tree.guided import mcts, policy_prior, policy_proposals
from skipjack.learn.tree.lookahead import beam, depth_first_beam, exhaustive, greedy, recipe
from skipjack.learn.tree.paths import TreeSearch
from skipjack.learn.tree.sequences import annealing, genetic, random_walks

METHODS = {
    "greedy": "looks ahead and takes the best action",
    "beam": "layer by layer, the fastest schedules of each",
    "beam_dfs": "depth first, the fastest successors of each state",
    "random": "random walks",
    "genetic": "breeds sequences of actions",
    "annealing": "changes one action at a time, and accepts slower less and less often",
    "mcts": "Monte Carlo tree search, which a policy may guide",
    "exhaustive": "every state within the actions",
    "recipe": "one fixed sequence of actions",
    "policy": "what a policy proposes, in its order",
}
"""Short descriptions of the searches."""
LOOKAHEADS = ("greedy", "beam", "beam_dfs")
WIDTHS = ("beam", "beam_dfs")
POLICIES = ("mcts", "policy")


@dataclass(frozen=True, slots=True)
class Method:
    """A search with its parameters, and its name in tables and plots."""

    name: str
    search: TreeSearch
    ends: bool = False
    """Whether the search ends on its own, so that it need not be ended for finding nothing new."""


def method_of(
    kind: str,
    *,
    width: int | None = None,
    lookahead: int | None = None,
    policy: Policy | None = None,
) -> Method:
    """The search of this kind; `UsageError` for an unknown kind or parameter."""
    if kind not in METHODS:
        raise UsageError(f"unknown search {kind!r}; choose from {', '.join(METHODS)}")
    for given, what, able in ((width, "width", WIDTHS), (lookahead, "lookahead", LOOKAHEADS)):
        if given is not None and kind not in able:
            raise UsageError(f"the search {kind} has no {what}; {' and '.join(able)} have one")
        if given is not None and given < 1:
            raise UsageError(f"the {what} must be at least 1, not {given}")
    if policy is not None and kind not in POLICIES:
        raise UsageError(f"the search {kind} does not use a policy; {' and '.join(POLICIES)} do")
    ahead, wide = lookahead or 1, width or 4
    if kind == "greedy":
        return Method(f"greedy-{ahead}", greedy(ahead), ends=True)
    if kind in WIDTHS:
        name = f"{kind}-{wide}" + (f"-lookahead-{ahead}" if ahead > 1 else "")
        if kind == "beam":
            return Method(name, beam(wide, ahead), ends=True)
        return Method(name, depth_first_beam(wide, ahead))
    if kind == "mcts" and policy is not None:
        return Method("mcts-policy", mcts(policy_prior(policy)))
    if kind == "policy":
        if policy is None:
            raise UsageError("the search policy needs a policy; give its file with --policy")
        return Method("policy", policy_proposals(policy), ends=True)
    plain: dict[str, TreeSearch] = {
        "random": random_walks,
        "genetic": genetic(),
        "annealing": annealing(),
        "mcts": mcts(),
        "exhaustive": exhaustive,
        "recipe": recipe,
    }
    return Method(kind, plain[kind], ends=kind in ("exhaustive", "recipe"))


def all_methods(policy: Policy | None = None) -> list[Method]:
    """All searches of a comparison: all except `exhaustive`, which needs no budget."""
    return [
        method_of("recipe"),
        *(method_of("greedy", lookahead=ahead) for ahead in (1, 2)),
        *(method_of(kind, width=width) for kind in WIDTHS for width in (2, 4)),
        method_of("beam", width=4, lookahead=2),
        *(method_of(kind) for kind in ("random", "genetic", "annealing", "mcts")),
        *(method_of(kind, policy=policy) for kind in POLICIES if policy is not None),
    ]
