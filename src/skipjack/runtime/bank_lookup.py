"""`lookup`: the best that is known of a problem, without tuning, workers or locks.

A bank is text that people merge, so that its entries are proposals: a solver and a config. What
runs was verified on this machine, or is built and verified now (`skipjack.runtime.checks`).
Who is asked in which order is in `skipjack.runtime.answers`.

Solvers are loaded where something must be built or verified; a kernel that is known here is found
by names and digests alone. An answer is remembered. Whether it still holds (same bank files, same
directories, same cores) is looked at again after `_INTERVAL_S`, or at once if this process has
written to a bank: asking the file system takes longer than all else. A GPU's holds as long as no
driver is added or taken away.
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
from skipjack.core.annotations import checked
from skipjack.core.config import Value
from skipjack.core.problem import Problem
from skipjack.core.protocol import deployed_protocol, named_deployment, protocol_for
from skipjack.errors import ProblemError, SkipjackError, UsageError
from skipjack.native import cpu, llvm
from skipjack.operations import comes_with_skipjack
from skipjack.reading import numbered
from skipjack.runtime.asking import AskedProblem, asked_problem, known_here
from skipjack.runtime.kernel import TunedKernel
from skipjack.runtime.kernel_code import (
    lacking,
)
from skipjack.runtime.policy import CLEAN, TuningPolicy, current_policy, logs_commands
from skipjack.runtime.ranks import next_epoch, ranked_program
from skipjack.settings import (
    BANKS,
    CPU_LEVEL,
    SYSTEM_DIR,
    USER_DIR,
    Settings,
    load_settings,
)

if TYPE_CHECKING:
    from skipjack.runtime.answers import (
        Agreement,
        Explanation,
        LookupAnswer,
        LookupDecision,
        Question,
    )
    from skipjack.runtime.checks import KernelCheck
    from skipjack.runtime.gpu_kernel import GpuKernel
    from skipjack.runtime.library_kernel import CpuLibraryKernel, GpuLibraryKernel

    Found = TunedKernel | GpuKernel | CpuLibraryKernel | GpuLibraryKernel

log = logging.getLogger("skipjack.runtime.lookup")

_INTERVAL_S = 1.0
"""A remembered answer older than this is compared with the banks' files again."""
_MOST_KEPT = 256
"""Kernels that stay loaded though their callers have let them go."""
_MOST_LENT_BYTES = 256 << 20
"""Of a GPU's memory, for one stream, that such kernels have among them."""

_PATIENCE_S = 0.05
"""While a kernel that takes longer is built and verified, a library answers."""
_ALL_PATIENCE_S = 600.0
"""Where an answer is wanted and no other will do."""

_UNTIL_RELOAD = ("ranks agreed on it",)
"""What an answer depends on that no bank can change."""

_PLACES = (USER_DIR.name, BANKS.name, SYSTEM_DIR.name)
"""Variables that say where banks are."""
# `os.environ.get` takes longer than all else of a hit: it encodes the name and decodes the value.
_environment: Mapping[Any, Any] = getattr(os.environ, "_data", os.environ)
_encode = getattr(os.environ, "encodekey", str) if _environment is not os.environ else str
_USER_DIR, _BANKS, _SYSTEM_DIR = map(_encode, _PLACES)


@dataclass(slots=True)
class _Answer:
    """What was looked up, and what it depends on."""

    kernel: Found | None
    """None if only the user's bank was asked, and has no entry."""
    depends: tuple[object, ...]
    seen: float
    """When it was last found to hold."""
    writes: int
    gpus: object
    """All that are here, if the kernel is for one of them."""
    lent_bytes: int
    """Of a GPU's memory, for each stream."""
    pending: KernelCheck[Any] | None = None
    """What is being verified: the answer holds until that is finished."""


