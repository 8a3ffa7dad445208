"""An entry as `--json` prints it, by the names that `tune` has for the same facts. No I/O.

`docs/json.md` lists the fields. The line of a bank's file is another form: see `BankEntry.line`.
"""

from __future__ import annotations

from typing import Any

from skipjack.bank.entry import BankEntry
from skipjack.bank.entry_evidence import BASELINE
from skipjack.core.protocol import protocol_record
from skipjack.json_formats import FORMATS

_DEFAULT = "default"
_MOVED = (BASELINE, "as_called")
"""Facts of the evidence that stand beside it here, as they do in what `tune` prints."""


def printed_entry(entry: BankEntry) -> dict[str, Any]:
    """The record of an entry."""
    baseline, speedups = _gains(entry)
    return {
        "format": FORMATS["bank list"],
        "kind": entry.kind,
        "problem": entry.problem,
        "device": entry.device_name,
        "device_class": entry.device,
        "deployed": entry.deployed,
        "solver": entry.solver,
        "solver_version": entry.solver_version,
        "config": dict(entry.config),
        "time_ns": entry.time_ns,
        "default_ns": entry.default_ns,
        "vendor": entry.vendor,
        "vendor_ns": entry.vendor_ns,
        "baseline": baseline,
        "speedup": speedups[baseline]["ratio"] if baseline else None,
        "speedups": speedups,
        "as_called": entry.evidence.get("as_called"),
        "evidence": {name: told for name, told in entry.evidence.items() if name not in _MOVED},
        "protocol": protocol_record(entry.protocol),
        "toolchain": entry.toolchain,
        "output": entry.output,
        "origin": entry.origin.record(),
        "launch": entry.launch.record() if entry.launch else None,
        "created": entry.created,
    }


def _gains(entry: BankEntry) -> tuple[str, dict[str, Any]]:
    """What the headline compares with, empty if nothing is known, and all gains by name."""
    named = {entry.vendor if name == "vendor" else name: g for name, g in entry.speedup.items()}
    told = entry.evidence.get(BASELINE)
    if told:
        gain = {name: value for name, value in told.items() if name != "name"}
        return str(told["name"]), {**named, str(told["name"]): gain}
    known = [name for name in (entry.vendor, _DEFAULT) if name in named]
    return (known[0] if known else ""), named
