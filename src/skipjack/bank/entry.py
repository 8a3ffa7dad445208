"""A bank entry: its fields, its canonical line of JSON, and the check of a record that is read.

No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from skipjack.bank.evidence import BASELINE, REPLACED, Evidence
from skipjack.core import Device, Value, default_deployment, deployment_of, digest_of
from skipjack.reading import Field, described, parse_json, quoted

# How to call an entry's machine code, and where the entry came from. No I/O.


@dataclass(frozen=True, slots=True)
class LaunchData:
    """What is needed to call a kernel without its solver, apart from the code.

    It comes from the process that made the entry, and merging a bank does not check it: code whose
    digest is not known to be verified on this machine, with these slots, must not be run.
    """

    artifact: str
    """The SHA-256 of the machine code, which is its key in the artifact store."""
    symbol: str = ""
    """The name of the function."""
    abi: str = ""
    """The convention by which it takes its arguments."""
    slots: tuple[str | int, ...] = ()
    """Its arguments in order: names of arrays, numbers, workspace; on a GPU the launch plan."""
    workspace_bytes: int = 0
    """The scratch memory that a call needs, which follows from the slots."""
    compat: str = ""
    """`Device.compat_key` of the code: the devices that can load it."""

    def record(self) -> dict[str, Any]:
        """The JSON values."""
        return {
            "artifact": self.artifact,
            "symbol": self.symbol,
            "abi": self.abi,
            "slots": list(self.slots),
            "workspace_bytes": self.workspace_bytes,
            "compat": self.compat,
        }


@dataclass(frozen=True, slots=True)
class EntryOrigin:
    """The command and machine that made an entry; empty in entries of format 1."""

    command: str = ""
    """``tune`` or ``find``, run by a user or by a fleet's job."""
    machine: str = ""
    """A digest of `Device.instance_key`, the same for all entries of a machine."""

    @classmethod
    def of(cls, command: str, device: Device) -> EntryOrigin:
        """The origin of an entry that is made on this device."""
        return cls(command, digest_of(device.instance_key)[:16])

    def record(self) -> dict[str, Any]:
        """The JSON values."""
        return {"command": self.command, "machine": self.machine}


# The check of an entry's record, and the conversion of format 1. No I/O.

FORMAT = 2
"""The newest format of a line that this version reads, and the format that it writes.

Since 2 an entry has its protocol, toolchain, origin, the digest of its output and launch data.
"""
LONGEST_CHAIN = 10**6
"""Real chains of entries that replaced each other are shorter, since each was timed."""
LARGEST_SCORE = 1e12
"""Scores of inherited evidence are smaller: no kernel is this many times faster."""


class NewerEntryError(ValueError):
    """A line of a newer format."""


def checked(record: object) -> dict[str, Any]:
    """The fields of an entry from a JSON object; `ValueError` says what is wrong with it."""
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    if "device_class" in record:
        raise ValueError("it is an entry as printed by --json; give the bank's own file")
    found = record.get("format")
    if type(found) is not int or found < 1:
        raise ValueError("it has no format number")
    if found > FORMAT:
        raise NewerEntryError(f"it has format {found}, this Skipjack knows {FORMAT}")
    types = _TYPES if found > 1 else _TYPES_OF_1
    if record.keys() != types.keys():
        odd = ", ".join(map(quoted, sorted(record.keys() ^ types.keys())))
        raise ValueError(f"these fields are missing or unknown: {odd}")
    for name, kinds in types.items():
        if not isinstance(record[name], kinds) or isinstance(record[name], bool):
            raise ValueError(f"field {name} has a value of the wrong type")
    for name in _TIMES:
        if (record[name] or 0) < 0:
            raise ValueError(f"field {name} is negative")
    if not all(map(_is_gain, record["speedup"].values())):
        raise ValueError("field speedup has a value that is not a ratio with its interval")
    _check_evidence(record["evidence"])
    return _parts(record) if found > 1 else _of_format_1(record)


def _parts(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "origin": _origin(record["origin"]), "launch": _launch(record["launch"])}


def _origin(told: dict[str, Any]) -> EntryOrigin:
    command, machine = told.get("command"), told.get("machine")
    if len(told) == 2 and isinstance(command, str) and isinstance(machine, str):
        return EntryOrigin(command, machine)
    return Field(told, path="origin").of(EntryOrigin)


