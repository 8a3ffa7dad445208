"""What a program asks for, and what banks know of it that was verified on this CPU before.

The latter is found without loading solvers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skipjack.bank import USER, BankEntry, is_library, layers_of
from skipjack.core.config import Config
from skipjack.core.device import Device, parse_device_name
from skipjack.core.dtypes import CPU_DTYPES
from skipjack.core.problem import Problem
from skipjack.core.protocol import named_deployment
from skipjack.errors import SkipjackError, StorageError
from skipjack.native import cpu
from skipjack.native.own_code import own_identity
from skipjack.operations import comes_with_skipjack, parse
from skipjack.runtime.kernel import TunedKernel
from skipjack.runtime.kernel_code import Again, KernelCode, answered_again, banked_again
from skipjack.runtime.verified import VerifiedKernels, kernel_key
from skipjack.settings import Settings

if TYPE_CHECKING:
    from skipjack.runtime.library_kernel import CpuLibraryKernel, GpuLibraryKernel

    KnownKernel = TunedKernel | CpuLibraryKernel | GpuLibraryKernel


_KEY = re.compile(r"[A-Za-z_]\w*:\S*")


def asked_problem(
    text: str,
    dtype: str | None = None,
    *,
    layout: str | None = None,
    direction: str | None = None,
) -> Problem:
    """The one problem that a key, a command of MIOpenDriver or a find-db's line stands for.

    The others fill in what it leaves open, as for `parse`.
    """
    if not isinstance(text, str) or _KEY.fullmatch(text):
        return parse(text, dtype, layout=layout, direction=direction)
    from skipjack.interop import Defaults, read_one  # a key, which most are, needs none of it

    return read_one(text, Defaults(dtype, layout.upper() if layout else None, direction))


@dataclass(frozen=True, slots=True)
class AskedProblem:
    """The arguments of a lookup, read."""

    problem: Problem
    threads: int | None
    device: str | None
    settings: Settings
    directory: str | None
    """The user directory, if it was named rather than found."""
    strict: bool = False
    protocol: str | None = None


def known_here(asked: AskedProblem) -> KnownKernel | None:
    """What the first bank that knows the problem has for this CPU.

    That is a kernel that was verified here before and is built by a solver of ours, or the library
    that is named instead. It is what `skipjack.runtime.answers` would give.
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
            return None  # told elsewhere
        if len(entries) > 1:
            from skipjack.runtime.toolchains import fresh_first

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
    asked: AskedProblem, device: Device, entry: BankEntry, again: Again
) -> KnownKernel | None:
    if is_library(entry):
        return _library(entry.solver, asked.problem, device, again)
    code = _verified(entry, asked.problem, device, asked.settings)
    return TunedKernel(asked.problem, code, again, entry.solver) if code else None


def _library(
    name: str, asked: Problem, device: Device, again: Again
) -> CpuLibraryKernel | GpuLibraryKernel | None:
    """A library's call, if that is here and can do the problem."""
    from skipjack.runtime.library_kernel import library_kernel
    from skipjack.solvers import find_solver, is_known, refusal

    if not is_known(name) or refusal(find_solver(name), asked, device):
        return None
    return library_kernel(name, asked, device, again)


def _this_cpu(asked: AskedProblem) -> Device | None:
    """This machine's CPU, if that is meant for sure."""
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
