"""A dumped problem and its file, a whole dump as it is read, and whether a program is dumped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from skipjack.core import Problem, Value, digest_of, parse_device_name
from skipjack.errors import NewerFormatError, SkipjackError, UsageError
from skipjack.operations import parse
from skipjack.reading import INT64, Field, quoted, read_json, read_plain
from skipjack.settings import ENABLE_TUNE_DUMP, TUNE_DUMP_PATH
from skipjack.storage import atomic_write

# A dumped problem and its file, and reading a whole dump. PyTorch is not needed.

FILE_NAME = "problem.json"
FORMAT = 1
_LONGEST_NAME = 80
"""Characters of the key in a folder's name; the digest after it makes the name unique."""
_LARGEST_FILE = 1 << 22
LONGEST_NS = float(INT64)
"""The longest time of a call: 292 years. The total time stays finite then."""
_ODD = re.compile(r"[^A-Za-z0-9=,._-]+")


@dataclass(frozen=True, slots=True)
class DefaultKernel:
    """The kernel that Skipjack uses for an untuned problem."""

    source: str
    """Where it comes from: a layer of the banks, as ``system``, or ``proposal``."""
    solver: str
    solver_version: int = 0
    config: Mapping[str, Value] = field(default_factory=dict)
    library: str = ""
    """Name and version of the package, if it is a library."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Its machine code in the folder: file names, and the SHA-256 of each file."""
    compiler: str = ""
    compat: str = ""
    """The `Device.compat_key` of its target."""
    symbol: str = ""
    abi: str = ""
    """Its calling convention; see `skipjack.core.device.ABI`."""
    slots: tuple[str | int, ...] = ()
    """Its arguments in order: names of arrays, numbers, workspace; for a GPU the launch plan."""
    kernels: tuple[Mapping[str, Any], ...] = ()
    """For a GPU: the launch ABI of each file."""
    reason: str = ""
    """Why there is no code, if it could not be built."""


@dataclass(frozen=True, slots=True)
class DumpedProblem:
    """A problem on a class of devices and a program's calls of it; also an increment of these."""

    problem: str
    """The full key."""
    device: str
    """For example ``znver4/2``."""
    device_class: str
    calls: int = 0
    timed_calls: int = 0
    """The number of calls that `default_ns` is the mean of."""
    default_ns: float | None = None
    """The mean time of a call without Skipjack."""
    ops: tuple[str, ...] = ()
    """The operations that the program calls, as ``aten::mm``."""
    driver: str = ""
    """The command of MIOpenDriver that runs the problem, if there is one."""
    torch: str = ""
    """The version of PyTorch that ran the program."""
    default: DefaultKernel | None = None

    @property
    def key(self) -> tuple[str, str]:
        """Identifies a folder of the dump."""
        return self.problem, self.device_class

    @property
    def time_ns(self) -> float | None:
        """The total time of all calls; None if none was timed."""
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
        """The contents of its file."""
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, allow_nan=False) + "\n"

    def write(self, folder: Path) -> None:
        """Replace the file of a folder; `StorageError`."""
        atomic_write(folder / FILE_NAME, self.text().encode(), durable=False)


def folder_name(key: str, device_class: str) -> str:
    """The folder for a problem on a class of devices: readable, safe and of bounded length."""
    shown = _ODD.sub("-", key)[:_LONGEST_NAME].strip("-.")
    return f"{shown or 'problem'}.{digest_of([key, device_class])[:12]}"


def dumped_of(data: bytes, where: str = "") -> DumpedProblem:
    """The contents of a file; `MalformedError`, or `NewerFormatError` for a later format."""
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
    """Refuse files of a newer Skipjack."""
    said = document["format"].integer(least=1)
    if said > known:
        raise NewerFormatError(
            f"{document.where} has format {said}, and this Skipjack reads up to {known}; "
            "update Skipjack"
        )


def read_dumped(folder: Path) -> DumpedProblem:
    """The problem of a folder; `MalformedError`, `NewerFormatError` or `OSError`."""
    path = folder / FILE_NAME
    return dumped_of(read_plain(path), str(path))


@dataclass(frozen=True, slots=True)
class DumpContents:
    """The contents of a dump."""

    problems: tuple[tuple[Path, DumpedProblem, Problem], ...] = ()
    """Each problem with its folder."""
    damaged: tuple[str, ...] = ()
    """A sentence about each folder that cannot be used."""


def read_dump(path: Path) -> DumpContents:
    """The contents of a dump; `UsageError` if the path is not a dump."""
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
            f"{quoted(str(path))} is not a dump: no folder in it has a {FILE_NAME}; "
            "ENABLE_TUNE_DUMP=True TUNE_DUMP_PATH=DIR skipjack exec -- python train.py writes one"
        )
    return DumpContents(tuple(found), tuple(damaged))


def _folders(path: Path) -> Iterable[Path]:
    """The folders of problems; `path` itself if it is one."""
    try:
        inside = sorted(path.iterdir())
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    if path / FILE_NAME in inside:
        return [path]
    return [one for one in inside if not one.name.startswith(".") and _is_used(one)]


def _is_used(folder: Path) -> bool:
    """Whether a folder is in use: one that is being created is empty."""
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError:
        return True


# Whether and where to dump a program, as two variables of AutoTune say.

DEFAULT_FOLDER = "tune_dump"
"""In the working directory."""


def dump_folder(environment: Mapping[str, str] | None = None) -> Path | None:
    """The folder of the dump; None if there is to be none; `UsageError` for invalid values."""
    said = ENABLE_TUNE_DUMP.text(environment).strip()
    if said.lower() not in ("", "true", "false"):
        raise UsageError(f"{ENABLE_TUNE_DUMP} is {quoted(said)}; write True or False")
    if said.lower() != "true":
        return None
    return Path(TUNE_DUMP_PATH.text(environment) or DEFAULT_FOLDER).expanduser().absolute()
