"""Lookups that no kernel verified on this machine answers: banks, solvers and libraries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from skipjack.core import Device, Problem, Value, deployed_protocol, named_deployment, protocol_for
from skipjack.devices import device_for
from skipjack.errors import SkipjackError, UsageError
from skipjack.gpu import find_gpus
from skipjack.native import cpu
from skipjack.operations import comes_with_skipjack
from skipjack.reading import numbered
from skipjack.runtime.bank_lookup import check_cpu_level, lookup_settings
from skipjack.runtime.local_kernels import LookupRequest, requested_problem
from skipjack.runtime.process import CLEAN, FLEET, RECORD, TuningPolicy, current_policy, on_miss
from skipjack.settings import Settings
from skipjack.solvers import needs_gpu, refusal_of_all

if TYPE_CHECKING:
    from skipjack.runtime.answers import (
        Agreement,
        Explanation,
        LookupAnswer,
        LookupDecision,
        Question,
    )


# Selecting the device of this machine that a tuning or a lookup is for.


class NoGpuError(UsageError):
    """A problem runs on GPUs only, but there is none, or another device was named."""


def select_device(
    problems: Sequence[Problem], text: str | None = None, threads: int | None = None
) -> Device:
    """The named device, or else the CPU; problems that run on GPUs only select the first GPU.

    `NoGpuError` if they cannot run.
    """
    device = device_for({problem.dtype for problem in problems}, text, threads)
    stranded = next((one for one in problems if needs_gpu(one, device)), None)
    if stranded is None:
        return device
    gpus = [gpu for _, _, gpu in find_gpus()]
    if gpus and text is None and threads is None:
        return gpus[0]
    where = f"{device.name} is a CPU" if gpus else "there is no GPU here"
    raise NoGpuError(f"{where}, and {refusal_of_all(stranded, device)}")


# Lookups that cannot be answered by a kernel verified here: they ask banks, solvers, libraries.
#
# `skipjack.runtime.answers` has the steps, in order.

_PATIENCE_S = 0.05
"""While a kernel that takes longer is built and verified, a library answers."""
_ALL_PATIENCE_S = 600.0
"""For lookups that only one particular kernel can answer."""


def full_answer(
    request: LookupRequest,
    policy: TuningPolicy,
    shared: Agreement | None,
    banks_only: bool,
    began: float,
) -> tuple[Any, Any, bool]:
    """The kernel, a check that is still running, and whether the answer may be remembered."""
    placed = _placed(request, policy)
    if placed is None:
        return None, None, False
    placed = replace(placed, asked_at=began, banks_only=banks_only)
    strict, lasts = request.strict, True
    if shared is not None:
        answer, pending = _agreed(shared, placed, policy, strict), None
    else:
        waits = strict or banks_only
        decision = _decided(placed, policy, strict, None if waits else _PATIENCE_S)
        answer, pending = decision.answer, decision.pending
        lasts = decision.lasting if answer else strict and _is_unknown(placed)
    banked = answer is not None and answer.is_banked
    # Jobs of the fleet are for the device's default deployment.
    if not (strict or placed.library_alone or placed.protocol or banked):
        _note_miss(placed, answer)
    return answer.kernel if answer else None, pending, lasts


def _note_miss(question: Question, answer: LookupAnswer | None) -> None:
    """Record an answer that came from no bank, or None, if ``SKIPJACK_ON_MISS`` asks for that.

    Nothing here fails a program: a warning says once that misses cannot be recorded.
    """
    wish = on_miss()
    if wish not in (RECORD, FLEET):
        return
    from skipjack.runtime.missed_problems import record

    record(question, answer, to_fleet=wish == FLEET)


def explicit_kernel(request: LookupRequest, solver: str, config: Mapping[str, Value] | None) -> Any:
    """The kernel of a solver that the program names."""
    from skipjack.runtime.answers import explicit_answer
    from skipjack.solvers import BuildingSolver, find_solver

    if config and not isinstance(find_solver(solver), BuildingSolver):
        raise UsageError(f"solver {solver} is a library, which has no configs: leave config= out")
    return explicit_answer(_patient_question(request), solver, config).kernel


def pinned_kernel(
    request: LookupRequest,
    pinned: Mapping[str, Value],
    solver: str | None,
    config: Mapping[str, Value] | None,
    banks_only: bool,
) -> Any:
    """The kernel of a config with these settings; None if only banks are asked and none has it."""
    from skipjack.runtime.answers import pinned_answer

    if config is not None:
        raise UsageError("config= names all settings: leave pinned= out")
    question = replace(_patient_question(request), banks_only=banks_only)
    answer = pinned_answer(question, pinned, solver, strict=request.strict)
    return answer.kernel if answer else None


def _patient_question(request: LookupRequest) -> Question:
    """A question that waits for its answer."""
    from skipjack.runtime.answers import Question

    on, protocol = (
        select_device([request.problem], request.device, request.threads),
        request.protocol,
    )
    return Question(
        *(request.problem, on, request.settings, request.directory),
        patience_s=_ALL_PATIENCE_S,
        protocol=None if protocol is None else named_deployment(on, protocol),
    )


def _is_unknown(question: Question) -> bool:
    """Whether the user's bank has no entry; one that cannot be used now may be usable later."""
    user = question.layers[0]
    key, here = question.problem.key, question.device.class_key
    try:
        return not user.ranked(key, here, protocol=question.protocol)
    except SkipjackError:
        return False