_kept: dict[tuple[object, ...], _Answer] = {}
"""By what was asked for."""
_failed_plugins: set[str] = set()
"""Plug-ins that settings name and that could not be imported."""


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
    """The best that is known of a problem on this device; None if nothing here can compute it.

    The device is chosen as for `tune`: the CPU, or a GPU that is named or needed. Plug-ins are
    loaded as for `tune`, too.

    The user's bank is asked first, then those of SKIPJACK_BANKS and the system's; where none of
    them knows the problem, an entry of another class of devices answers, a heuristic, what is best
    for a problem that is near, the first proposal of a solver, or a library. `source` of what is
    given says which. It is a `TunedKernel`, on a GPU a `GpuKernel`, or a `LibraryKernel` that calls
    a library in the same way and with the same checks; `solver` says what built it or is called.

    `pinned` has settings that the kernel's config must have, as ``{"program": "two_pass"}``: banks
    answer with what was tuned so, or with their best where it has them; without one, the first
    config of a solver that has them is built. A library has none.

    `solver` and `config` name what is wanted; nobody else is asked then. If `strict`, only the
    user's bank is asked, and None is given if it does not know the problem. If `banks_only`, all
    banks are asked and nobody else: None is given if none of them knows it.

    `protocol` says how the program calls it, as ``eager/hot`` (see `skipjack.core.protocol`), by
    default as is usual on the device; banks answer with what was measured so.

    Where an entry of a bank is of no use here, a warning says why, once, and the next is taken.
    A kernel that was not verified on this machine before, for example from a merged bank, is
    built and verified, once. Where that takes more than a moment, a library answers until it is
    done; if `strict`, it is waited for.
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
            _settings(plugins, settings)
        ):
            known.seen, known.writes = now, writes
            return known.kernel
    kernel: Found | None
    kernel, pending, depends = _look_up(
        *asked, solver, config, strict, banks_only, protocol, pinned
    )
    if kernel is not None or depends:
        lent_bytes = getattr(kernel, "lent_bytes", 0)
        gpus = None if kernel is None or _is_for_cpu(kernel) else _gpus_here()
        _keep(question, _Answer(kernel, depends, now, writes, gpus, lent_bytes, pending))
    return kernel


def reload() -> None:
    """Forget what was looked up: the next lookups read settings and banks again.

    The ranks of a program take up new results here and nowhere else: all of them call it, at the
    same point of the program.
    """
    from skipjack.runtime.checks import forget_checks

    _kept.clear()
    _failed_plugins.clear()
    forget_banks()
    forget_checks()
    next_epoch()


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
    solver: str | None,
    config: Mapping[str, Value] | None,
    strict: bool,
    banks_only: bool,
    protocol: str | None,
    pinned: Mapping[str, Value] | None,
) -> tuple[Any, Any, tuple[object, ...]]:
    """The kernel, what is verified meanwhile, and what both depend on, as that was before."""
    began = monotonic()
    chosen = _settings(plugins, settings)
    _check_level()
    depends = _depends(chosen)
    asked = asked_problem(problem, dtype, layout=layout, direction=direction)
    if logs_commands():
        _log_command(asked, threads, device, protocol, chosen)
    directory = str(chosen.user_dir) if settings else None
    request = AskedProblem(asked, threads, device, chosen, directory, strict, protocol)
    if pinned:
        return *_pinned(request, pinned, solver, config, banks_only), depends
    if solver is not None:
        from skipjack.runtime.answers import Question, explicit_answer
        from skipjack.runtime.placing import place
        from skipjack.solvers import BuildingSolver, find_solver

        if config and not isinstance(find_solver(solver), BuildingSolver):
            raise UsageError(
                f"solver {solver} is a library, which has no configs: leave config= out"
            )
        on = place([asked], device, threads)
        question = Question(
            *(asked, on, chosen, directory),
            patience_s=_ALL_PATIENCE_S,
            protocol=None if protocol is None else named_deployment(on, protocol),
        )
        return explicit_answer(question, solver, config).kernel, None, depends
    if config is not None:
        raise UsageError("config is of a solver: give solver= as well")
    policy = current_policy()
    shared = None
    if ranked_program() is not None:
        from skipjack.runtime.answers import agreement_of

        shared = agreement_of(chosen.user_dir)
    if shared is None and (strict or policy.trusts_banks):
        found = known_here(request)
        if found:
            return found, None, depends
    placed = _placed(request, policy)
    if placed is None:
        return None, None, ()
    placed = replace(placed, asked_at=began, banks_only=banks_only)
    if shared is not None:
        answer, pending = _agreed(shared, placed, policy, strict), None
        depends = _UNTIL_RELOAD
    else:
        waits = strict or banks_only
        decision = _decided(placed, policy, strict, None if waits else _PATIENCE_S)
        answer, pending = decision.answer, decision.pending
        lasts = decision.lasting if answer else strict and _is_unknown(placed)
        depends = depends if lasts else ()
    banked = answer is not None and answer.is_banked
    # Jobs of the fleet are for what is deployed as is usual.
    if not (strict or placed.library_alone or placed.protocol or banked):
        from skipjack.runtime import misses

        misses.note(placed, answer)
    return answer.kernel if answer else None, pending, depends


def _pinned(
    request: AskedProblem,
    pinned: Mapping[str, Value],
    solver: str | None,
    config: Mapping[str, Value] | None,
    banks_only: bool,
) -> tuple[Any, None]:
    """The kernel of a config with these settings; None if only banks are asked and none has it."""
    from skipjack.runtime.answers import Question, pinned_answer
    from skipjack.runtime.placing import place

    if config is not None:
        raise UsageError("config= names all settings: leave pinned= out")
    on, protocol = place([request.problem], request.device, request.threads), request.protocol
    question = Question(
        *(request.problem, on, request.settings, request.directory),
        patience_s=_ALL_PATIENCE_S,
        protocol=None if protocol is None else named_deployment(on, protocol),
        banks_only=banks_only,
    )
    answer = pinned_answer(question, pinned, solver, strict=request.strict)
    return answer.kernel if answer else None, None


def _is_unknown(question: Question) -> bool:
    """Whether the user's bank has no entry; one that is of no use may be of use any moment."""
    user = question.layers[0]
    key, here = question.problem.key, question.device.class_key
    try:
        return not user.ranked(key, here, protocol=question.protocol)
    except SkipjackError:
        return False


