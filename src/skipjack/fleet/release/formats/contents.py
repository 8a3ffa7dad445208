"""What an export is to write: a file for each device, and what had to be left out of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from skipjack.core.device import parse_device_name
from skipjack.errors import UsageError
from skipjack.interop.miopen import DbName, db_name

MIOPEN, SKIPJACK = "miopen", "skipjack"
FIND_DB, PERF_DB, KERNEL_DB = "find-db", "perf-db", "kernel-db"
"""The kinds of databases."""
AND = ", "


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """The content of one device's file."""

    device: str
    """Several are joined by `AND` where one file holds them."""
    name: Callable[[str], str]
    """Of the file for a device, this or another one."""
    write: Callable[[Path, str], None]
    """Make the file at a path for a device."""
    counts: Mapping[str, int] = field(default_factory=dict)
    toolchains: tuple[str, ...] = ()
    is_code: bool = False
    """Machine code, which other architectures cannot load."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All files of an export."""

    kind: str
    format: str
    files: tuple[ReleaseFile, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    """Of what was left out, by what it is."""
    remarks: tuple[str, ...] = ()
    """Sentences about that, for people."""


@dataclass(frozen=True, slots=True)
class Alias:
    """A device that gets the file of another one."""

    target: str
    source: str

    @classmethod
    def parse(cls, text: str) -> Alias:
        """``gfx803/56=gfx900/64``: the first gets what was measured on the second."""
        target, equals, source = text.partition("=")
        if not equals:
            raise UsageError(
                f"alias {text!r} is not of the form target=source, as gfx803/56=gfx900/64"
            )
        for name in (target, source):
            parse_device_name(name)
        if target == source:
            raise UsageError(f"alias {text!r} is for the device itself; leave it out")
        return cls(target, source)

    @property
    def same_architecture(self) -> bool:
        """Whether machine code of the one loads on the other."""
        return parse_device_name(self.target)[0] == parse_device_name(self.source)[0]


def check_aliases(aliases: Iterable[Alias], exported: Sequence[str]) -> None:
    """`UsageError` if a source is not among the exported devices, or a target gets two files."""
    taken = set(exported)
    for alias in aliases:
        if alias.source not in exported:
            have = ", ".join(exported) or "nothing"
            raise UsageError(
                f"alias {alias.target}={alias.source}: {alias.source} is not exported in this run, "
                f"only {have}"
            )
        if alias.target in taken:
            raise UsageError(
                f"alias {alias.target}={alias.source}: {alias.target} has a file already; "
                "give each device one, with --device or without the alias"
            )
        taken.add(alias.target)


def base_name(device: str) -> str:
    """What the names of a device's files begin with: ``gfx90878``, ``znver4_1``."""
    arch, units = parse_device_name(device)
    return db_name(DbName("kernel", arch, units)).removesuffix(".kdb")
