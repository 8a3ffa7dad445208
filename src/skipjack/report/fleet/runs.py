"""Runs and bundles: bars while they last, what they did, and what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn

from skipjack.fleet.model import JobKind, JobStage, JobState
from skipjack.reading import numbered
from skipjack.report import screen
from skipjack.report.screen import print_json, say

if TYPE_CHECKING:  # `evaluation_bar` works where no packages for stores are installed
    from skipjack.app import QueuedRun, RunEvent, RunObserver, RunPhase, RunResult
    from skipjack.fleet.bundle import BundleProgress
    from skipjack.fleet.labels import FurtherJobs
    from skipjack.fleet.run import RunProgress


# What a run did, in one line, and what is left, in one sentence.

_OPTIONS = {JobKind.TUNE: "", JobKind.FIND: " --find", JobKind.KERNELS: " --kernel-cache"}
_JOB = {JobKind.TUNE: "job", JobKind.FIND: "find job", JobKind.KERNELS: "kernel job"}


def render_phase(phase: RunPhase, json: bool) -> None:
    """Print the states of the jobs of a phase."""
    if json:
        print_json("run", _phase_json(phase))
        return
    kind, summary, further = phase.kind, phase.summary, phase.further
    made = _made(kind, further) if further else ""
    name = "" if kind is JobKind.TUNE else f"{kind}: "
    states = ", ".join(
        f"{summary.counts[state]} {state}" for state in JobState if summary.counts.get(state)
    )
    say(f"{name}{states or 'no jobs'} after {summary.seconds:.1f} s{made}")
    if phase.device_time:
        from skipjack.report.fleet.jobs import device_time_text

        say(device_time_text(phase.device_time))


def _phase_json(phase: RunPhase) -> dict[str, Any]:
    summary, further = phase.summary, phase.further
    limited = {}
    if phase.device_time:
        from skipjack.report.fleet.jobs import device_time_json

        limited["device_seconds"] = device_time_json(phase.device_time)
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
        **limited,
    }


def render_queued(run: QueuedRun, json: bool) -> None:
    """Print the job in Slurm's queue, or the script if nothing was submitted."""
    done = run.submitted
    if done is None:
        print(run.script, end="")
    elif json:
        print_json("run --engine slurm", {"slurm_job": done.job, "cluster": done.cluster})
    else:
        say(f"submitted as Slurm job {done.job}; squeue shows it")


def _made(kind: JobKind, further: FurtherJobs) -> str:
    left = "without a winner" if kind is JobKind.KERNELS else "ranked in the bank and left out"
    counted = {
        f"{_JOB[kind]}{'' if further.made == 1 else 's'} made": further.made,
        "done again": further.again,
        "rankings of other labels reused": further.taken_over,
        left: further.left_out,
    }
    said = [f"{count} {what}" for what, count in counted.items() if count]
    return f" ({', '.join(said)})" if said else ""


def leftovers(result: RunResult) -> str:
    """Why jobs are left; empty if all are done."""
    summary, request, stopped = result.summary, result.request, result.stopped
    unpacked, disabled = result.unpacked, result.disabled
    counts, label = summary.counts, request.label
    job, again = _JOB[request.kind], f"skipjack run -l {label}{_OPTIONS[request.kind]}"
    if request.machine:
        again += f" --machine {request.machine}"
    elif len(request.devices) == 1:
        again += f" --device {request.devices[0]}"
    new, built = counts.get(JobState.NEW, 0), counts.get(JobState.BUILT, 0)
    aborted = counts.get(JobState.ABORTED, 0)
    if errors := counts.get(JobState.ERROR, 0):
        return (
            f"{numbered(errors, job)} of {label} in error; "
            f"skipjack status -l {label} --state error --jobs says why"
        )
    if (new or built) and summary.idle_machines:
        return _idle(summary.idle_machines, disabled)
    if (new or built or aborted) and stopped:
        names = ", ".join(stopped)
        return f"aborted devices: {names}; skipjack resume --device {stopped[0]} resumes it"
    if aborted:
        return (
            f"{numbered(aborted, job)} of {label} aborted; skipjack resume -l {label} resumes them"
        )
    if new and JobStage.BUILD not in request.stages:
        return f"{numbered(new, job)} of {label} still to be built; {again} --build builds them"
    if new and summary.unbuildable:
        names = ", ".join(summary.unbuildable)
        return f"{numbered(new, job)} of {label} waiting for a machine that builds for {names}"
    time = result.phases[-1].device_time
    spent = time is not None and not time.left_s
    if built and JobStage.EVALUATE in request.stages and not spent:
        return (
            f"{numbered(built, job)} of {label} for devices that are not here; "
            f"skipjack status -l {label} --by device,state lists them"
        )
    if unpacked > 0:
        return (
            f"{numbered(unpacked, 'problem')} of {label} without a kernel to pack, or with one of "
            f"another version of its solver; skipjack run -l {label} --find --fresh ranks again"
        )
    return ""