def _log_command(
    asked: Problem,
    threads: int | None,
    device: str | None,
    protocol: str | None,
    settings: Settings,
) -> None:
    """Write down how to tune it, if it can be tuned here."""
    from skipjack.runtime.online import log_command
    from skipjack.runtime.placing import place

    try:
        found = place([asked], device, threads)
        deployed = None if protocol is None else named_deployment(found, protocol)
    except SkipjackError:
        return
    if deployed == protocol_for(found).deployed:
        deployed = None  # without the options it is tuned for that
    plugins = () if comes_with_skipjack(asked.operation) else settings.plugins
    log_command(asked.key, found.name, plugins, deployed)


def explain(
    problem: str,
    *,
    dtype: str | None = None,
    threads: int | None = None,
    device: str | None = None,
    plugins: str | Sequence[str] = (),
    settings: Settings | None = None,
    deployed: str | None = None,
    caches: str | None = None,
) -> Explanation:
    """How `lookup` comes to its answer, step by step, where none is remembered.

    It builds and verifies as a lookup does, waits for that, tunes nothing and removes nothing.
    `deployed` and `caches` are as for `tune`.
    """
    from skipjack.runtime.answers import Explanation, LookupDecision, StepRecord, decide

    chosen = _settings(plugins, settings)
    _check_level()
    asked, policy = asked_problem(problem, dtype), current_policy()
    placed = _placed(AskedProblem(asked, threads, device, chosen, None), policy)
    before = (
        StepRecord("explicit config", False, "the call names none"),
        StepRecord("process cache", False, "a process that begins remembers nothing"),
    )
    if placed is None:
        said = f"{asked.key} is for GPUs alone, and {device or 'this machine'} is not one"
        decision = LookupDecision(None, (*before, StepRecord("device", False, said)))
        return Explanation(asked.key, device or _cpu_name(threads), policy.mode, decision)
    if deployed is not None or caches is not None:
        way = deployed_protocol(placed.device, deployed, caches).deployed
        placed = replace(placed, protocol=way)
    decision = decide(replace(placed, patience_s=_ALL_PATIENCE_S))
    decision = replace(decision, steps=(*before, *decision.steps))
    then = ""
    if not placed.library_alone and (policy.measures or policy.mode == CLEAN):
        from skipjack.runtime.online import foretold

        then = foretold(placed, decision.answer, policy)
    return Explanation(asked.key, placed.device.name, policy.mode, decision, then)


def _cpu_name(threads: int | None) -> str:
    return cpu.detect(threads or 1).name if cpu.detectable() else "this machine"