def _launch(told: dict[str, Any] | None) -> LaunchData | None:
    """Reads valid launch data fast; `Field`, which finds the error, takes as long as the rest."""
    if told is None:
        return None
    slots = told.get("slots")
    if not (
        len(told) == len(_TEXTS) + 2
        and all(isinstance(told.get(name), str) for name in _TEXTS)
        and isinstance(slots, list)
        and all(type(slot) is str or (type(slot) is int and _fits(slot)) for slot in slots)
        and type(told.get("workspace_bytes")) is int
        and _fits(told["workspace_bytes"])
    ):
        read = Field(told, path="launch").of(LaunchData)
    else:
        read = LaunchData(**{**told, "slots": tuple(slots)})
    if read.workspace_bytes < 0:
        raise ValueError("field launch.workspace_bytes is negative")
    return read


_TEXTS = ("artifact", "symbol", "abi", "compat")


def _fits(number: int) -> bool:
    return number.bit_length() < 64


def _of_format_1(record: dict[str, Any]) -> dict[str, Any]:
    """The record of an entry of format 1, which has protocol and artifact in the evidence."""
    evidence = dict(record["evidence"])
    protocol, artifact = evidence.pop("protocol", ""), evidence.pop("artifact", "")
    return {
        **record,
        "format": FORMAT,
        "evidence": evidence,
        "protocol": protocol if isinstance(protocol, str) else "",
        "launch": LaunchData(artifact) if isinstance(artifact, str) and artifact else None,
    }


_TYPES_OF_1: dict[str, type | tuple[type, ...]] = {
    "problem": str,
    "device": str,
    "device_name": str,
    "solver": str,
    "solver_version": int,
    "config": dict,
    "time_ns": (int, float),
    "default_ns": (int, float),
    "vendor_ns": (int, float, type(None)),
    "vendor": str,
    "speedup": dict,
    "evidence": dict,
    "created": str,
    "kind": str,
    "format": int,
}
_TYPES = {
    **_TYPES_OF_1,
    "protocol": str,
    "toolchain": str,
    "output": str,
    "origin": dict,
    "launch": (dict, type(None)),
}
_TIMES = ("time_ns", "default_ns", "vendor_ns")


def _is_number(value: object) -> bool:
    """Whether it is a number, or None for an unknown value."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_gain(value: object) -> bool:
    return isinstance(value, dict) and all(
        name in value and _is_number(value[name]) for name in ("ratio", "low", "high")
    )


def _is_baseline(value: object) -> bool:
    """Whether it is a gain with the name of what it is over."""
    return isinstance(value, dict) and isinstance(value.get("name"), str) and _is_gain(value)


def _check_evidence(evidence: dict[str, Any]) -> None:
    for name, is_right in (("ranking", _is_place), ("ties", _is_tie)):
        rows = evidence.get(name, [])
        if not isinstance(rows, list) or not all(map(is_right, rows)):
            raise ValueError(f"field evidence.{name} is not a list of the expected form")
    for name, is_right in ((BASELINE, _is_baseline), ("as_called", _is_gain)):
        if evidence.get(name) is not None and not is_right(evidence[name]):
            raise ValueError(f"field evidence.{name} is not a ratio with its interval")
    _check_history(evidence.get(REPLACED))


def _check_history(replaced: object) -> None:
    """Refuse a history that no tunings can have: the entry would stay whatever was measured."""
    for name, most in (("generation", LONGEST_CHAIN - 1), ("score", LARGEST_SCORE)):
        value = replaced.get(name) if isinstance(replaced, dict) else None
        if isinstance(value, int | float) and value > most:
            raise ValueError(
                f"field evidence.replaced.{name} is {described(value)}, above the most plausible "
                f"{most:,.0f}"
            )


def _is_tie(value: object) -> bool:
    """Whether it is a config of the same solver, or the name of another solver."""
    return isinstance(value, dict | str)


def _is_place(value: object) -> bool:
    """Whether it is the row of a solver in a ranking."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("solver"), str)
        and isinstance(value.get("config", {}), dict)
        and all(_is_number(value.get(name)) for name in ("time_ns", "spread", "workspace_bytes"))
        and (value.get("behind") is None or _is_gain(value["behind"]))
    )


