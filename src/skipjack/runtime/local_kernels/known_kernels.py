"""Kernels that were verified on this machine, and the best that banks name of them.

Loads no solver.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from skipjack.bank import USER, BankEntry, is_library, layers_of
from skipjack.core import (
    CPU_DTYPES,
    Config,
    Device,
    Problem,
    digest_of,
    named_deployment,
    parse_device_name,
)
from skipjack.errors import MalformedError, SkipjackError, StorageError
from skipjack.native import cpu, own_build_identity, own_code
from skipjack.operations import comes_with_skipjack, parse
from skipjack.reading import read_json
from skipjack.runtime.local_kernels.kernel import (
    Again,
    KernelCode,
    TunedKernel,
    answered_again,
    banked_again,
)
from skipjack.runtime.local_kernels.toolchains import fresh_first
from skipjack.settings import Settings
from skipjack.storage import ArtifactStore, mark_used

if TYPE_CHECKING:
    from skipjack.runtime.local_kernels.library_calls import CpuLibraryKernel, GpuLibraryKernel


# Kernels that were verified on this machine, keyed by what they were built from.
#
# A bank is text that people merge: what it says about a kernel's machine code is not trusted. Code
# is run only if it was verified here for exactly this problem, config, operation, solver and
# target, from which its key in this store is computed.

FORMAT = 2
"""Since 2, a record has the slots, so that a kernel can be called without its solver."""
FOLDER = "verified"
_MOST_BYTES = 1 << 16
_REMIND_S = 3600.0
"""How often the kernels that this process uses are marked as used; also when it ends."""


@dataclass(frozen=True, slots=True)
class VerifiedKernel:
    """Machine code that was verified, and how it is called."""

    artifact: str
    """The digest of its bytes in the artifact store."""
    symbol: str
    abi: str
    source: str
    """The digest of the compiled source."""
    compiler: str
    slots: tuple[str | int, ...] = ()
    """The arguments of the launch that was verified."""
    entry: str = ""
    """The `entry_key` of the bank entries that name this kernel."""
    code: str = ""
    """`own_code` of the Skipjack that built it; other versions use other keys."""


def entry_key(problem: str, solver: str, version: int, config: Config) -> str:
    """The key of what an entry names, independent of the target."""
    return digest_of((problem, solver, version, config.key))


def kernel_key(problem: Problem, solver: str, version: int, config: Config, identity: str) -> str:
    """The unique key of a kernel; see `skipjack.solvers.identity.build_identity`."""
    return digest_of((problem.key, solver, version, config.key, identity))


class VerifiedKernels:
    """The verified kernels in the kernel cache of some settings."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._directories = [directory / FOLDER for directory in settings.kernel_dirs]
        self._artifacts = ArtifactStore(*settings.kernel_dirs)

    @property
    def directory(self) -> Path:
        """Where new kernels are stored."""
        return self._settings.kernel_dirs[0]

    def find(self, key: str) -> tuple[VerifiedKernel, bytes] | None:
        """The kernel of this key with its machine code, if both exist and are intact."""
        for directory in self._directories:
            found = read_record(directory / key)
            if found is None:
                continue
            with contextlib.suppress(StorageError):
                data = self._artifacts.get(found.artifact)
                _note_use(self._artifacts.path(found.artifact))
                return found, data
        return None

    def put(self, key: str, kernel: VerifiedKernel, data: bytes) -> None:
        """Record that this machine code, with the kernel's digest, was verified."""
        from skipjack.runtime.local_kernels.kernel_cache import keep_within_limit
        from skipjack.storage import atomic_write, sweep, write_failure

        self._artifacts.put(data)
        path = self._directories[0] / key
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise write_failure(path, error) from error
        sweep(path.parent)
        record = {"format": FORMAT, **asdict(replace(kernel, code=own_code()))}
        atomic_write(path, json.dumps(record, sort_keys=True).encode(), durable=False)
        _note_use(self._artifacts.path(kernel.artifact))
        keep_within_limit(self._settings)


def read_record(path: Path) -> VerifiedKernel | None:
    """The record in a file; None if it cannot be read."""
    try:
        field = read_json(path.read_bytes(), path.name, most=_MOST_BYTES)
        return field.without("format", FORMAT).of(VerifiedKernel)
    except (OSError, MalformedError):
        return None


def record_files(directory: Path, folder: str = FOLDER) -> Iterator[os.DirEntry[str]]:
    """The record files of a folder of the cache, without temporary ones."""
    with contextlib.suppress(OSError), os.scandir(directory / folder) as entries:
        yield from (entry for entry in entries if not entry.name.startswith("."))


# What this process uses. Kernels stay in memory, so their files would look unused: their dates are
# updated from time to time rather than at each call.

_in_use: dict[Path, None] = {}
_reminded = 0.0


