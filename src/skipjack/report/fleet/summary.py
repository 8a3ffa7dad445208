"""What a run did, in one line, and what it left undone, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from skipjack.fleet.runs import RunRequest, RunSummary
from skipjack.fleet.states import Stage, State
from skipjack.report import screen

FORMAT = 1


def summary_json(summary: RunSummary) -> dict[str, Any]:
    """For machines."""
    return {
        "format": FORMAT,
        "states": {str(state): count for state, count in summary.counts.items() if count},
        "settled": dict(summary.settled),
        "refused": summary.refused,
        "seconds": round(summary.seconds, 3),
        "interrupted": summary.interrupted,
        "idle_machines": list(summary.idle_machines),
        "unbuildable": list(summary.unbuildable),
    }


def print_summary(summary: RunSummary) -> None:
    """The states of the label's jobs."""
    states = ", ".join(
        f"{summary.counts[state]} {state}" for state in State if summary.counts.get(state)
    )
    screen.out().print(
        f"{states or 'no jobs'} after {summary.seconds:.1f} s", markup=False, soft_wrap=True
    )


def leftovers(summary: RunSummary, request: RunRequest, stopped: Sequence[str]) -> str:
    """What went wrong or waits for somebody else; empty if all is well.

    `stopped` are devices that were aborted.
    """
    counts, label = summary.counts, request.label
    new, built = counts.get(State.NEW, 0), counts.get(State.BUILT, 0)
    aborted = counts.get(State.ABORTED, 0)
    if errors := counts.get(State.ERROR, 0):
        return (
            f"{errors} jobs of {label} are in error; skipjack status -l {label} --state error "
            "--jobs says why"
        )
    if (new or built) and summary.idle_machines:
        names = ", ".join(summary.idle_machines)
        return f"these machines get no jobs: {names}; skipjack resume --machine NAME lets them"
    if (new or built or aborted) and stopped:
        names = ", ".join(stopped)
        return f"aborted devices: {names}; skipjack resume --device {stopped[0]} lets it go on"
    if aborted:
        return f"{aborted} jobs of {label} are aborted; skipjack resume -l {label} lets them go on"
    if new and Stage.BUILD not in request.stages:
        return f"{new} jobs of {label} wait to be built: skipjack run -l {label} --build"
    if new and summary.unbuildable:
        names = ", ".join(summary.unbuildable)
        return f"{new} jobs of {label} wait for a machine that builds for {names}"
    if built and Stage.EVALUATE in request.stages:
        return (
            f"{built} jobs of {label} are for devices that are not here: "
            f"skipjack status -l {label} --by device,state"
        )
    return ""
