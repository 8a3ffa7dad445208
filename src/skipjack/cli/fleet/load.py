"""``skipjack load``: makes jobs of problems."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.arguments import (
    ArchOption,
    DeviceOption,
    JsonOption,
    RequiredLabel,
    UnitsOption,
    device_of,
    examples,
    the_store,
)
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.core import Device
    from skipjack.fleet.labels import PlannedJobs, ProblemSelection
    from skipjack.fleet.problem_import import Misses
    from skipjack.fleet.store import Store


EXAMPLES = examples(
    "skipjack load -t resnet -l resnet_2026_11 --device emeraldrapids/1 --direction all "
    "--solver all --budget 32",
    "skipjack load --all --operation 'conv*' --devices gfx90a/104,gfx942/304 -l L",
    "skipjack load -t llm -l gpu --device sm_90/132",
    "skipjack load --from-label A -l B",
    "skipjack load --recurrent --stale -l nightly",
    "SKIPJACK_ON_MISS=record python serve.py ; skipjack load --misses -l tonight",
)


def load(
    label: RequiredLabel,
    tag: Annotated[
        str | None, typer.Option("-t", "--tag", help="Load problems with this tag.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Load all problems.")] = False,
    from_label: Annotated[
        str | None, typer.Option("--from-label", help="Load the jobs of another label again.")
    ] = None,
    recurrent: Annotated[
        bool, typer.Option("--recurrent", help="Load problems that were imported with --recurrent.")
    ] = False,
    misses: Annotated[
        bool,
        typer.Option(
            "--misses",
            help="Load problems that programs found in no bank, under SKIPJACK_ON_MISS=record; "
            "those that took the most time come first.",
        ),
    ] = False,
    stale: Annotated[
        bool, typer.Option("--stale", help="Only problems without results of the current tools.")
    ] = False,
    operation: Annotated[
        str | None,
        typer.Option(help="Only these operations, separated by commas: conv2d,conv3d, or 'conv*'."),
    ] = None,
    direction: Annotated[
        str | None,
        typer.Option(help="Only these directions: fwd, bwd, wrw, separated by commas, or all."),
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Only this element type, such as f32.")] = None,
    device: DeviceOption = None,
    devices: Annotated[
        str | None,
        typer.Option("--devices", help="Several devices, such as gfx90a/104,gfx942/304."),
    ] = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    as_on: Annotated[
        str,
        typer.Option(
            "--as-on", help="A machine that has the device, if devices of this name differ."
        ),
    ] = "",
    solver: Annotated[
        str | None,
        typer.Option(
            help="Solvers: auto (the promising ones compete), all (a job for each), or names."
        ),
    ] = None,
    searcher: Annotated[
        str | None, typer.Option(help="Search algorithm, as for skipjack tune (auto).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the search.")] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Number of trials of each job (32).")
    ] = None,
    round_size: Annotated[
        int | None, typer.Option("--round", min=1, help="Number of trials in each round (32).")
    ] = None,
    priority: Annotated[
        int,
        typer.Option(min=-(2**31), max=2**31 - 1, help="Jobs of higher priority are done first."),
    ] = 0,
    owner: Annotated[str | None, typer.Option(help="The label's owner (you).")] = None,
    toolchain: Annotated[str, typer.Option(help="A note on the label.")] = "",
    versions: Annotated[str, typer.Option(help="A note on the label.")] = "",
    image: Annotated[str, typer.Option(help="A note on the label.")] = "",
    ticket: Annotated[str, typer.Option(help="A note on the label.")] = "",
    json: JsonOption = False,
) -> None:
    """Make jobs of problems; jobs that exist are not made again."""
    from skipjack import plugins
    from skipjack.fleet.labels import PlanOptions, ProblemSelection, plan_jobs
    from skipjack.fleet.model import Label
    from skipjack.reading import numbered
    from skipjack.report import print_json
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    here: tuple[Device, ...] = ()
    missed = None
    if misses:
        from skipjack.fleet import detect_host
        from skipjack.fleet.problem_import import TAG, misses_of

        if from_label or everything or recurrent:
            raise UsageError(
                "--misses selects the problems; leave --from-label, --all and --recurrent out"
            )
        here = tuple(detect_host().devices)
        missed = misses_of(settings, here)
        _check_missed(missed)
        tag = tag or TAG
    several = [name.strip() for name in devices.split(",")] if devices else []
    named = [device_of(device, arch, units), *(device_of(name, None, None) for name in several)]
    selection = ProblemSelection(
        tag,
        everything,
        from_label,
        recurrent,
        stale,
        _names(operation),
        _directions(direction),
        dtype,
        missed.plans if missed else (),
    )
    with the_store() as store:
        if missed:
            store.problems.add(missed.problems, TAG)
            store.problems.set_calls(missed.calls, TAG)
        else:
            _import_list(store, tag, json)
        targets = tuple(name for name in named if name)
        mine = device == "cpu" or not (targets or from_label or missed)
        if mine:
            here = (_this_cpu(),)
            targets = targets or tuple(one.name for one in here)
        terms = PlanOptions(
            *(targets, solver, searcher, seed, budget, round_size),
            label=label,
            as_on=as_on,
            here=here,
        )
        planned = plan_jobs(store, selection, terms)
        _check_found(selection, planned, targets or ("the devices of the label",))
        if mine and planned.plans:
            _check_for_cpus(planned)
        wanted = Label(label, owner or getpass.getuser(), toolchain, versions, image, ticket)
        added = store.jobs.add(
            wanted, planned.plans, priority=priority, chosen=planned.chosen, tag=tag
        )
        unseen = _unseen(store, {plan.device for plan in planned.plans})
    if json:
        record = {"jobs": added.added, "known": added.known, "problems": planned.problems}
        more = {"not_applicable": planned.not_applicable, "fresh": planned.fresh}
        print_json("load", {"label": label, **record, **more, "unseen": unseen})
        return
    if not planned.plans:
        what = numbered(planned.fresh, "problem")
        typer.echo(
            f"nothing is stale: the current tools have measured {what}; no job was added to {label}"
        )
        return
    typer.echo(_sentence(label, added.added, added.known, planned.not_applicable, planned.fresh))
    if added.known and (budget or round_size or searcher or seed is not None):
        typer.echo(
            "skipjack: jobs that were there keep their budget, searcher and seed; "
            "use another label for new ones",
            err=True,
        )
    for name in unseen:
        hint = f"; skipjack tune --device {name} tunes for it here" if _runs_here(name) else ""
        text = f"no machine with {name} has been seen yet; its jobs will wait for one{hint}"
        typer.echo(f"skipjack: {text}", err=True)


def _check_missed(missed: Misses) -> None:
    """Print which misses are left out; `SkipjackError` if none are left."""
    from skipjack.reading import numbered

    if missed.elsewhere:
        count = numbered(missed.elsewhere, "problem")
        text = f"left out {count} missed on other devices of the same name; load them there"
        typer.echo(f"skipjack: {text}", err=True)
    if missed.unread:
        count = numbered(missed.unread, "missed problem")
        text = f"left out {count} of unknown operations"
        typer.echo(f"skipjack: {text}; name their plug-in in SKIPJACK_PLUGINS", err=True)
    if missed.plans:
        return
    if missed.known:
        raise SkipjackError(
            f"nothing to tune: banks now know {numbered(missed.known, 'missed problem')}"
        )
    raise SkipjackError(
        "no misses were recorded on this machine; run programs with SKIPJACK_ON_MISS=record"
    )


def _import_list(store: Store, tag: str | None, json: bool) -> None:
    """Import the list that comes with Skipjack, if an unused tag is the name of one."""
    from skipjack import lists

    if tag is None or tag not in lists.names() or tag in dict(store.problems.tags()):
        return
    from skipjack.fleet.problem_import import ImportOptions, import_file
    from skipjack.reading import numbered

    done = import_file(store.problems, lists.path_of(tag), ImportOptions(tag=tag))
    if not json:
        typer.echo(
            f"skipjack: {numbered(done.understood, 'problem')} of the list {tag} imported", err=True
        )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def _check_found(selection: ProblemSelection, planned: PlannedJobs, targets: Sequence[str]) -> None:
    """`SkipjackError` that says why there are no jobs, unless nothing is stale."""
    if planned.plans or planned.fresh:
        return
    if planned.not_applicable:
        places = ", ".join(targets)
        raise SkipjackError(
            f"none of the chosen solvers can compute any of these problems on {places}; "
            "choose another device with --device"
        )
    what = [f"operation {', '.join(selection.operations)}" if selection.operations else ""]
    what += [f"direction {', '.join(selection.directions)}" if selection.directions else ""]
    what += [f"dtype {selection.dtype}" if selection.dtype else ""]
    what += ["the mark recurrent" if selection.recurrent else ""]
    listed = ", ".join(part for part in what if part)
    raise SkipjackError("no problem matches" + (f" with {listed}" if listed else ""))


def _check_for_cpus(planned: PlannedJobs) -> None:
    """Without a device, jobs are for this CPU: refuse element types without CPU kernels."""
    from skipjack.core import CPU_DTYPES, listed

    dtypes = {plan.problem.split(":")[2] for plan in planned.plans}
    if not planned.fresh and not dtypes & set(CPU_DTYPES):
        raise UsageError(
            f"these problems are in {listed(sorted(dtypes))}, which no kernel for CPUs computes "
            "in; name a GPU, such as --device sm_90/132"
        )


def _directions(text: str | None) -> tuple[str, ...]:
    from skipjack.fleet.labels import DIRECTIONS

    if text is None or text.lower() == "all":
        return ()
    wanted = tuple(part.strip().lower() for part in text.split(","))
    for part in wanted:
        if part not in DIRECTIONS:
            raise UsageError(
                f"unknown direction {part!r}; choose from {', '.join(DIRECTIONS)} or all"
            )
    return wanted


def _this_cpu() -> Device:
    from skipjack.native import cpu

    return cpu.detect()


def _unseen(store: Store, wanted: set[str]) -> list[str]:
    """Devices that no known machine has."""
    from skipjack.fleet import detect_host

    seen = {name for machine in store.machines.all() for name in machine.devices}
    seen |= {device.name for device in detect_host().devices}
    return sorted(wanted - seen)


def _runs_here(name: str) -> bool:
    """Whether this machine's CPU runs code for that device, so that `tune` can be used here."""
    from skipjack.devices import find_device

    try:
        return find_device(name).kind == "cpu"
    except SkipjackError:
        return False


def _sentence(label: str, added: int, known: int, not_applicable: int, fresh: int) -> str:
    from skipjack.reading import numbered

    more = [
        f"{known} {'was' if known == 1 else 'were'} there already" if known else "",
        f"{numbered(not_applicable, 'solver')} cannot compute their problem"
        if not_applicable
        else "",
        f"{fresh} {'is' if fresh == 1 else 'are'} up to date" if fresh else "",
    ]
    listed = "; ".join(part for part in more if part)
    return f"{numbered(added, 'job')} in {label}" + (f"; {listed}" if listed else "")
