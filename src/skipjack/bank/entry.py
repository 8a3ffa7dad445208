"""A bank entry and its canonical line of JSON. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from skipjack.bank.entry_evidence import Evidence
from skipjack.bank.entry_reading import FORMAT, checked
from skipjack.bank.launch import EntryOrigin, LaunchData
from skipjack.core.config import Value
from skipjack.core.protocol import default_deployment, deployment_of
from skipjack.reading import parse_json

PERF, FIND = "perf", "find"
"""Kinds of entries: the best config; the solvers, ranked. See `pinned_kind` for others."""


def pinned_kind(pins: Mapping[str, str]) -> str:
    """The kind of the best config that has these settings: ``perf program=two_pass``.

    It competes with those of the same pins alone. Without pins it is the plain `PERF`.
    """
    words = (f"{name}={pins[name]}" for name in sorted(pins))
    return " ".join([PERF, *(word if " " not in word else json.dumps(word) for word in words)])


Key = tuple[str, str, str, str]
"""Problem, class of devices, kind, deployment: what entries compete for."""


def key_of(problem: str, device_class: str, kind: str = PERF, protocol: str | None = None) -> Key:
    """The key of a question; the device's default deployment where no protocol is named."""
    return problem, device_class, kind, deployment_of(protocol or "", device_class)


@dataclass(frozen=True, slots=True)
class BankEntry:
    """A config of a problem that was confirmed on a class of devices, and why it is believed.

    An entry of kind ``find`` names the fastest solver, a library perhaps, and holds all that were
    ranked in ``evidence.ranking``.

    What a program needs to call the kernel without its solver is in `launch` (digest of the code,
    symbol, ABI, slots, workspace, compat level), with the `toolchain` that built it and the digest
    of its `output` beside it. An entry whose `launch` is None is a library's.
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
    """Name of the vendor's solver, empty if there was none to compare with."""
    speedup: Mapping[str, Mapping[str, float]]
    """Against ``default`` and ``vendor``, each ``{ratio, low, high}``."""
    evidence: Evidence = field(default_factory=lambda: Evidence({}))
    """Counts of samples, alpha, study, ties; the entry that it replaced. Any mapping is taken."""
    created: str = ""
    """For people, and the last resort among equals: clocks may be wrong."""
    kind: str = PERF
    protocol: str = ""
    """How it was timed: `TimingProtocol.key`; empty in format 1."""
    toolchain: str = ""
    """Name and version of what compiled it; empty for a library's and in format 1."""
    output: str = ""
    """SHA-256 of what it computed from the inputs that builds are verified on, to tell whether
    another build gives the same bits; empty where it is not known."""
    origin: EntryOrigin = field(default_factory=EntryOrigin)
    launch: LaunchData | None = None
    format: int = FORMAT

    def __post_init__(self) -> None:
        # A `Config` is welcome; JSON wants a plain dict, and entries compare with what was read.
        object.__setattr__(self, "config", dict(self.config))
        object.__setattr__(self, "evidence", Evidence(self.evidence))

    @property
    def key(self) -> Key:
        """What entries compete for."""
        return self.problem, self.device, self.kind, self.deployed

    @property
    def deployed(self) -> str:
        """How programs call what was timed so, as ``graph/cold``: see `skipjack.core.protocol`."""
        return deployment_of(self.protocol, self.device)

    @property
    def usual(self) -> bool:
        """Whether it is deployed as is usual on its device, which is what files for others have."""
        return self.deployed == default_deployment(self.device)

    @property
    def line(self) -> str:
        """The canonical text: compact JSON, keys sorted, ASCII."""
        return json.dumps(self.record(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def record(self) -> dict[str, Any]:
        """The entry as plain JSON values, as kept in a verdict."""
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
            raise ValueError("it is nested too deep") from None
        return entry

    @classmethod
    def from_line(cls, line: str | bytes) -> BankEntry:
        """The entry of a line of JSON; `ValueError` says what is wrong with it."""
        return cls(**checked(parse_json(line)))


_FIELDS = tuple(one.name for one in fields(BankEntry))
