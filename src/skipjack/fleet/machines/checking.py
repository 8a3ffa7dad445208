"""Is a machine fit for work? Reachable, with its device and GPUs, room, and the same versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skipjack.errors import MalformedError
from skipjack.fleet.host import LEAST_FREE_BYTES
from skipjack.fleet.machines.probe import NOTED, versions
from skipjack.fleet.machines.registration import Registration
from skipjack.fleet.machines.remote import Reply, ask_everywhere
from skipjack.reading import Field

if TYPE_CHECKING:
    from skipjack.fleet.store import Labels

PROBE = "skipjack.fleet.machines.probe"
CHECKS = ("reachable", "skipjack", "device", "gpus", "disk", "versions", "label")
"""In the order in which they are made; after a failure of the first two nothing more is known."""
COMPARED = ("skipjack", "python", "ray")
"""What all machines of a fleet must have in common."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a machine must have in common with this one, and with a label."""

    versions: Mapping[str, str]
    label: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Versions that the label's notes name."""
    toolchains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Those that evaluated jobs of the label so far, by device."""
    devices: tuple[str, ...] = ()
    """That the label's jobs are for."""
    least_free_bytes: int = LEAST_FREE_BYTES


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer."""

    name: str
    ok: bool
    text: str
    """What was found; if it is not well, what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A machine as it was found."""

    machine: Registration
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether it is fit for work."""
        return all(check.ok for check in self.checks)

    @property
    def wrong(self) -> tuple[Check, ...]:
        """What is not well."""
        return tuple(check for check in self.checks if not check.ok)


def wanted(labels: Labels | None = None, label: str = "") -> Wanted:
    """What is the same as here; and as the label says, if one is named."""
    here = {name: text for name, text in versions().items() if name in COMPARED}
    if labels is None or not label:
        return Wanted(here)
    found = labels.get(label)
    notes = noted_versions(f"{found.versions}, {found.toolchain}")
    toolchains, devices = labels.toolchains(label), tuple(labels.devices(label))
    return Wanted(here, label, notes, toolchains, devices)


def check_machines(
    machines: Sequence[Registration],
    wish: Wanted,
    *,
    timeout_s: float = 60.0,
    accept_new: bool = False,
) -> list[Condition]:
    """Look at all of them at once."""
    replies = ask_everywhere(
        machines,
        PROBE,
        timeout_s=timeout_s,
        accept_new=accept_new,
        own=lambda machine: {"device": machine.device or _only(wish.devices)},
    )
    return [judge(machine, reply, wish) for machine, reply in zip(machines, replies, strict=True)]


def _only(devices: Sequence[str]) -> str:
    return devices[0] if len(devices) == 1 else ""


def judge(machine: Registration, reply: Reply, wish: Wanted) -> Condition:
    """What a reply says about a machine; nothing is asked."""
    if not reply.reached:
        return Condition(machine, (Check("reachable", False, reply.failure),))
    reached = Check("reachable", True, machine.host)
    if reply.failure:
        return Condition(machine, (reached, Check("skipjack", False, reply.failure)))
    found = reply.content
    try:
        _check_report(Field(found))
    except MalformedError as error:
        why = f"its report cannot be used ({error}); install the same Skipjack there"
        return Condition(machine, (reached, Check("skipjack", False, why)))
    there = Check("skipjack", True, str(found["versions"]["skipjack"]))
    judges: Sequence[Callable[[Registration, Mapping[str, Any], Wanted], Check | None]] = (
        *(_device, _gpus, _disk, _versions, _label),
    )
    more = (one for judge in judges if (one := judge(machine, found, wish)) is not None)
    return Condition(machine, (reached, there, *more))


def _check_report(found: Field) -> None:
    """Whether a probe that ran on another machine said what it says here."""
    found["versions"]["skipjack"].text()
    for version in found["versions"].fields().values():
        version.text()
    for cpu in found["cpus"].elements():
        cpu.text()
    for count in found["gpus"].fields().values():
        count.integer(0)
    found["free_bytes"].integer(0)
    for name in ("user_dir", "toolchain"):
        found[name].text()