# A bank entry and its canonical line of JSON. No I/O.

PERF, FIND = "perf", "find"
"""The kinds of entries: the best config, and the ranked solvers. See `pinned_kind` for others."""


def pinned_kind(pins: Mapping[str, str]) -> str:
    """The kind of the best config that has these settings: ``perf program=two_pass``.

    Such an entry only competes with those of the same pins. Without pins the kind is `PERF`.
    """
    words = (f"{name}={pins[name]}" for name in sorted(pins))
    return " ".join([PERF, *(word if " " not in word else json.dumps(word) for word in words)])


Key = tuple[str, str, str, str]
"""Problem, class of devices, kind, deployment: what entries compete for."""


def key_of(problem: str, device_class: str, kind: str = PERF, protocol: str | None = None) -> Key:
    """The key of a lookup; with the device's default deployment if no protocol is named."""
    return problem, device_class, kind, deployment_of(protocol or "", device_class)


@dataclass(frozen=True, slots=True)
class BankEntry:
    """A config of a problem that was confirmed on a class of devices, and its evidence.

    An entry of kind ``find`` names the fastest solver, perhaps a library, and holds all ranked
    solvers in ``evidence.ranking``.

    `launch` has what a program needs to call the kernel without its solver (digest of the code,
    symbol, ABI, slots, workspace, compat level); `toolchain` is what built it, and `output` the
    digest of its output. The entry of a library has the `launch` None.
    """

    problem: str
    device: str
    """The device's class key."""
    device_name: str
    solver: str
    solver_version: int
    config: Mapping[str, Value]
    time_ns: float
    default_ns: float
    vendor_ns: float | None
    vendor: str
    """The name of the vendor's solver; empty if there was none to compare with."""
    speedup: Mapping[str, Mapping[str, float]]
    """The gains over ``default`` and ``vendor``, each ``{ratio, low, high}``."""
    evidence: Evidence = field(default_factory=lambda: Evidence({}))
    """Counts of samples, alpha, study, ties; the entry that it replaced. Accepts any mapping."""
    created: str = ""
    """The date, which decides only among otherwise equal entries: clocks may be wrong."""
    kind: str = PERF
    protocol: str = ""
    """How it was timed: `TimingProtocol.key`; empty in format 1."""
    toolchain: str = ""
    """Name and version of the compiler; empty for a library and in format 1."""
    output: str = ""
    """SHA-256 of its output for the inputs on which builds are verified, to see whether another
    build computes the same bits; empty if it is not known."""
    origin: EntryOrigin = field(default_factory=EntryOrigin)
    launch: LaunchData | None = None
    format: int = FORMAT

    def __post_init__(self) -> None:
        # A `Config` is accepted; JSON needs a dict, and entries are compared with those read.
        object.__setattr__(self, "config", dict(self.config))
        object.__setattr__(self, "evidence", Evidence(self.evidence))

    @property
    def key(self) -> Key:
        """What entries compete for."""
        return self.problem, self.device, self.kind, self.deployed

    @property
    def deployed(self) -> str:
        """The deployment that was timed, as ``graph/cold``: see `skipjack.core.timing`."""
        return deployment_of(self.protocol, self.device)

    @property
    def usual(self) -> bool:
        """Whether its deployment is the default of its device, as in files for other libraries."""
        return self.deployed == default_deployment(self.device)

    @property
    def line(self) -> str:
        """The canonical text: compact JSON with sorted keys, in ASCII."""
        return json.dumps(self.record(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def record(self) -> dict[str, Any]:
        """The entry as JSON values, as the ledger's decisions keep it."""
        return {
            **{name: getattr(self, name) for name in _FIELDS},
            "evidence": dict(self.evidence),
            "origin": self.origin.record(),
            "launch": self.launch.record() if self.launch else None,
        }

    @classmethod
    def from_record(cls, record: object) -> BankEntry:
        """The entry of a JSON object; `ValueError` says what is wrong with it."""
        entry = cls(**checked(record))
        try:
            parse_json(entry.line)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        return entry

    @classmethod
    def from_line(cls, line: str | bytes) -> BankEntry:
        """The entry of a line of JSON; `ValueError` says what is wrong with it."""
        return cls(**checked(parse_json(line)))


_FIELDS = tuple(one.name for one in fields(BankEntry))