def log_tuning_command(
    asked: Problem,
    threads: int | None,
    device: str | None,
    protocol: str | None,
    settings: Settings,
) -> None:
    """Log the command that tunes a problem, if it can be tuned here."""
    from skipjack.runtime.online import log_command

    try:
        found = select_device([asked], device, threads)
        deployed = None if protocol is None else named_deployment(found, protocol)
    except SkipjackError:
        return
    if deployed == protocol_for(found).deployed:
        deployed = None  # the command's default
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
    """How `lookup` arrives at its answer, step by step, if none is remembered.

    It builds and verifies as a lookup does and waits for the result; it tunes and removes nothing.
    `deployed` and `caches` are as for `tune`.
    """
    from skipjack.runtime.answers import Explanation, LookupDecision, StepRecord, decide

    chosen = lookup_settings(plugins, settings)
    check_cpu_level()
    asked, policy = requested_problem(problem, dtype), current_policy()
    placed = _placed(LookupRequest(asked, threads, device, chosen, None), policy)
    before = (
        StepRecord("explicit config", False, "the call names no config"),
        StepRecord("process cache", False, "a new process has no cached answers"),
    )
    if placed is None:
        said = f"{asked.key} runs on GPUs only, and {device or 'this machine'} is not a GPU"
        decision = LookupDecision(None, (*before, StepRecord("device", False, said)))
        return Explanation(asked.key, device or _cpu_name(threads), policy.mode, decision)
    if deployed is not None or caches is not None:
        way = deployed_protocol(placed.device, deployed, caches).deployed
        placed = replace(placed, protocol=way)
    decision = decide(replace(placed, patience_s=_ALL_PATIENCE_S))
    decision = replace(decision, steps=(*before, *decision.steps))
    then = ""
    if not placed.library_alone and (policy.measures or policy.mode == CLEAN):
        from skipjack.runtime.online import forecast

        then = forecast(placed, decision.answer, policy)
    return Explanation(asked.key, placed.device.name, policy.mode, decision, then)


def _cpu_name(threads: int | None) -> str:
    return cpu.detect(threads or 1).name if cpu.detectable() else "this machine"


def _placed(asked: LookupRequest, policy: TuningPolicy) -> Question | None:
    """The question for the chosen device; None if no device here is suitable."""
    from skipjack.runtime.answers import Question

    threads, cores = asked.threads, len(cpu.usable_cores())
    alone = "the policy is off" if policy.mode == "off" and not asked.strict else ""
    if threads is not None and threads > cores:
        if asked.strict or asked.device not in (None, "cpu"):
            return None  # nothing was tuned for the cores of this machine
        usable = numbered(cores, "core")
        alone = f"the lookup is for {threads} threads, and this process may use {usable}"
        threads = cores
    try:
        device = select_device([asked.problem], asked.device, threads)
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
        from skipjack.runtime.online import tune_in_program

        return tune_in_program(question, decision, policy)
    return decision


def _agreed(
    shared: Agreement, question: Question, policy: TuningPolicy, strict: bool
) -> LookupAnswer | None:
    """What the ranks of this program use; the first to ask decides, and takes as long as needed."""
    from skipjack.runtime.answers import agreed_answer

    def decide() -> LookupAnswer | None:
        return _decided(question, policy, strict, patience_s=None).answer

    how = f"{policy.key} {strict}" + (" banks" if question.banks_only else "")
    return agreed_answer(shared, question, how, decide)