def _device(machine: Registration, found: Mapping[str, Any], wish: Wanted) -> Check | None:
    has = _devices(found)
    if not machine.device:
        return Check("device", True, has)
    if machine.device in found["gpus"] or machine.device in found["cpus"]:
        return Check("device", True, machine.device)
    why = f"{machine.device} is not there; the machine has {has}"
    return Check("device", False, f"{why}: check its driver, or register what it has")


def _devices(found: Mapping[str, Any]) -> str:
    """All that it has, in a few words."""
    cpus = found["cpus"]
    gpus = [f"{count} x {name}" for name, count in found["gpus"].items()]
    range_of = f"{cpus[0]} to {cpus[-1]}" if len(cpus) > 1 else "".join(cpus)
    return ", ".join([*gpus, *([range_of] if range_of else [])]) or "nothing that it can measure on"


def _gpus(machine: Registration, found: Mapping[str, Any], wish: Wanted) -> Check | None:
    count = found["gpus"].get(machine.device, 0)
    if not machine.device or (machine.device in found["cpus"] and not machine.gpus):
        return None
    if count == machine.gpus:
        return Check("gpus", True, str(count))
    why = f"{count} of {machine.device} are there, {machine.gpus} are registered"
    return Check("gpus", False, f"{why}: look for a lost GPU, or register {count}")


def _disk(machine: Registration, found: Mapping[str, Any], wish: Wanted) -> Check | None:
    free, place = int(found["free_bytes"]), found["user_dir"]
    if free >= wish.least_free_bytes:
        return Check("disk", True, f"{free / 2**30:.1f} GiB free")
    least = wish.least_free_bytes >> 20
    why = f"{free >> 20} MB are free for {place}, {least} MB are needed"
    return Check("disk", False, f"{why}: free some space there")


def _versions(machine: Registration, found: Mapping[str, Any], wish: Wanted) -> Check | None:
    has: Mapping[str, str] = found["versions"]
    others = [
        f"{name} {has.get(name, 'is missing')} instead of {version}"
        for name, version in wish.versions.items()
        if not _same(name, has.get(name, ""), version)
    ]
    if others:
        return Check("versions", False, f"{', '.join(others)}: install the same as here")
    return Check("versions", True, ", ".join(f"{name} {has[name]}" for name in wish.versions))


def _same(name: str, one: str, other: str) -> bool:
    if name == "python":  # Ray and compiled packages are for all of 3.11, whatever follows
        return one.split(".")[:2] == other.split(".")[:2]
    return one == other


def _label(machine: Registration, found: Mapping[str, Any], wish: Wanted) -> Check | None:
    if not wish.label:
        return None
    has: Mapping[str, str] = found["versions"]
    wrong = [
        f"{name} {has.get(name, 'is missing')}, the label's notes say {version}"
        for name, version in wish.notes.items()
        if not _begins_with(has.get(name, ""), version)
    ]
    has_devices = {machine.device} if machine.device else {*found["gpus"], *found["cpus"]}
    if wish.devices and has_devices.isdisjoint(wish.devices):
        devices = ", ".join(wish.devices)
        what = machine.device or f"what it has ({_devices(found)})"
        wrong.append(f"no job is for {what}, but for {devices}")
    used = wish.toolchains.get(machine.device or _only(wish.devices), ())
    if used and found["toolchain"] and found["toolchain"] not in used:
        wrong.append(f"results so far are by [{used[0]}], this machine has [{found['toolchain']}]")
    if wrong:
        return Check("label", False, f"{wish.label}: {'; '.join(wrong)}")
    return Check("label", True, wish.label)


def _begins_with(has: str, noted: str) -> bool:
    """6.2 is noted, 6.2.1-66 is there."""
    return has == noted or re.match(re.escape(noted) + r"[.+-]", has) is not None


def noted_versions(note: str) -> dict[str, str]:
    """Versions of what a probe knows that a note names, as ``rocm 6.2, triton=3.1``."""
    found = re.findall(r"\b([A-Za-z]+)[ =:-]+v?(\d+(?:\.\w+)*(?:[+-]\w+(?:\.\w+)*)?)", note)
    return {name.lower(): version for name, version in found if name.lower() in NOTED}
