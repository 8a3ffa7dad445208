"""Searches for the largest load that holds: bisections, and those that weigh lucky runs."""

from skipjack.search.load.bisect import Bisect, FindUpperBound, QPSBisect
from skipjack.search.load.boundary import Answer, Boundary, valid
from skipjack.search.load.joint_load import JointLoad
from skipjack.search.load.load_range import JointAnswer, LoadRange

__all__ = [
    "Answer",
    "Bisect",
    "Boundary",
    "FindUpperBound",
    "JointAnswer",
    "JointLoad",
    "LoadRange",
    "QPSBisect",
    "valid",
]
