"""`lookup`: the best known kernel for a problem, without tuning, workers or locks.

A bank is text that people merge, so its entries are proposals: a solver and a config. Every kernel
that runs was verified on this machine earlier, or is built and verified now
(`skipjack.runtime.checks`). `skipjack.runtime.answers` has the steps of a lookup, in order.

Solvers are loaded only when a kernel must be built or verified; a kernel that is known here is
found by names and digests. Answers are remembered. Whether one still holds (same bank files, same
directories, same cores) is checked again after `_INTERVAL_S`, or at once if this process has
written to a bank: file system calls are the slowest part. An answer for a GPU holds until a driver
is added or removed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from skipjack import plugins as plugin_modules
from skipjack.bank import Bank, forget_banks, layers_of
from skipjack.core import Value, type_checked
from skipjack.errors import ProblemError, SkipjackError, UsageError
from skipjack.native import cpu, llvm
from skipjack.runtime.local_kernels import (
    LookupRequest,
    TunedKernel,
    known_kernel,
    lacking,
    requested_problem,
)
from skipjack.runtime.process import current_policy, logs_commands, next_generation, ranked_program
from skipjack.settings import BANKS, CPU_LEVEL, SYSTEM_DIR, USER_DIR, Settings, load_settings

if TYPE_CHECKING:
    from skipjack.runtime.checks import KernelCheck
    from skipjack.runtime.local_kernels import CpuLibraryKernel, GpuKernel, GpuLibraryKernel

    Found = TunedKernel | GpuKernel | CpuLibraryKernel | GpuLibraryKernel

log = logging.getLogger("skipjack.runtime.lookup")

_INTERVAL_S = 1.0
"""A remembered answer older than this is compared with the banks' files again."""
_MOST_KEPT = 256
"""Kernels that stay loaded although their callers no longer hold them."""
_MOST_LENT_BYTES = 256 << 20
"""Scratch memory on a GPU, for one stream, that such kernels may hold in total."""

_UNTIL_RELOAD = ("ranks agreed on it",)
"""The dependencies of an answer that no bank can change."""

_PLACES = (USER_DIR.name, BANKS.name, SYSTEM_DIR.name)
# `os.environ.get` would be the slowest part of a hit: it encodes the name and decodes the value.
_environment: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
_encode = getattr(os.environ, "encodekey", str) if _environment is not os.environ else str
_USER_DIR, _BANKS, _SYSTEM_DIR = map(_encode, _PLACES)


@dataclass(slots=True)
class _Answer:
    """A remembered answer, and what it depends on."""

    kernel: Found | None
    """None if only the user's bank was asked and it has no entry."""
    depends: tuple[object, ...]
    seen: float
    writes: int
    gpus: object
    scratch_bytes: int
    pending: KernelCheck[Any] | None = None
    """A check that is still running: the answer holds until it finishes."""