def _placed(asked: AskedProblem, policy: TuningPolicy) -> Question | None:
    """The question on the device that is meant; None if there is none that can be asked about."""
    from skipjack.runtime.answers import Question
    from skipjack.runtime.placing import NoGpuError, place

    threads, cores = asked.threads, len(cpu.usable_cores())
    alone = "the policy is off" if policy.mode == "off" and not asked.strict else ""
    if threads is not None and threads > cores:
        if asked.strict or asked.device not in (None, "cpu"):
            return None  # nothing was tuned for what is here
        usable = numbered(cores, "core")
        alone = f"{threads} threads were asked for, and this process may use {usable}"
        threads = cores
    try:
        device = place([asked.problem], asked.device, threads)
    except NoGpuError:
        return None
    protocol = None if asked.protocol is None else named_deployment(device, asked.protocol)
    return Question(
        *(asked.problem, device, asked.settings, asked.directory),
        library_alone=alone,
        protocol=protocol,
    )


def _decided(
    question: Question, policy: TuningPolicy, strict: bool, patience_s: float | None
) -> LookupDecision:
    from skipjack.runtime.answers import decide

    decision = decide(replace(question, patience_s=patience_s), strict=strict)
    if strict or question.library_alone:
        return decision
    if policy.measures or policy.mode == CLEAN:
        from skipjack.runtime.online import tuned_here

        return tuned_here(question, decision, policy)
    return decision


def _agreed(
    shared: Agreement, question: Question, policy: TuningPolicy, strict: bool
) -> LookupAnswer | None:
    """What the ranks of this program use; the first to ask decides, and takes the time it needs."""
    from skipjack.runtime.answers import agreed_answer

    def decide() -> LookupAnswer | None:
        return _decided(question, policy, strict, patience_s=None).answer

    how = f"{policy.key} {strict}" + (" banks" if question.banks_only else "")
    return agreed_answer(shared, question, how, decide)


def _names(plugins: str | Sequence[str]) -> tuple[str, ...]:
    return (plugins,) if isinstance(plugins, str) else tuple(plugins)


def _settings(plugins: str | Sequence[str], settings: Settings | None) -> Settings:
    """Those that are given or in force, with the plug-ins that are named besides, loaded."""
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
    """Whether a plug-in is here that the settings name; one that cannot be imported is told."""
    if plugin in _failed_plugins:
        return False
    try:
        plugin_modules.load((plugin,))
    except UsageError as error:
        _failed_plugins.add(plugin)
        _complain(f"{error}; it is left out")
        return False
    return True


def _check_level() -> None:
    """A level of instructions that this CPU has not counts as not given, here and in workers."""
    if CPU_LEVEL.text():
        try:
            llvm.host()
        except UsageError as error:
            _complain(f"{error}; it is left out")
            os.environ.pop(llvm.LEVEL_VARIABLE, None)


def _complain(sentence: str) -> None:
    """Of a setting: what a program was started with must not end it."""
    from skipjack.runtime.warning_once import warn_once

    warn_once(log, sentence)


def _depends(settings: Settings) -> tuple[object, ...]:
    """What an answer depends on besides the question."""
    layers = layers_of(settings.user_dir, settings.banks, settings.system_dir)
    files = tuple((layer.path, _file_identity(layer.path)) for layer in layers)
    return files, settings.plugins, settings.cache_dir, len(cpu.usable_cores())


def _is_for_cpu(kernel: Found) -> bool:
    if isinstance(kernel, TunedKernel):
        return True
    from skipjack.runtime.library_kernel import CpuLibraryKernel

    return isinstance(kernel, CpuLibraryKernel)


def _gpus_here() -> object:
    from skipjack.gpu.opening import gpus_here

    return gpus_here()


def look_up_again(
    key: str,
    device: str,
    user_dir: str | None,
    pickled_with: tuple[str, ...] = (),
    protocol: str | None = None,
) -> Found:
    """The user's kernel that a pickle is of; `SkipjackError` if it is not there any more.

    Plug-ins are loaded that the settings name; those that the pickle names are only told of.
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
    """The same for a kernel that came from another step of the lookup.

    `solver` and `config` are those that the program had named.
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
            "a pickled kernel is looked up where it is loaded, so tune it there, or give both the "
            "same SKIPJACK_USER_DB_PATH"
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
