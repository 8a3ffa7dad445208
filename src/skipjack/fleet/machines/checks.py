"""Checks of a machine: reachable, with its device and GPUs, disk space and equal versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from skipjack.errors import MalformedError
from skipjack.fleet.host import LEAST_FREE_BYTES
from skipjack.fleet.machines.probe import NOTED, versions
from skipjack.fleet.machines.remote import Reply, ask_everywhere
from skipjack.fleet.model import Registration
from skipjack.reading import Field

if TYPE_CHECKING:
    from skipjack.fleet.store import Labels


PROBE = "skipjack.fleet.machines.probe"
CHECKS = ("reachable", "skipjack", "device", "gpus", "disk", "versions", "label")
"""In order; if one of the first two fails, the others are unknown."""
COMPARED = ("skipjack", "python", "ray")
"""Versions that must be equal on all machines of a fleet."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a machine is compared with: this machine, and a label."""

    versions: Mapping[str, str]
    label: str = ""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Versions in the label's notes."""
    toolchains: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Toolchains that evaluated jobs of the label so far, by device."""
    devices: tuple[str, ...] = ()
    """Devices of the label's jobs."""
    least_free_bytes: int = LEAST_FREE_BYTES


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str
    ok: bool
    text: str
    """What was found; for a failed check, what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class MachineCondition:
    """All checks of a machine."""

    machine: Registration
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether all checks succeeded."""
        return all(check.ok for check in self.checks)

    @property
    def wrong(self) -> tuple[Check, ...]:
        """The failed checks."""
        return tuple(check for check in self.checks if not check.ok)


def requirements(labels: Labels | None = None, label: str = "") -> Requirements:
    """The requirements: the versions of this machine, and those of a label if one is named."""
    here = {name: text for name, text in versions().items() if name in COMPARED}
    if labels is None or not label:
        return Requirements(here)
    found = labels.get(label)
    notes = noted_versions(f"{found.versions}, {found.toolchain}")
    toolchains, devices = labels.toolchains(label), tuple(labels.devices(label))
    return Requirements(here, label, notes, toolchains, devices)


def check_machines(
    machines: Sequence[Registration],
    requested: Requirements,
    *,
    timeout_s: float = 60.0,
    accept_new: bool = False,
) -> list[MachineCondition]:
    """Check all machines in parallel."""
    replies = ask_everywhere(
        machines,
        PROBE,
        timeout_s=timeout_s,
        accept_new=accept_new,
        own=lambda machine: {"device": machine.device or _only(requested.devices)},
    )
    return [
        check_reply(machine, reply, requested)
        for machine, reply in zip(machines, replies, strict=True)
    ]


def _only(devices: Sequence[str]) -> str:
    return devices[0] if len(devices) == 1 else ""


def check_reply(machine: Registration, reply: Reply, requested: Requirements) -> MachineCondition:
    """Evaluate the reply of a machine."""
    if not reply.reached:
        return MachineCondition(machine, (Check("reachable", False, reply.failure),))
    reached = Check("reachable", True, machine.host)
    if reply.failure:
        return MachineCondition(machine, (reached, Check("skipjack", False, reply.failure)))
    found = reply.content
    try:
        _check_report(Field(found))
    except MalformedError as error:
        why = f"its report cannot be read ({error}); install the same version of Skipjack there"
        return MachineCondition(machine, (reached, Check("skipjack", False, why)))
    there = Check("skipjack", True, str(found["versions"]["skipjack"]))
    judges: Sequence[Callable[[Registration, Mapping[str, Any], Requirements], Check | None]] = (
        *(_device, _gpus, _disk, _versions, _label),
    )
    more = (one for judge in judges if (one := judge(machine, found, requested)) is not None)
    return MachineCondition(machine, (reached, there, *more))


def _check_report(found: Field) -> None:
    """`MalformedError` if a report has not the form that the probe of this version writes."""
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