_kept: dict[tuple[object, ...], _Answer] = {}
_failed_plugins: set[str] = set()


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
    solver: str | None = None,
    config: Mapping[str, Value] | None = None,
    strict: bool = False,
    banks_only: bool = False,
    protocol: str | None = None,
    pinned: Mapping[str, Value] | None = None,
) -> Found | None:
    """The best known kernel for a problem on this device; None if nothing here can compute it.

    The device is chosen and plug-ins are loaded as for `tune`.

    The user's bank is asked first, then those of SKIPJACK_BANKS, then the system's. If none of
    them knows the problem, the answer is an entry for another class of devices, the proposal of a
    heuristic, the best config of a similar problem, the first proposal of a solver, or a library.
    The kernel's `source` says which. The result is a `TunedKernel`, on a GPU a `GpuKernel`, or a
    `LibraryKernel`, which is called in the same way and with the same checks; `solver` names the
    solver that built it, or the library.

    `pinned` has settings that the kernel's config must have, as ``{"program": "two_pass"}``: banks
    answer with an entry that has them; otherwise the first such config of a solver is built.
    `solver` and `config` name the kernel; nothing else is tried then. If `strict`, only the user's
    bank is asked; if `banks_only`, only banks are: the result is None if they do not know the
    problem. `protocol` says how the program calls the kernel, as ``eager/hot`` (see
    `skipjack.core.timing`); banks answer with kernels that were measured in this way.

    If an entry of a bank cannot be used here, a warning says why, once, and the next one is tried.
    A kernel that was not verified on this machine before, for example one from a merged bank, is
    built and verified, once. If that takes more than a moment, a library answers meanwhile; with
    `strict`, the lookup waits.
    """
    asked = (problem, dtype, layout, direction, threads, device, plugins, settings)
    question: tuple[object, ...] = ()
    try:
        question = (
            problem,
            dtype,
            layout,
            direction,
            threads,
            device,
            type(threads),  # True is 1 to a dictionary
            strict,
            banks_only,
            protocol,
            current_policy().key,
            _names(plugins) if plugins else (),
            _environment.get(_USER_DIR),
            _environment.get(_BANKS),
            _environment.get(_SYSTEM_DIR),
        )
        if settings is not None:
            places = settings.user_dir, settings.banks, settings.system_dir
            question = (*question, *places, settings.plugins)
        if solver is not None or config is not None:
            question = (*question, solver, tuple(sorted((config or {}).items())))
        if pinned:
            question = (*question, "pinned", tuple(sorted(pinned.items())))
        known = _kept.get(question)
    except (TypeError, AttributeError):  # an argument of a wrong type
        known = None
    now, writes = monotonic(), Bank.writes
    if (
        known is not None
        and (known.pending is None or not known.pending.finished.is_set())
        and (known.gpus is None or known.gpus is _gpus_here())
    ):
        if known.writes == writes and now - known.seen < _INTERVAL_S:
            return known.kernel
        if known.depends is _UNTIL_RELOAD or known.depends == _depends(
            lookup_settings(plugins, settings)
        ):
            known.seen, known.writes = now, writes
            return known.kernel
    kernel: Found | None
    kernel, pending, depends = _look_up(
        *asked, solver, config, strict, banks_only, protocol, pinned
    )
    if kernel is not None or depends:
        scratch_bytes = getattr(kernel, "scratch_bytes", 0)
        gpus = None if kernel is None or _is_for_cpu(kernel) else _gpus_here()
        _keep(question, _Answer(kernel, depends, now, writes, gpus, scratch_bytes, pending))
    return kernel


def reload() -> None:
    """Forget all answers: the next lookups read settings and banks again.

    The ranks of a program adopt new results only here: all of them call it, at the same point of
    the program.
    """
    from skipjack.runtime.checks import forget_checks

    _kept.clear()
    _failed_plugins.clear()
    forget_banks()
    forget_checks()
    next_generation()


@type_checked
def _look_up(
    problem: str,
    dtype: str | None,
    layout: str | None,
    direction: str | None,
    threads: int | None,
    device: str | None,
    plugins: str | Sequence[str],
    settings: Settings | None,
    solver: str | None,
    config: Mapping[str, Value] | None,
    strict: bool,
    banks_only: bool,
    protocol: str | None,
    pinned: Mapping[str, Value] | None,
) -> tuple[Any, Any, tuple[object, ...]]:
    """The kernel, the check that is still running, and what both depended on at the start."""
    began = monotonic()
    chosen = lookup_settings(plugins, settings)
    check_cpu_level()
    depends = _depends(chosen)
    asked = requested_problem(problem, dtype, layout=layout, direction=direction)
    if logs_commands():
        from skipjack.runtime.full_lookup import log_tuning_command

        log_tuning_command(asked, threads, device, protocol, chosen)
    directory = str(chosen.user_dir) if settings else None
    request = LookupRequest(asked, threads, device, chosen, directory, strict, protocol)
    if pinned:
        from skipjack.runtime.full_lookup import pinned_kernel

        return pinned_kernel(request, pinned, solver, config, banks_only), None, depends
    if solver is not None:
        from skipjack.runtime.full_lookup import explicit_kernel

        return explicit_kernel(request, solver, config), None, depends
    if config is not None:
        raise UsageError("config= names settings of a solver: give solver= as well")
    policy = current_policy()
    shared = None
    if ranked_program() is not None:
        from skipjack.runtime.answers import agreement_of

        shared = agreement_of(chosen.user_dir)
    if shared is None and (strict or policy.trusts_banks):
        found = known_kernel(request)
        if found:
            return found, None, depends
    from skipjack.runtime.full_lookup import full_answer

    kernel, pending, lasts = full_answer(request, policy, shared, banks_only, began)
    if not lasts:
        return kernel, pending, ()
    return kernel, pending, depends if shared is None else _UNTIL_RELOAD


def _names(plugins: str | Sequence[str]) -> tuple[str, ...]:
    return (plugins,) if isinstance(plugins, str) else tuple(plugins)


