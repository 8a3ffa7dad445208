"""A dumped problem and its file; a whole dump as it is read. No PyTorch is needed for that."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from skipjack.core.config import Value
from skipjack.core.device import parse_device_name
from skipjack.core.digest import digest_of
from skipjack.core.problem import Problem
from skipjack.errors import NewerFormatError, SkipjackError, UsageError
from skipjack.operations import parse
from skipjack.reading import INT64, Field, quoted, read_json, read_plain
from skipjack.storage import atomic_write

FILE_NAME = "problem.json"
FORMAT = 1
_LONGEST_NAME = 80
"""Characters of a key that a folder's name has; the digest behind it tells keys apart."""
_LARGEST_FILE = 1 << 22
LONGEST_NS = float(INT64)
"""Of a call: 292 years. The time of as many calls as can be counted is finite then."""
_ODD = re.compile(r"[^A-Za-z0-9=,._-]+")


@dataclass(frozen=True, slots=True)
class DefaultKernel:
    """What Skipjack runs of a problem where nothing was tuned."""

    source: str
    """Who names it: the layer of the banks, as ``system``, or ``proposal``."""
    solver: str
    solver_version: int = 0
    config: Mapping[str, Value] = field(default_factory=dict)
    library: str = ""
    """Name and version of the package that it is of, if it is a library's."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Its machine code in the folder: names of files and the SHA-256 of each."""
    compiler: str = ""
    compat: str = ""
    """`Device.compat_key` of what the code was built for."""
    symbol: str = ""
    abi: str = ""
    """How it takes its arguments; see `skipjack.core.device.ABI`."""
    slots: tuple[str | int, ...] = ()
    """Its arguments in order: names of arrays, numbers, workspace; on a GPU the launch plan."""
    kernels: tuple[Mapping[str, Any], ...] = ()
    """Of a GPU: the launch ABI of each of the files."""
    reason: str = ""
    """Why there is no code, if there should be some."""


@dataclass(frozen=True, slots=True)
class DumpedProblem:
    """A problem on a class of devices and what a program did with it; or what is added to that."""

    problem: str
    """The whole key."""
    device: str
    """As ``znver4/2``."""
    device_class: str
    calls: int = 0
    timed_calls: int = 0
    """Those that `default_ns` is known of."""
    default_ns: float | None = None
    """What a call takes in the program as it is, in the mean."""
    ops: tuple[str, ...] = ()
    """What the program calls, as ``aten::mm``."""
    driver: str = ""
    """The command of MIOpenDriver that runs it, if there is one."""
    torch: str = ""
    """The version of PyTorch that ran the program."""
    default: DefaultKernel | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Of one folder."""
        return self.problem, self.device_class

    @property
    def time_ns(self) -> float | None:
        """What all calls took together; None if nothing was timed."""
        return None if self.default_ns is None else self.calls * self.default_ns

    def __add__(self, other: DumpedProblem) -> DumpedProblem:
        timed = self.timed_calls + other.timed_calls
        spent = sum(one.timed_calls * (one.default_ns or 0.0) for one in (self, other))
        known = timed and (self.default_ns is not None or other.default_ns is not None)
        return replace(
            self,
            calls=min(self.calls + other.calls, INT64),
            timed_calls=min(timed, INT64),
            default_ns=spent / timed if known else None,
            ops=tuple(sorted({*self.ops, *other.ops})),
            driver=self.driver or other.driver,
            torch=other.torch or self.torch,
            default=self.default or other.default,
        )

    def text(self) -> str:
        """What its file holds."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, allow_nan=False) + "\n"

    def write(self, folder: Path) -> None:
        """Replace the file of a folder; `StorageError`."""
        atomic_write(folder / FILE_NAME, self.text().encode(), durable=False)


def folder_name(key: str, device_class: str) -> str:
    """Of a problem on a class of devices: readable, safe and of bounded length."""
    shown = _ODD.sub("-", key)[:_LONGEST_NAME].strip("-.")
    return f"{shown or 'problem'}.{digest_of([key, device_class])[:12]}"


def dumped_of(data: bytes, where: str = "") -> DumpedProblem:
    """What a file says; `MalformedError`, or `NewerFormatError` for a format that is to come."""
    document = read_json(data, where, most=_LARGEST_FILE)
    checked_format(document, FORMAT)
    found = document.without("format", FORMAT).of(DumpedProblem)
    for name in ("calls", "timed_calls", "default_ns"):
        one = document.get(name)
        if one is not None and not one.null:
            one.number(least=0.0, most=LONGEST_NS)
    try:
        parse_device_name(found.device)
    except UsageError as error:
        raise document["device"].malformed(str(error)) from None
    return found


def checked_format(document: Field, known: int) -> None:
    """Refuse what a newer Skipjack wrote."""
    said = document["format"].integer(least=1)
    if said > known:
        raise NewerFormatError(
            f"{document.where} has format {said}, and this Skipjack reads {known}; use a newer one"
        )


def read_dumped(folder: Path) -> DumpedProblem:
    """The problem of a folder; `MalformedError`, `NewerFormatError` or `OSError`."""
    path = folder / FILE_NAME
    return dumped_of(read_plain(path), str(path))


@dataclass(frozen=True, slots=True)
class DumpContents:
    """What a dump holds."""

    problems: tuple[tuple[Path, DumpedProblem, Problem], ...] = ()
    """With the folder of each."""
    damaged: tuple[str, ...] = ()
    """A sentence about every folder that cannot be used, which it names."""


def read_dump(path: Path) -> DumpContents:
    """All that is in a dump; `UsageError` if that is no dump at all."""
    found: list[tuple[Path, DumpedProblem, Problem]] = []
    damaged: list[str] = []
    for folder in _folders(path):
        try:
            dumped = read_dumped(folder)
            found.append((folder, dumped, parse(dumped.problem)))
        except FileNotFoundError:
            damaged.append(f"{folder}: it has no {FILE_NAME}")
        except OSError as error:
            damaged.append(f"{folder}: cannot read {FILE_NAME}: {error.strerror}")
        except SkipjackError as error:
            said = str(error)
            within = said if said.startswith(str(folder)) else f"{folder}: {said}"
            damaged.append(within if within.isprintable() else ascii(within))
    if not (found or damaged):
        raise UsageError(
            f"{quoted(str(path))} is no dump: no folder in it has a {FILE_NAME}; "
            "ENABLE_TUNE_DUMP=True TUNE_DUMP_PATH=DIR skipjack exec -- python train.py writes one"
        )
    return DumpContents(tuple(found), tuple(damaged))


def _folders(path: Path) -> Iterable[Path]:
    """Those of problems; `path` itself if it is one."""
    try:
        inside = sorted(path.iterdir())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if path / FILE_NAME in inside:
        return [path]
    return [one for one in inside if not one.name.startswith(".") and _is_used(one)]


def _is_used(folder: Path) -> bool:
    """Whether it is a folder with something in it: one that is being made is empty."""
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError:
        return True
