"""The check of an entry's record: what is wrong with it, and what it was in format 1. No I/O."""

from __future__ import annotations

from typing import Any

from skipjack.bank.entry_evidence import BASELINE, REPLACED
from skipjack.bank.launch import EntryOrigin, LaunchData
from skipjack.reading import Field, described, quoted

FORMAT = 2
"""The newest format of a line that this version reads, and the one that it writes.

Since 2 an entry has its protocol, toolchain, origin, the digest of its output and launch data.
"""
LONGEST_CHAIN = 10**6
"""Entries that replaced each other in a row are fewer, each having been timed."""
LARGEST_SCORE = 1e12
"""Scores of evidence that was inherited are smaller: no kernel is so many times faster."""


class NewerEntryError(ValueError):
    """A line of a format that is not known yet."""


def checked(record: object) -> dict[str, Any]:
    """The fields of the entry that a JSON object is; `ValueError` says what is wrong with it."""
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    if "device_class" in record:
        raise ValueError("it is what --json prints of an entry; give the bank's own file")
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
    """As `Field` reads it, which says what is wrong but takes as long as all the rest of a line."""
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
    """What format 1 knew of the protocol and of the code stood in the evidence."""
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
    """A number, or None for what is not known."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_gain(value: object) -> bool:
    return isinstance(value, dict) and all(
        name in value and _is_number(value[name]) for name in ("ratio", "low", "high")
    )


def _is_baseline(value: object) -> bool:
    """A gain, and the name of what it is over."""
    return isinstance(value, dict) and isinstance(value.get("name"), str) and _is_gain(value)


def _check_evidence(evidence: dict[str, Any]) -> None:
    for name, is_right in (("ranking", _is_place), ("ties", _is_tie)):
        rows = evidence.get(name, [])
        if not isinstance(rows, list) or not all(map(is_right, rows)):
            raise ValueError(f"field evidence.{name} is not a list as it should be")
    for name, is_right in ((BASELINE, _is_baseline), ("as_called", _is_gain)):
        if evidence.get(name) is not None and not is_right(evidence[name]):
            raise ValueError(f"field evidence.{name} is not a ratio with its interval")
    _check_history(evidence.get(REPLACED))


def _check_history(replaced: object) -> None:
    """Refuse what no row of tunings leads to: such an entry would stay whatever was measured."""
    for name, most in (("generation", LONGEST_CHAIN - 1), ("score", LARGEST_SCORE)):
        value = replaced.get(name) if isinstance(replaced, dict) else None
        if isinstance(value, int | float) and value > most:
            raise ValueError(
                f"field evidence.replaced.{name} is {described(value)}, more than the {most:,.0f} "
                "that can be believed"
            )


def _is_tie(value: object) -> bool:
    """A config of the same solver, or the name of another solver."""
    return isinstance(value, dict | str)


def _is_place(value: object) -> bool:
    """How one solver did in a find."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("solver"), str)
        and isinstance(value.get("config", {}), dict)
        and all(_is_number(value.get(name)) for name in ("time_ns", "spread", "workspace_bytes"))
        and (value.get("behind") is None or _is_gain(value["behind"]))
    )