def _device(
    machine: Registration, found: Mapping[str, Any], requested: Requirements
) -> Check | None:
    has = _devices(found)
    if not machine.device:
        return Check("device", True, has)
    if machine.device in found["gpus"] or machine.device in found["cpus"]:
        return Check("device", True, machine.device)
    why = f"{machine.device} was not found; the machine has {has}"
    return Check("device", False, f"{why}; check its driver, or register the device that it has")


def _devices(found: Mapping[str, Any]) -> str:
    """All its devices, in a few words."""
    cpus = found["cpus"]
    gpus = [f"{count} x {name}" for name, count in found["gpus"].items()]
    range_of = f"{cpus[0]} to {cpus[-1]}" if len(cpus) > 1 else "".join(cpus)
    return (
        ", ".join([*gpus, *([range_of] if range_of else [])]) or "no device that it can measure on"
    )


def _gpus(machine: Registration, found: Mapping[str, Any], requested: Requirements) -> Check | None:
    count = found["gpus"].get(machine.device, 0)
    if not machine.device or (machine.device in found["cpus"] and not machine.gpus):
        return None
    if count == machine.gpus:
        return Check("gpus", True, str(count))
    why = f"{count} of {machine.device} were found, {machine.gpus} are registered"
    return Check("gpus", False, f"{why}; look for a lost GPU, or register {count}")


def _disk(machine: Registration, found: Mapping[str, Any], requested: Requirements) -> Check | None:
    free, place = int(found["free_bytes"]), found["user_dir"]
    if free >= requested.least_free_bytes:
        return Check("disk", True, f"{free / 2**30:.1f} GiB free")
    least = requested.least_free_bytes >> 20
    why = f"{free >> 20} MB are free for {place}, {least} MB are needed"
    return Check("disk", False, f"{why}; free some space there")


def _versions(
    machine: Registration, found: Mapping[str, Any], requested: Requirements
) -> Check | None:
    has: Mapping[str, str] = found["versions"]
    others = [
        f"{name} {has.get(name, 'is missing')} instead of {version}"
        for name, version in requested.versions.items()
        if not _same(name, has.get(name, ""), version)
    ]
    if others:
        return Check("versions", False, f"{', '.join(others)}; install the same versions as here")
    return Check("versions", True, ", ".join(f"{name} {has[name]}" for name in requested.versions))


def _same(name: str, one: str, other: str) -> bool:
    if name == "python":  # Ray and compiled packages work with any patch release of 3.11
        return one.split(".")[:2] == other.split(".")[:2]
    return one == other


def _label(
    machine: Registration, found: Mapping[str, Any], requested: Requirements
) -> Check | None:
    if not requested.label:
        return None
    has: Mapping[str, str] = found["versions"]
    wrong = [
        f"{name} {has.get(name, 'is missing')}, the label's notes say {version}"
        for name, version in requested.notes.items()
        if not _begins_with(has.get(name, ""), version)
    ]
    has_devices = {machine.device} if machine.device else {*found["gpus"], *found["cpus"]}
    if requested.devices and has_devices.isdisjoint(requested.devices):
        devices = ", ".join(requested.devices)
        what = machine.device or f"what it has ({_devices(found)})"
        wrong.append(f"no job is for {what}; its jobs are for {devices}")
    used = requested.toolchains.get(machine.device or _only(requested.devices), ())
    if used and found["toolchain"] and found["toolchain"] not in used:
        wrong.append(f"results so far are by [{used[0]}], this machine has [{found['toolchain']}]")
    if wrong:
        return Check("label", False, f"{requested.label}: {'; '.join(wrong)}")
    return Check("label", True, requested.label)


def _begins_with(has: str, noted: str) -> bool:
    """Whether a version matches a noted prefix: 6.2.1-66 matches 6.2."""
    return has == noted or re.match(re.escape(noted) + r"[.+-]", has) is not None


def noted_versions(note: str) -> dict[str, str]:
    """Versions in a note of packages that the probe reports: ``rocm 6.2, triton=3.1``."""
    found = re.findall(r"\b([A-Za-z]+)[ =:-]+v?(\d+(?:\.\w+)*(?:[+-]\w+(?:\.\w+)*)?)", note)
    return {name.lower(): version for name, version in found if name.lower() in NOTED}