def _idle(machines: Sequence[str], disabled: Sequence[str]) -> str:
    """The machines that get no jobs, with reasons and commands that enable them."""
    names = [name for name in disabled if any(one.startswith(f"{name} (") for one in machines)]
    ways = [f"skipjack machine enable {' '.join(names)}"] if names else []
    if len(names) < len(machines):
        ways.append("skipjack resume --machine NAME")
    verb = "enables" if len(ways) == 1 else "enable"
    return f"these machines get no jobs: {', '.join(machines)}; {' and '.join(ways)} {verb} them"


# Progress bars, one for each state of a run's jobs.

_LINE_EVERY_S = 30.0
"""Seconds between lines, if standard error is not a terminal."""


@contextlib.contextmanager
def run_screen(*, json: bool) -> Iterator[RunObserver]:
    """An observer that draws bars during a phase, and prints its results at the end."""
    from skipjack.app import RunPhase, RunWarning
    from skipjack.fleet.run import RunProgress

    with contextlib.ExitStack() as drawn:
        draw: Callable[[RunProgress], None] | None = None

        def observe(event: RunEvent) -> None:
            nonlocal draw
            if isinstance(event, RunProgress):
                draw = draw or drawn.enter_context(run_bars(enabled=not json))
                draw(event)
            elif isinstance(event, RunPhase):
                drawn.pop_all().close()
                draw = None
                render_phase(event, json)
            elif isinstance(event, RunWarning):
                screen.err().print(f"skipjack: {event.sentence}", markup=False, soft_wrap=True)

        yield observe


@contextlib.contextmanager
def run_bars(*, enabled: bool) -> Iterator[Callable[[RunProgress], None]]:
    """An observer for a coordinator; without a terminal, it prints a line now and then."""
    console = screen.err()
    said: set[str] = set()

    def say(note: str) -> None:
        if note and note not in said:
            said.add(note)
            console.print(f"skipjack: {note}", markup=False, soft_wrap=True)

    if not enabled or not console.is_terminal:
        reported_s = 0.0

        def tell(progress: RunProgress) -> None:
            nonlocal reported_s
            say(progress.note)
            if enabled and progress.elapsed_s - reported_s >= _LINE_EVERY_S:
                reported_s = progress.elapsed_s
                states = [f"{progress.counts[s]} {s}" for s in JobState if progress.counts.get(s)]
                console.print(f"skipjack: {reported_s:.0f} s: {', '.join(states)}", soft_wrap=True)

        yield tell
        return
    bars = screen.live_bars(
        console,
        TextColumn("{task.description:>15}"),
        BarColumn(bar_width=40),
        TextColumn("{task.fields[count]}"),
    )
    tasks: dict[JobState, TaskID] = {}

    def observe(status: RunProgress) -> None:
        say(status.note)
        total = max(1, sum(status.counts.values()))
        for state in JobState:
            count = status.counts.get(state, 0)
            if count and state not in tasks:
                tasks[state] = bars.add_task(str(state), total=total, count="")
            if state in tasks:
                bars.update(tasks[state], total=total, completed=count, count=f"{count}")

    with bars:
        yield observe


# Progress of the evaluation of a bundle.


@contextlib.contextmanager
def evaluation_bar(*, enabled: bool) -> Iterator[Callable[[BundleProgress], None]]:
    """An observer; if standard error is not a terminal, it only prints failures."""
    console = screen.err()

    def complain(status: BundleProgress) -> None:
        if status.failed and enabled:
            console.print(
                f"skipjack: job {status.job} failed: {status.failed}",
                markup=False,
                soft_wrap=True,
            )

    if not enabled or not console.is_terminal:
        yield complain
        return
    bar = screen.live_bars(
        console, TextColumn("evaluating"), BarColumn(bar_width=40), MofNCompleteColumn()
    )
    with bar:
        task = bar.add_task("", total=None)

        def observe(status: BundleProgress) -> None:
            complain(status)
            bar.update(task, total=status.total, completed=status.done)

        yield observe
