"""Searches for the largest load that holds."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.search.load.bisect import Bisect, FindUpperBound, QPSBisect
    from skipjack.search.load.boundary import Boundary, JointAnswer, LoadLimit, LoadRange, valid
    from skipjack.search.load.joint_load import JointLoad

__all__ = [
    "Bisect",
    "Boundary",
    "FindUpperBound",
    "JointAnswer",
    "JointLoad",
    "LoadLimit",
    "LoadRange",
    "QPSBisect",
    "valid",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "bisect": "Bisect FindUpperBound QPSBisect",
        "boundary": "Boundary JointAnswer LoadLimit LoadRange valid",
        "joint_load": "JointLoad",
    },
)
