"""``skipjack load``: jobs out of problems."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from skipjack.cli.fleet.options import (
    ArchOption,
    DeviceOption,
    RequiredLabel,
    UnitsOption,
    device_of,
    the_store,
)
from skipjack.cli.options import JsonOption, examples
from skipjack.errors import SkipjackError, UsageError

if TYPE_CHECKING:
    from skipjack.core.device import Device
    from skipjack.fleet.importing import Misses
    from skipjack.fleet.loading import Planned, Selection
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
    tag: Annotated[str | None, typer.Option("-t", "--tag", help="Problems with this tag.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All problems.")] = False,
    from_label: Annotated[
        str | None, typer.Option("--from-label", help="The jobs of another label once more.")
    ] = None,
    recurrent: Annotated[
        bool, typer.Option("--recurrent", help="Problems that were imported with --recurrent.")
    ] = False,
    misses: Annotated[
        bool,
        typer.Option(
            "--misses",
            help="What programs asked for in vain under SKIPJACK_ON_MISS=record; what took the "
            "most time is tuned first.",
        ),
    ] = False,
    stale: Annotated[
        bool, typer.Option("--stale", help="Only where no result of today's tools is known.")
    ] = False,
    operation: Annotated[
        str | None,
        typer.Option(help="Only these, with commas between: conv2d,conv3d, or 'conv*'."),
    ] = None,
    direction: Annotated[
        str | None, typer.Option(help="Only these: fwd, bwd, wrw with commas between, or all.")
    ] = None,
    dtype: Annotated[str | None, typer.Option(help="Only this one, as f32.")] = None,
    device: DeviceOption = None,
    devices: Annotated[
        str | None, typer.Option("--devices", help="Several, as gfx90a/104,gfx942/304.")
    ] = None,
    arch: ArchOption = None,
    units: UnitsOption = None,
    as_on: Annotated[
        str,
        typer.Option(
            "--as-on", help="A machine that has the device, if several of one name differ."
        ),
    ] = "",
    solver: Annotated[
        str | None,
        typer.Option(help="auto: the promising ones race; all: a job for each; or names."),
    ] = None,
    searcher: Annotated[
        str | None, typer.Option(help="As --searcher of tune; auto, which chooses, without it.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Makes a search repeatable.")] = None,
    budget: Annotated[int | None, typer.Option(min=1, help="Trials of each job (32).")] = None,
    round_size: Annotated[
        int | None, typer.Option("--round", min=1, help="Trials that are asked for at once (32).")
    ] = None,
    priority: Annotated[
        int, typer.Option(min=-(2**31), max=2**31 - 1, help="Higher ones are claimed first.")
    ] = 0,
    owner: Annotated[str | None, typer.Option(help="Whose label it is; you.")] = None,
    toolchain: Annotated[str, typer.Option(help="A note on the label.")] = "",
    versions: Annotated[str, typer.Option(help="A note on the label.")] = "",
    image: Annotated[str, typer.Option(help="A note on the label.")] = "",
    ticket: Annotated[str, typer.Option(help="A note on the label.")] = "",
    json: JsonOption = False,
) -> None:
    """Make jobs; what the label has already is not made twice."""
    from skipjack import plugins
    from skipjack.fleet.loading import Selection, Terms, plan_jobs
    from skipjack.fleet.records import Label
    from skipjack.reading import numbered
    from skipjack.report import print_json
    from skipjack.settings import load_settings

    settings = load_settings()
    plugins.load(settings.plugins)
    here: tuple[Device, ...] = ()
    missed = None
    if misses:
        from skipjack.fleet.host import detect_host
        from skipjack.fleet.importing import TAG, misses_of

        if from_label or everything or recurrent:
            raise UsageError("--misses says which problems: leave the others of that kind out")
        here = tuple(detect_host().devices)
        missed = misses_of(settings, here)
        _check_missed(missed)
        tag = tag or TAG
    several = [name.strip() for name in devices.split(",")] if devices else []
    named = [device_of(device, arch, units), *(device_of(name, None, None) for name in several)]
    selection = Selection(
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
        else:
            _import_list(store, tag, json)
        targets = tuple(name for name in named if name)
        mine = device == "cpu" or not (targets or from_label or missed)
        if mine:
            here = (_this_cpu(),)
            targets = targets or tuple(one.name for one in here)
        terms = Terms(
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
        added = store.jobs.add(wanted, planned.plans, priority=priority, chosen=planned.chosen)
        unseen = _unseen(store, {plan.device for plan in planned.plans})
    if json:
        record = {"jobs": added.added, "known": added.known, "problems": planned.problems}
        more = {"not_applicable": planned.not_applicable, "fresh": planned.fresh}
        print_json("load", {"label": label, **record, **more, "unseen": unseen})
        return
    if not planned.plans:
        what = numbered(planned.fresh, "problem")
        typer.echo(
            f"nothing is stale: today's tools have measured {what}; no job in {label} is new"
        )
        return
    typer.echo(_sentence(label, added.added, added.known, planned.not_applicable, planned.fresh))
    if added.known and (budget or round_size or searcher or seed is not None):
        typer.echo(
            "skipjack: jobs that were there keep their budget, searcher and seed; "
            "another label has its own",
            err=True,
        )
    for name in unseen:
        hint = f"; skipjack tune --device {name} tunes for it here" if _runs_here(name) else ""
        text = f"no machine with {name} was seen yet; its jobs will wait for one{hint}"
        typer.echo(f"skipjack: {text}", err=True)


def _check_missed(missed: Misses) -> None:
    """Say what is left out, and refuse a load of nothing."""
    from skipjack.reading import numbered

    if missed.elsewhere:
        count = numbered(missed.elsewhere, "problem")
        text = f"{count} missed on other devices of the same name: load them there"
        typer.echo(f"skipjack: {text}", err=True)
    if missed.unread:
        count = numbered(missed.unread, "missed problem")
        text = f"{count} of operations that are not known here"
        typer.echo(f"skipjack: {text}; name their plug-in in SKIPJACK_PLUGINS", err=True)
    if missed.plans:
        return
    if missed.known:
        raise SkipjackError(
            f"nothing to tune: banks know {numbered(missed.known, 'missed problem')}"
        )
    raise SkipjackError(
        "no program has missed a problem of this machine; run them with SKIPJACK_ON_MISS=record"
    )


def _import_list(store: Store, tag: str | None, json: bool) -> None:
    """A tag that nobody has given yet may be the name of a list that comes with Skipjack."""
    from skipjack import lists

    if tag is None or tag not in lists.names() or tag in dict(store.problems.tags()):
        return
    from skipjack.fleet.importing import ImportOptions, import_file
    from skipjack.reading import numbered

    done = import_file(store.problems, lists.path_of(tag), ImportOptions(tag=tag))
    if not json:
        typer.echo(
            f"skipjack: {numbered(done.understood, 'problem')} of the list {tag} imported", err=True
        )


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()


def _check_found(selection: Selection, planned: Planned, targets: Sequence[str]) -> None:
    """A label without jobs is of no use, unless nothing is stale: say why there are none."""
    if planned.plans or planned.fresh:
        return
    if planned.not_applicable:
        places = ", ".join(targets)
        raise SkipjackError(
            f"no solver that was asked for can do any of these problems on {places}; "
            "--device names another device"
        )
    what = [f"operation {', '.join(selection.operations)}" if selection.operations else ""]
    what += [f"direction {', '.join(selection.directions)}" if selection.directions else ""]
    what += [f"dtype {selection.dtype}" if selection.dtype else ""]
    what += ["the mark recurrent" if selection.recurrent else ""]
    listed = ", ".join(part for part in what if part)
    raise SkipjackError("no problem matches" + (f" with {listed}" if listed else ""))


def _check_for_cpus(planned: Planned) -> None:
    """Where no device is named it is this CPU: refuse what no CPU's kernels compute in."""
    from skipjack.core.dtypes import CPU_DTYPES, listed

    dtypes = {plan.problem.split(":")[2] for plan in planned.plans}
    if not planned.fresh and not dtypes & set(CPU_DTYPES):
        raise UsageError(
            f"these problems are in {listed(sorted(dtypes))}, which no kernel for CPUs computes "
            "in; name a GPU, as --device sm_90/132"
        )


