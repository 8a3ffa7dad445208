"""Policies that schedule loop nests, without torch: their files, how they play, a searcher."""

from skipjack.learn.policy.built_in import FOLDER as POLICY_FOLDER
from skipjack.learn.policy.built_in import RUN_FILE, SHIPPED, card, find_policy, propose, shipped
from skipjack.learn.policy.file import Policy, read_policy, read_weights, write_policy
from skipjack.learn.policy.grounds import Ground, evidence, ground_of
from skipjack.learn.policy.network import FORBIDDEN, PolicyNetwork, log_probabilities
from skipjack.learn.policy.play import (
    ANALYTIC,
    MOST_ACTIONS,
    PlayedGame,
    best_schedules,
    greedy,
    planned,
    proposals,
)

__all__ = [
    "ANALYTIC",
    "FORBIDDEN",
    "MOST_ACTIONS",
    "POLICY_FOLDER",
    "RUN_FILE",
    "SHIPPED",
    "Ground",
    "PlayedGame",
    "Policy",
    "PolicyNetwork",
    "best_schedules",
    "card",
    "evidence",
    "find_policy",
    "greedy",
    "ground_of",
    "log_probabilities",
    "planned",
    "proposals",
    "propose",
    "read_policy",
    "read_weights",
    "shipped",
    "write_policy",
]
