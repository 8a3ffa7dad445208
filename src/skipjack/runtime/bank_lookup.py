"""`lookup`: the banked kernel of a problem, without tuning, workers or locks.

A bank is text that people merge, so that its entries are proposals: a solver and a config. What
runs was verified on this machine, or is built and verified now (`skipjack.runtime.entry_code`).

Solvers are loaded where something must be built or verified; a kernel that is known here is found
by names and digests alone. An answer is remembered. Whether it still holds (same bank file, same
directory, same cores) is looked at again after `_INTERVAL_S`, or at once if this process has
written to a bank: asking the file system takes longer than all else. A GPU's holds as long as no
driver is added or taken away.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from skipjack import plugins as plugin_modules
from skipjack.bank import FILE_NAME, Bank, BankEntry, is_library
from skipjack.core.annotations import checked
from skipjack.core.config import Config
from skipjack.core.device import Device, parse_device_name
from skipjack.core.dtypes import CPU_DTYPES
from skipjack.core.problem import Problem
from skipjack.errors import ProblemError, SkipjackError
from skipjack.native import cpu
from skipjack.native.own_code import own_identity
from skipjack.operations import comes_with_skipjack, parse
from skipjack.runtime.kernel import TunedKernel
from skipjack.runtime.kernel_code import (
    Again,
    KernelCode,
    banked_again,
    callable_of,
    lacking,
)
from skipjack.runtime.verified import VerifiedKernels, kernel_key
from skipjack.settings import USER_DIR_VARIABLE, Settings, load_settings

if TYPE_CHECKING:
    from skipjack.runtime.gpu_kernel import GpuKernel
    from skipjack.runtime.library_kernel import CpuLibraryKernel, GpuLibraryKernel

    Found = TunedKernel | GpuKernel | CpuLibraryKernel | GpuLibraryKernel

log = logging.getLogger("skipjack.runtime.lookup")

_INTERVAL_S = 0.1
"""A remembered answer older than this is compared with the bank's file again."""
_MOST_KEPT = 256
"""Kernels that stay loaded though their callers have let them go."""
_MOST_LENT_BYTES = 256 << 20
"""Of a GPU's memory, for one stream, that such kernels have among them."""


@dataclass(slots=True)
class _Answer:
    """What was looked up, and what it depends on."""

    kernel: Found
    depends: tuple[object, ...]
    seen: float
    """When it was last found to hold."""
    writes: int
    gpus: object
    """All that are here, if the kernel is for one of them."""
    lent_bytes: int
    """Of a GPU's memory, for each stream."""


_kept: dict[tuple[object, ...], _Answer] = {}
"""By what was asked for."""


def lookup(
    problem: str,
    *,
    dtype: str | None = None,
    layout: str | None = None,
    direction: str | None = None,
    threads: int | None = None,
    device: str | None = None,
    plugins: str | Sequence[str] = (),
    settings: Settings | None = None,
) -> Found | None:
    """What the bank holds for a problem on this device; None if it holds none.

    The device is chosen as for `tune`: the CPU, or a GPU that is named or needed. Plug-ins are
    loaded as for `tune`, too.

    That is a `TunedKernel` or, on a GPU, a `GpuKernel`. Where a library is what the bank
    recommends, it is a `LibraryKernel` that calls it, in the same way and with the same checks;
    `source` says which (``kernel`` or ``library``), `solver` what built it or is called.

    Where the bank's entry is of no use here, a warning says why, and the next best that is known is
    given, if there is one.
    A CPU's kernel that was not verified on this machine before,
    for example from a merged bank, is compiled and verified now, once. A GPU's is not: None, until
    it is tuned here.
    """
    asked = (problem, dtype, layout, direction, threads, device, plugins, settings)
    question: tuple[object, ...] = ()
    try:
        where: object = os.environ.get(USER_DIR_VARIABLE)
        if settings is not None:
            where = settings.user_dir, settings.plugins
        question = (*asked[:6], type(threads), _names(plugins), where)
        known = _kept.get(question)
    except (TypeError, AttributeError):  # an argument of a wrong type
        known = None
    now, writes = monotonic(), Bank.writes
    if known is not None and (known.gpus is None or known.gpus is _gpus_here()):
        if known.writes == writes and now - known.seen < _INTERVAL_S:
            return known.kernel
        if known.depends == _depends(_settings(plugins, settings)):
            known.seen, known.writes = now, writes
            return known.kernel
    kernel: Found | None
    kernel, depends = _look_up(*asked)
    if kernel is not None:
        lent_bytes = getattr(kernel, "lent_bytes", 0)
        gpus = None if _is_for_cpu(kernel) else _gpus_here()
        _keep(question, _Answer(kernel, depends, now, writes, gpus, lent_bytes))
    return kernel


@checked
def _look_up(
    problem: str,
    dtype: str | None,
    layout: str | None,
    direction: str | None,
    threads: int | None,
    device: str | None,
    plugins: str | Sequence[str],
    settings: Settings | None,
) -> tuple[Any, tuple[object, ...]]:
    """The kernel, and what it depends on, as that was before."""
    chosen = _settings(plugins, settings)
    plugin_modules.load(chosen.plugins)
    depends = _depends(chosen)
    asked = parse(problem, dtype, layout=layout, direction=direction)
    directory = str(chosen.user_dir) if settings else None
    found = _known(asked, threads, device, chosen, directory)
    return found or _found(asked, threads, device, chosen, directory), depends


def _names(plugins: str | Sequence[str]) -> tuple[str, ...]:
    return (plugins,) if isinstance(plugins, str) else tuple(plugins)


def _settings(plugins: str | Sequence[str], settings: Settings | None) -> Settings:
    """Those that are given or in force, with the plug-ins that are named besides."""
    named = _names(plugins)
    chosen = settings or load_settings(plugins=named or None)
    return replace(chosen, plugins=(*chosen.plugins, *named)) if settings and named else chosen


