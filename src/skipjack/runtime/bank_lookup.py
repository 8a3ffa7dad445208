"""`lookup`: the banked kernel of a problem, without tuning, workers or locks.

A bank is text that people merge, so that its entries are proposals: a solver and a config. What
runs was verified on this machine, or is built and verified now (`skipjack.runtime.entry_code`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from pathlib import Path

from skipjack import plugins as plugin_modules
from skipjack.bank import FILE_NAME, Bank
from skipjack.core.annotations import checked
from skipjack.core.problem import Problem
from skipjack.errors import ProblemError, SkipjackError
from skipjack.gpu.opening import gpu_name
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.entry_code import UselessEntryError, usable
from skipjack.runtime.gpu_kernel import GpuKernel
from skipjack.runtime.kernel import TunedKernel
from skipjack.runtime.kernel_code import banked_again, callable_of, lacking
from skipjack.runtime.placing import NoGpuError, place
from skipjack.runtime.warning_once import warn_once
from skipjack.settings import Settings, load_settings
from skipjack.solvers import names

log = logging.getLogger("skipjack.runtime.lookup")

_MOST_KEPT = 256
"""Kernels that stay loaded though their callers have let them go."""
_kept: dict[tuple[object, ...], TunedKernel] = {}
"""What was looked up, by what was asked for and the bank's file as it was."""


@checked
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
) -> TunedKernel | GpuKernel | None:
    """The kernel that the bank holds for a problem on this device; None if it holds none.

    The device is chosen as for `tune`: the CPU, or a GPU that is named or needed. Plug-ins are
    loaded as for `tune`, too.

    Also None where a library is what the bank recommends. Where the bank's entry is of no use here,
    a warning says why, and the next best that this user's ledger knows is given, if there is one.
    A CPU's kernel that was not verified on this machine before,
    for example from a merged bank, is compiled and verified now, once. A GPU's is not: None, until
    it is tuned here.
    """
    named = (plugins,) if isinstance(plugins, str) else tuple(plugins)
    chosen = settings or load_settings(plugins=named or None)
    plugin_modules.load((*chosen.plugins, *named))
    cores = len(cpu.usable_cores())
    question = (problem, dtype, layout, direction, threads, device, cores, len(names()))
    memo = (question, settings is None, chosen, _file_identity(chosen.user_dir / FILE_NAME))
    if known := _kept.get(memo):
        return known
    asked = parse(problem, dtype, layout=layout, direction=direction)
    found = _found(asked, threads, device, chosen, str(chosen.user_dir) if settings else None)
    if isinstance(found, TunedKernel):
        _keep(memo, found)
    return found


def look_up_again(
    key: str, device: str, user_dir: str | None, pickled_with: tuple[str, ...] = ()
) -> TunedKernel | GpuKernel:
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


def _found(
    asked: Problem,
    threads: int | None,
    device: str | None,
    settings: Settings,
    directory: str | None,
) -> TunedKernel | GpuKernel | None:
    """The kernel, or None with a warning where there should be one."""
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
        chosen = usable(entry, asked, found, settings.user_dir)
    except UselessEntryError as error:
        warn_once(log, f"{asked.key}: {error}")
        return None
    if chosen.passed_over:
        warn_once(log, f"{asked.key}: {chosen.passed_over}")
    name = found.name if found.kind == "cpu" else gpu_name(found)
    again = banked_again(asked, found.name, directory)
    return callable_of(asked, chosen.code, name, again) if chosen.code else None


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


def _keep(memo: tuple[object, ...], kernel: TunedKernel) -> None:
    _kept[memo] = kernel
    for oldest in list(_kept)[:-_MOST_KEPT]:
        _kept.pop(oldest, None)