def in_use() -> frozenset[Path]:
    """Files of the kernels that this process has loaded or verified."""
    return frozenset(_in_use)


def _note_use(path: Path) -> None:
    if not _in_use:
        _remind()  # nothing yet: the hour begins
        atexit.register(_remind)
    elif monotonic() - _reminded > _REMIND_S:
        _remind()
    _in_use[path] = None


def _remind() -> None:
    global _reminded
    _reminded = monotonic()
    for path in list(_in_use):
        mark_used(path)


# The problem of a lookup, and the best kernel for it that was verified on this CPU before.
#
# It is found without loading solvers.

_KEY = re.compile(r"[A-Za-z_]\w*:\S*")


def requested_problem(
    text: str,
    dtype: str | None = None,
    *,
    layout: str | None = None,
    direction: str | None = None,
) -> Problem:
    """The problem that a key, a command of MIOpenDriver or a line of a find-db describes.

    The other arguments fill in what it leaves open, as for `parse`.
    """
    if not isinstance(text, str) or _KEY.fullmatch(text):
        return parse(text, dtype, layout=layout, direction=direction)
    from skipjack.interop import Defaults, read_one  # not needed for keys, which are the usual case

    return read_one(text, Defaults(dtype, layout.upper() if layout else None, direction))


@dataclass(frozen=True, slots=True)
class LookupRequest:
    """The arguments of a lookup, parsed."""

    problem: Problem
    threads: int | None
    device: str | None
    settings: Settings
    directory: str | None
    """The user directory, if the caller named it."""
    strict: bool = False
    protocol: str | None = None


def known_kernel(asked: LookupRequest) -> TunedKernel | CpuLibraryKernel | GpuLibraryKernel | None:
    """The kernel for this CPU of the first bank that knows the problem.

    It is a kernel of a built-in solver that was verified here before, or the library that the entry
    names. `skipjack.runtime.answers` would give the same.
    """
    problem, settings = asked.problem, asked.settings
    here = _this_cpu(asked)
    if here is None or not comes_with_skipjack(problem.operation):
        return None
    deployed = named_deployment(here, asked.protocol) if asked.protocol is not None else None
    for layer in layers_of(settings.user_dir, settings.banks, settings.system_dir):
        try:
            entries = layer.ranked(problem.key, here.class_key, protocol=deployed)
        except StorageError:
            return None  # reported by the lookup
        if len(entries) > 1:
            pass

            entries = fresh_first(entries)
        if entries:
            found_again = banked_again if layer.name == USER else answered_again
            again = found_again(problem, here.name, asked.directory, deployed)
            found = _kernel(asked, here, entries[0], again)
            if found is not None:
                found.source = layer.name
            return found
        if asked.strict:
            break
    return None


def _kernel(
    asked: LookupRequest, device: Device, entry: BankEntry, again: Again
) -> TunedKernel | CpuLibraryKernel | GpuLibraryKernel | None:
    if is_library(entry):
        return _library(entry.solver, asked.problem, device, again)
    code = _verified(entry, asked.problem, device, asked.settings)
    return TunedKernel(asked.problem, code, again, entry.solver) if code else None


def _library(
    name: str, asked: Problem, device: Device, again: Again
) -> CpuLibraryKernel | GpuLibraryKernel | None:
    """A library's call, if the library is installed and can compute the problem."""
    from skipjack.runtime.local_kernels.library_calls import library_kernel
    from skipjack.solvers import find_solver, is_known, refusal

    if not is_known(name) or refusal(find_solver(name), asked, device):
        return None
    return library_kernel(name, asked, device, again)


def _this_cpu(asked: LookupRequest) -> Device | None:
    """This machine's CPU, if the request is certainly for it."""
    threads, device = asked.threads, asked.device
    if asked.problem.dtype not in CPU_DTYPES or not cpu.detectable():
        return None
    units = 1 if threads is None else threads
    if device not in (None, "cpu"):
        try:
            arch, units = parse_device_name(device)
        except SkipjackError:
            return None
        if arch != cpu.detect().arch or threads not in (None, units):
            return None
    return cpu.detect(units) if 0 < units <= len(cpu.usable_cores()) else None


def _verified(
    entry: BankEntry, asked: Problem, device: Device, settings: Settings
) -> KernelCode | None:
    """The code of an entry, if a built-in solver built it and it was verified here.

    Only then is there a record under this key: solvers of plug-ins have other identities.
    """
    try:
        identity = own_build_identity(asked.key, entry.solver, device)
        key = kernel_key(asked, entry.solver, entry.solver_version, Config(entry.config), identity)
    except (TypeError, ValueError):  # malformed entries are reported by the lookup
        return None
    found = VerifiedKernels(settings).find(key)
    if found is None:
        return None
    kernel, data = found
    return KernelCode(data, kernel.artifact, kernel.symbol, kernel.abi, kernel.slots)