def lookup_settings(plugins: str | Sequence[str], settings: Settings | None) -> Settings:
    """The settings passed or in force, with further plug-ins; all plug-ins are loaded."""
    named = _names(plugins)
    if settings is not None:
        chosen = replace(settings, plugins=(*settings.plugins, *named)) if named else settings
        plugin_modules.load(chosen.plugins)
        return chosen
    chosen = load_settings(plugins=named or None, complain=_complain)
    if named:
        plugin_modules.load(named)
        return chosen
    return replace(chosen, plugins=tuple(filter(_is_loaded, chosen.plugins)))


def _is_loaded(plugin: str) -> bool:
    """Whether a plug-in named by the settings can be imported; if not, a warning says why."""
    if plugin in _failed_plugins:
        return False
    try:
        plugin_modules.load((plugin,))
    except UsageError as error:
        _failed_plugins.add(plugin)
        _complain(f"{error}; it is ignored")
        return False
    return True


def check_cpu_level() -> None:
    """Ignore an instruction level that this CPU does not support, here and in workers."""
    if CPU_LEVEL.text():
        try:
            llvm.host()
        except UsageError as error:
            _complain(f"{error}; it is ignored")
            os.environ.pop(llvm.LEVEL_VARIABLE, None)


def _complain(sentence: str) -> None:
    """Warn of a setting: a program must not fail because of its environment."""
    from skipjack.runtime.process import warn_once

    warn_once(log, sentence)


def _depends(settings: Settings) -> tuple[object, ...]:
    layers = layers_of(settings.user_dir, settings.banks, settings.system_dir)
    files = tuple((layer.path, _file_identity(layer.path)) for layer in layers)
    return files, settings.plugins, settings.cache_dir, len(cpu.usable_cores())


def _is_for_cpu(kernel: Found) -> bool:
    if isinstance(kernel, TunedKernel):
        return True
    from skipjack.runtime.local_kernels import CpuLibraryKernel

    return isinstance(kernel, CpuLibraryKernel)


def _gpus_here() -> object:
    from skipjack.gpu import local_gpus

    return local_gpus()


def look_up_again(
    key: str,
    device: str,
    user_dir: str | None,
    pickled_with: tuple[str, ...] = (),
    protocol: str | None = None,
) -> Found:
    """The kernel of the user's bank that was pickled; `SkipjackError` if it is gone.

    Only plug-ins that the settings name are loaded; those of the pickle are only mentioned.
    """
    return _again(key, device, user_dir, pickled_with, protocol, strict=True)


def answer_again(
    key: str,
    device: str,
    user_dir: str | None,
    pickled_with: tuple[str, ...] = (),
    protocol: str | None = None,
    solver: str | None = None,
    config: Mapping[str, Value] | None = None,
) -> Found:
    """The same for a kernel from another step of the lookup.

    `solver` and `config` are those that the program named.
    """
    return _again(key, device, user_dir, pickled_with, protocol, solver=solver, config=config)


def _again(
    key: str,
    device: str,
    user_dir: str | None,
    pickled_with: tuple[str, ...],
    protocol: str | None,
    **named: Any,
) -> Found:
    settings = load_settings(user_dir=user_dir, complain=_complain) if user_dir else None
    try:
        found = lookup(key, device=device, settings=settings, protocol=protocol, **named)
    except ProblemError as error:
        if remedy := lacking(pickled_with):
            raise SkipjackError(f"the kernel of {key} cannot be found: {remedy}") from error
        raise
    if found is None:
        remedy = lacking(pickled_with) or (
            "a pickled kernel is looked up where it is loaded: tune the problem there, or set "
            "SKIPJACK_USER_DB_PATH to the same directory in both places"
        )
        raise SkipjackError(f"the bank has no kernel of {key} for {device}; {remedy}")
    return found


def _file_identity(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _keep(question: tuple[object, ...], answer: _Answer) -> None:
    """Remember an answer; drop the oldest if they are too many or hold too much GPU memory."""
    _kept.pop(question, None)
    _kept[question] = answer
    for oldest in list(_kept)[:-_MOST_KEPT]:
        _kept.pop(oldest, None)
    lent = sum(one.scratch_bytes for one in list(_kept.values()))
    for asked, one in list(_kept.items()):
        if lent <= _MOST_LENT_BYTES:
            break
        if one.scratch_bytes:
            _kept.pop(asked, None)
            lent -= one.scratch_bytes