def _directions(text: str | None) -> tuple[str, ...]:
    from skipjack.fleet.loading import DIRECTIONS

    if text is None or text.lower() == "all":
        return ()
    wanted = tuple(part.strip().lower() for part in text.split(","))
    for part in wanted:
        if part not in DIRECTIONS:
            raise UsageError(f"unknown direction {part!r}: choose {', '.join(DIRECTIONS)} or all")
    return wanted


def _this_cpu() -> Device:
    from skipjack.native import cpu

    return cpu.detect()


def _unseen(store: Store, wanted: set[str]) -> list[str]:
    """Devices that no machine has, as far as anybody knows."""
    from skipjack.fleet.host import detect_host

    seen = {name for machine in store.machines.all() for name in machine.devices}
    seen |= {device.name for device in detect_host().devices}
    return sorted(wanted - seen)


def _runs_here(name: str) -> bool:
    """Whether this machine's CPU runs code for that one, so that `tune` may stand in for it."""
    from skipjack.devices import find_device

    try:
        return find_device(name).kind == "cpu"
    except SkipjackError:
        return False


def _sentence(label: str, added: int, known: int, not_applicable: int, fresh: int) -> str:
    from skipjack.reading import numbered

    more = [
        f"{known} {'was' if known == 1 else 'were'} there already" if known else "",
        f"{numbered(not_applicable, 'solver')} cannot do the problem" if not_applicable else "",
        f"{fresh} {'is' if fresh == 1 else 'are'} known well enough" if fresh else "",
    ]
    listed = "; ".join(part for part in more if part)
    return f"{numbered(added, 'job')} in {label}" + (f"; {listed}" if listed else "")