def _depends(settings: Settings) -> tuple[object, ...]:
    """What an answer depends on besides the question."""
    path = settings.user_dir / FILE_NAME
    return path, _file_identity(path), settings.plugins, settings.cache_dir, len(cpu.usable_cores())


def _is_for_cpu(kernel: Found) -> bool:
    if isinstance(kernel, TunedKernel):
        return True
    from skipjack.runtime.library_kernel import CpuLibraryKernel

    return isinstance(kernel, CpuLibraryKernel)


def _gpus_here() -> object:
    from skipjack.gpu.opening import gpus_here

    return gpus_here()


def look_up_again(
    key: str, device: str, user_dir: str | None, pickled_with: tuple[str, ...] = ()
) -> Found:
    """The kernel that a pickle is of; `SkipjackError` if it is not there any more.

    Plug-ins are loaded that the settings name; those that the pickle names are only told of.
    """
    settings = load_settings(user_dir=user_dir) if user_dir else None
    try:
        found = lookup(key, device=device, settings=settings)
    except ProblemError as error:
        if remedy := lacking(pickled_with):
            raise SkipjackError(f"the kernel of {key} cannot be found: {remedy}") from error
        raise
    if found is None:
        remedy = lacking(pickled_with) or (
            "a pickled kernel is looked up where it is loaded, so tune it there, or give both the "
            "same SKIPJACK_USER_DB_PATH"
        )
        raise SkipjackError(f"the bank has no kernel of {key} for {device}; {remedy}")
    return found


def _known(
    asked: Problem,
    threads: int | None,
    device: str | None,
    settings: Settings,
    directory: str | None,
) -> Found | None:
    """The kernel for this CPU, if it was verified here before and is built by a solver of ours.

    Or the library that is named instead.
    """
    here = _this_cpu(asked, threads, device)
    if here is None or not comes_with_skipjack(asked.operation):
        return None
    entry = _bank(settings.user_dir).lookup(asked.key, here.class_key)
    if entry is None:
        return None
    again = banked_again(asked, here.name, directory)
    if is_library(entry):
        return _library(entry.solver, asked, here, again)
    code = _verified(entry, asked, here, settings)
    return TunedKernel(asked, code, again, entry.solver) if code else None


def _library(
    name: str, asked: Problem, device: Device, again: Again
) -> CpuLibraryKernel | GpuLibraryKernel | None:
    """A library's call, if that is here and can do the problem."""
    from skipjack.runtime.library_kernel import library_kernel
    from skipjack.solvers import find_solver, names, refusal

    if name not in names() or refusal(find_solver(name), asked, device):
        return None
    return library_kernel(name, asked, device, again)


def _this_cpu(asked: Problem, threads: int | None, device: str | None) -> Device | None:
    """This machine's CPU, if that is meant for sure."""
    if asked.dtype not in CPU_DTYPES or not cpu.detectable():
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
    """The code of an entry, if a solver of ours built it and it was verified here.

    Only then there is a record under this name: solvers of others have other identities.
    """
    try:
        identity = own_identity(asked.key, entry.solver, device)
        key = kernel_key(asked, entry.solver, entry.solver_version, Config(entry.config), identity)
    except (TypeError, ValueError):  # an entry may be odd in any way, which is told elsewhere
        return None
    found = VerifiedKernels(settings).find(key)
    if found is None:
        return None
    kernel, data = found
    return KernelCode(data, kernel.artifact, kernel.symbol, kernel.abi, kernel.slots)


def _found(
    asked: Problem,
    threads: int | None,
    device: str | None,
    settings: Settings,
    directory: str | None,
) -> Found | None:
    """The kernel, or None with a warning where there should be one; it may be built for that."""
    from skipjack.gpu.opening import gpu_name
    from skipjack.runtime.entry_code import UselessEntryError, usable
    from skipjack.runtime.library_kernel import library_kernel
    from skipjack.runtime.placing import NoGpuError, place
    from skipjack.runtime.warning_once import warn_once

    if threads is not None and threads > len(cpu.usable_cores()):
        return None  # nothing was tuned for what is here
    try:
        found = place([asked], device, threads)
    except NoGpuError:
        return None
    entry = _bank(settings.user_dir).lookup(asked.key, found.class_key)
    if entry is None:
        return None
    try:
        chosen = usable(entry, asked, found, settings)
    except UselessEntryError as error:
        warn_once(log, f"{asked.key}: {error}")
        return None
    if chosen.passed_over:
        warn_once(log, f"{asked.key}: {chosen.passed_over}")
    name = found.name if found.kind == "cpu" else gpu_name(found)
    again = banked_again(asked, found.name, directory)
    if chosen.code is None:
        return library_kernel(chosen.entry.solver, asked, found, again)
    return callable_of(asked, chosen.code, name, again, chosen.entry.solver)


@functools.lru_cache(maxsize=16)
def _bank(user_dir: Path) -> Bank:
    """One for each directory: it reads its file again only if that has changed."""
    return Bank.open(user_dir)


def _file_identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _keep(question: tuple[object, ...], answer: _Answer) -> None:
    """And let go of the oldest where they are too many, or have too much of a GPU's memory."""
    _kept.pop(question, None)
    _kept[question] = answer
    for oldest in list(_kept)[:-_MOST_KEPT]:
        _kept.pop(oldest, None)
    lent = sum(one.lent_bytes for one in list(_kept.values()))
    for asked, one in list(_kept.items()):
        if lent <= _MOST_LENT_BYTES:
            break
        if one.lent_bytes:
            _kept.pop(asked, None)
            lent -= one.lent_bytes
