"""What a run did, in one line, and what it left undone, in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from skipjack.app import QueuedRun, RunPhase, RunResult
from skipjack.fleet.further_jobs import Further
from skipjack.fleet.records import JobKind
from skipjack.fleet.states import Stage, State
from skipjack.reading import numbered
from skipjack.report.render import print_json, say

_OPTIONS = {JobKind.TUNE: "", JobKind.FIND: " --find", JobKind.KERNELS: " --kernel-cache"}
_JOB = {JobKind.TUNE: "job", JobKind.FIND: "find job", JobKind.KERNELS: "kernel job"}


def render_phase(phase: RunPhase, json: bool) -> None:
    """The states of the label's jobs of a kind."""
    if json:
        print_json("run", _phase_json(phase))
        return
    kind, summary, further = phase.kind, phase.summary, phase.further
    made = _made(kind, further) if further else ""
    name = "" if kind is JobKind.TUNE else f"{kind}: "
    states = ", ".join(
        f"{summary.counts[state]} {state}" for state in State if summary.counts.get(state)
    )
    say(f"{name}{states or 'no jobs'} after {summary.seconds:.1f} s{made}")


def _phase_json(phase: RunPhase) -> dict[str, Any]:
    summary, further = phase.summary, phase.further
    return {
        "kind": str(phase.kind),
        "states": {str(state): count for state, count in summary.counts.items() if count},
        "settled": dict(summary.settled),
        "refused": summary.refused,
        "seconds": round(summary.seconds, 3),
        "interrupted": summary.interrupted,
        "idle_machines": list(summary.idle_machines),
        "unbuildable": list(summary.unbuildable),
        **({"jobs": asdict(further)} if further else {}),
    }


def render_queued(run: QueuedRun, json: bool) -> None:
    """The number in Slurm's queue, or the script where nothing was submitted."""
    done = run.submitted
    if done is None:
        print(run.script, end="")
    elif json:
        print_json("run --engine slurm", {"slurm_job": done.job, "cluster": done.cluster})
    else:
        say(f"submitted as Slurm job {done.job}; squeue shows it")


def _made(kind: JobKind, further: Further) -> str:
    left = "without a winner" if kind is JobKind.KERNELS else "ranked in the bank and left out"
    counted = {
        f"{_JOB[kind]}{'' if further.made == 1 else 's'} made": further.made,
        "done again": further.again,
        "rankings of other labels taken over": further.taken_over,
        left: further.left_out,
    }
    said = [f"{count} {what}" for what, count in counted.items() if count]
    return f" ({', '.join(said)})" if said else ""


def leftovers(result: RunResult) -> str:
    """What went wrong or waits for somebody else; empty if all is well."""
    summary, request, stopped = result.summary, result.request, result.stopped
    unpacked, disabled = result.unpacked, result.disabled
    counts, label = summary.counts, request.label
    job, again = _JOB[request.kind], f"skipjack run -l {label}{_OPTIONS[request.kind]}"
    if request.machine:
        again += f" --machine {request.machine}"
    elif len(request.devices) == 1:
        again += f" --device {request.devices[0]}"
    new, built = counts.get(State.NEW, 0), counts.get(State.BUILT, 0)
    aborted = counts.get(State.ABORTED, 0)
    if errors := counts.get(State.ERROR, 0):
        return (
            f"{numbered(errors, job)} of {label} in error; "
            f"skipjack status -l {label} --state error --jobs says why"
        )
    if (new or built) and summary.idle_machines:
        return _idle(summary.idle_machines, disabled)
    if (new or built or aborted) and stopped:
        names = ", ".join(stopped)
        return f"aborted devices: {names}; skipjack resume --device {stopped[0]} lets it go on"
    if aborted:
        return f"{numbered(aborted, job)} of {label} aborted; skipjack resume -l {label} lifts that"
    if new and Stage.BUILD not in request.stages:
        return f"{numbered(new, job)} of {label} still to be built: {again} --build"
    if new and summary.unbuildable:
        names = ", ".join(summary.unbuildable)
        return f"{numbered(new, job)} of {label} waiting for a machine that builds for {names}"
    if built and Stage.EVALUATE in request.stages:
        return (
            f"{numbered(built, job)} of {label} for devices that are not here: "
            f"skipjack status -l {label} --by device,state"
        )
    if unpacked > 0:
        return (
            f"{numbered(unpacked, 'problem')} of {label} without a kernel to pack, or with one of "
            f"another version of its solver: skipjack run -l {label} --find --fresh ranks again"
        )
    return ""


def _idle(machines: Sequence[str], disabled: Sequence[str]) -> str:
    """Who gets no jobs, each with its reason, and what gives them some again."""
    names = [name for name in disabled if any(one.startswith(f"{name} (") for one in machines)]
    ways = [f"skipjack machine enable {' '.join(names)}"] if names else []
    if len(names) < len(machines):
        ways.append("skipjack resume --machine NAME")
    return f"these machines get no jobs: {', '.join(machines)}; {' and '.join(ways)} lets them"
