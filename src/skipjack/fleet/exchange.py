"""What a coordinator and the store give each other at once: results for further jobs."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.fleet.records import Claim, Want
from skipjack.fleet.states import Stage
from skipjack.fleet.task import Task


@dataclass(frozen=True, slots=True)
class Ask:
    """Workers of a stage that could take jobs."""

    stage: Stage
    wants: tuple[Want, ...]


@dataclass(frozen=True, slots=True)
class Exchanged:
    """What the store answered."""

    refused: tuple[Claim, ...]
    """Those whose results came too late: the claim was lost."""
    claimed: tuple[tuple[Claim, Task], ...]
    """Jobs for the workers that were named."""
