"""Decides, when a call is first seen, whether our kernels or PyTorch's compute it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skipjack.core import Device, Problem, Promising
from skipjack.errors import SkipjackError
from skipjack.gpu import find_gpu
from skipjack.integrations.torch.matching import CallMatch, CallMatches, TorchCall, match_call
from skipjack.integrations.torch.outcomes import TorchDecision, TorchStatus
from skipjack.integrations.torch.selection.plans import make_cpu_plan, make_gpu_plan
from skipjack.integrations.torch.selection.race import (
    RaceResult,
    RaceResults,
    RaceSubject,
    race_kernels,
    race_key,
    time_current_kernel,
)
from skipjack.integrations.torch.selection.sample_calls import why_invalid
from skipjack.integrations.torch.stubs import (
    CallTable,
    NativePlan,
    Signature,
    TableEntry,
    torch_abi,
)
from skipjack.native import cpu
from skipjack.operations import get
from skipjack.runtime import lookup
from skipjack.runtime.local_kernels import GpuKernel, TunedKernel
from skipjack.runtime.online import LATE, SearchAnswer, failure_of, is_asked_for, search_of
from skipjack.runtime.process import TuningPolicy, in_force, ranked_program, tuning_policy
from skipjack.settings import load_settings
from skipjack.solvers import solvers_for

OFF, DB, REFRESH, EXHAUSTIVE, CLEAN = "off", "db", "refresh", "exhaustive", "clean"
_STARTING_S = 4.0
_RACE_S = 1.0
"""The approximate limit for the race of a kernel against PyTorch's."""


@dataclass(frozen=True, slots=True)
class HookOptions:
    """How calls are decided."""

    policy: TuningPolicy
    ops: tuple[str, ...] = ()
    """Names of PyTorch's or our operations to tune; empty for all."""
    force: bool = False
    """Whether our kernels always run, banked or not: for tests of numerics."""
    times_torch: bool = False
    """Whether PyTorch's kernel is timed even without a competing kernel: for dumps."""

    @property
    def wants_every_call(self) -> bool:
        """Whether calls without a kernel matter, too."""
        policy = self.policy
        return policy.measures or policy.mode == CLEAN or self.force or self.times_torch

    def covers(self, name: str) -> bool:
        """Whether an operation with this name may use our kernels."""
        return not self.ops or name.rpartition("::")[2] in self.ops


OurKernel = TunedKernel | GpuKernel


@dataclass(frozen=True, slots=True)
class _Found:
    """What banks and searches know about a problem."""

    kernel: OurKernel | None
    status: TorchStatus
    solver: str
    reason: str
    is_open: bool = False
    """Whether a search for it is still running."""
    search: SearchAnswer | None = None
    """The answer to this process's search, if it has ended."""


class CallChooser:
    """Decides about calls, and sets the entries of a table."""

    def __init__(
        self,
        table: CallTable,
        functions: Mapping[str, int],
        options: HookOptions,
        detours: Mapping[Signature, float],
    ) -> None:
        """`detours` has the overhead of the hook in nanoseconds, for calls where it is large."""
        self._table, self._functions, self.options = table, functions, options
        self._detours = detours
        self._has_searched = False

    def choose(self, call: TorchCall, entry: TableEntry) -> TorchDecision:
        """Set the entry of a call, and return the decision."""
        device = _device_of(call)
        plain = TorchDecision(
            op=plain_op(call),
            description=str(call),
            problem=None,
            device=device.name,
            is_ours=False,
            reason="",
            status=TorchStatus.VENDOR,
            solver="torch",
        )
        matches = _matched(call, entry)
        if not matches.ways:
            return replace(plain, reason=matches.reason)
        problems = list(dict.fromkeys(p.problem for way in matches.ways for p in way.parts))
        plain = replace(plain, problem=" ".join(one.key for one in problems))
        if reason := self._left_out(call, problems):
            return replace(plain, reason=reason)
        try:
            return self._raced(call, entry, device, matches.ways, problems, plain)
        except (SkipjackError, RuntimeError, MemoryError, OSError) as error:
            entry.torch()
            return replace(plain, reason=str(error), status=TorchStatus.FAILED)

    def _left_out(self, call: TorchCall, problems: Sequence[Problem]) -> str:
        options = self.options
        if options.policy.mode == OFF:
            return "the policy is off"
        names = [call.signature.name, *(one.operation for one in problems)]
        if not any(map(options.covers, names)):
            return "it is not one of the operations to tune"
        if call.gpu is None and call.threads > len(cpu.usable_cores()):
            return f"PyTorch uses {call.threads} threads, more than there are cores"
        return ""

    def _raced(
        self,
        call: TorchCall,
        entry: TableEntry,
        device: Device,
        ways: Sequence[CallMatch],
        problems: Sequence[Problem],
        plain: TorchDecision,
    ) -> TorchDecision:
        known = {one: self._find(one, device) for one in problems}
        kernels = {one: found.kernel for one, found in known.items() if found.kernel}
        searches = [found.search for found in known.values() if found.search]
        plain = replace(
            plain,
            status=_joined([found.status for found in known.values()]),
            searcher=", ".join(dict.fromkeys(one.searcher for one in searches if one.searcher)),
            rounds=tuple(each for one in searches for each in one.rounds),
        )
        if any(found.is_open for found in known.values()):
            reason = "its search has not ended yet"
            timed = time_current_kernel(call) if self.options.policy.background else None
            return replace(plain, reason=reason, is_final=False, before_ns=timed)
        able = [way for way in ways if all(part.problem in kernels for part in way.parts)]
        if not able:
            return replace(plain, reason="; ".join({found.reason for found in known.values()}))
        plans, solvers, digests = [], [], []
        for way in able:
            own = {part.problem: kernels[part.problem] for part in way.parts}
            if plan := self._plan(call, way, own):
                plans.append(entry.lay_out(plan))
                solvers.append(", ".join(known[part.problem].solver for part in way.parts))
                digests.append(" ".join(kernels[part.problem].digest[:12] for part in way.parts))
        verdict = self._verdict(call, entry, device, plans, kernels)
        if verdict.way is None:
            return replace(plain, reason=verdict.reason, before_ns=verdict.before_ns)
        entry.ours(plans[verdict.way - 1])
        return replace(
            plain,
            is_ours=True,
            reason=verdict.reason,
            solver=solvers[verdict.way - 1],
            kernel=digests[verdict.way - 1],
            before_ns=verdict.before_ns,
            after_ns=verdict.after_ns,
        )

    def _plan(
        self, call: TorchCall, way: CallMatch, kernels: Mapping[Problem, OurKernel]
    ) -> NativePlan | None:
        on_cpu = {one: kernel for one, kernel in kernels.items() if isinstance(kernel, TunedKernel)}
        on_gpu = {one: kernel for one, kernel in kernels.items() if isinstance(kernel, GpuKernel)}
        if call.gpu is not None:
            return make_gpu_plan(way, on_gpu, self._functions, call.gpu)
        plan = make_cpu_plan(way, on_cpu, self._functions)
        if plan:
            self._table.lend(plan.arena_bytes)
        return plan

    def _verdict(
        self,
        call: TorchCall,
        entry: TableEntry,
        device: Device,
        plans: Sequence[int],
        kernels: Mapping[Problem, OurKernel],
    ) -> RaceResult:
        if not plans:
            return RaceResult(None, 1.0, 0.0, None, "its kernels have too many arguments")
        if self.options.force:
            return RaceResult(1, 1.0, 0.0, None, "forced")
        verdicts = RaceResults(load_settings().user_dir)
        code = [kernels[one].digest for one in sorted(kernels, key=lambda one: one.key)]
        key = race_key(
            [call.signature.full_name, entry.words, torch_abi().version, device.class_key, code]
        )
        known = verdicts.find(key)
        # Ranks of a program use the result of the first one.
        policy, is_rank = self.options.policy, ranked_program() is not None
        if known and (known.way or 0) <= len(plans):
            is_kept = not policy.measures or (known.is_sure and policy.mode != EXHAUSTIVE)
            if is_kept or is_rank:
                return known
        end = time.monotonic() + _RACE_S
        detour_ns = self._detours.get(call.signature, 0.0)
        found = race_kernels(entry, plans, call, lambda: time.monotonic() > end, detour_ns)
        backend = call.signature.backend.value
        subject = RaceSubject(plain_op(call), backend, torch_abi().version)
        return verdicts.put(key, found, subject, known)

    def _first_with_more_time(self, policy: TuningPolicy) -> TuningPolicy:
        """The policy with more time for the first search, which also starts processes."""
        if self._has_searched or policy.seconds is None:
            return policy
        self._has_searched = True
        return replace(policy, starting_s=_STARTING_S)

    def _waits(self, problem: Problem, device: Device, before: object) -> bool:
        """Whether its search in the background has not been requested yet."""
        in_background = self.options.policy.background and before is None
        return in_background and not is_asked_for(problem.key, device.name)

    def _find(self, problem: Problem, device: Device) -> _Found:
        """The kernel in the banks, after a search if the policy requires one."""
        policy = self.options.policy
        with tuning_policy(DB):
            before = lookup(problem.key, device=device.name, banks_only=True)
        found, status, search = before, TorchStatus.HIT, None
        is_tuned = policy.searcher_for(get(problem.operation).operation_class) is not None
        if policy.mode == CLEAN:
            with in_force(policy):
                lookup(problem.key, device=device.name, banks_only=True)
            with tuning_policy(DB):
                found = lookup(problem.key, device=device.name, banks_only=True)
        if policy.measures and is_tuned:
            if self._waits(problem, device, before):
                return _Found(None, TorchStatus.VENDOR, "torch", "its search has not started", True)
            if before is None or policy.mode in (EXHAUSTIVE, REFRESH):
                with in_force(self._first_with_more_time(policy)):
                    found = lookup(problem.key, device=device.name, banks_only=True)
                status = _status(before, found)
            search = search_of(problem.key, device.name)
            if before is not None and (search is None or search.status == LATE):
                found, status = (
                    before,
                    TorchStatus.HIT,
                )  # its search has not ended, or never started
            if search is not None and search.searched and status is TorchStatus.HIT:
                status = _status(None, found)  # it ended after the call that requested it
        if self.options.force and not isinstance(found, OurKernel):
            found = _first_proposal(problem, device) or found
        if isinstance(found, OurKernel):
            return _Found(found, status, found.solver, "", search=search)
        if found is None and policy.measures and is_tuned:
            failure = failure_of(problem.key, device.name)
            reason = failure or (search.reason if search else "") or "its search found nothing"
            status = TorchStatus.FAILED if failure else TorchStatus.VENDOR
            return _Found(None, status, "torch", reason, not failure, search)
        if found is None:
            reason = "no bank knows it" if is_tuned else "operations of its class are not tuned"
            if before is not None:
                reason = "it was removed from the user bank"
            return _Found(None, TorchStatus.VENDOR, "torch", reason)
        reason = f"{found.solver} is faster than our kernels"
        return _Found(None, status, found.solver, reason, search=search)


def _matched(call: TorchCall, entry: TableEntry) -> CallMatches:
    """The ways to compute a call; none for one that PyTorch refuses, which raises from now on.

    PyTorch's C++ functions raise their own errors: they need not be tried if none of our kernels
    can replace them. Trying takes milliseconds, and the first time 0.2 s for imports.
    """
    found = match_call(call)
    is_cpp = call.signature.is_cpp
    if found.is_valid or (is_cpp and not found.ways):
        return found
    if message := why_invalid(call):
        if not is_cpp:
            entry.raises(message)
        return CallMatches(reason=f"PyTorch refuses it: {message}")
    return found


def plain_op(call: TorchCall) -> str:
    """PyTorch's name of the operation, also if ours replaces it."""
    return f"aten::{call.signature.name}"


def _device_of(call: TorchCall) -> Device:
    """The device of a call; a CPU has as many threads as PyTorch uses."""
    if call.gpu is None:
        return cpu.detect(min(call.threads, len(cpu.usable_cores())))
    return find_gpu(f"cuda:{max(call.gpu, 0)}")[2]


def _first_proposal(problem: Problem, device: Device) -> OurKernel | None:
    """The first proposal of the most promising solver, built; None if there is none."""
    for solver in solvers_for(problem, device):
        space = solver.space(problem, device)
        for config in space.promising(1) if isinstance(space, Promising) else ():
            named = dict(config)
            found = lookup(problem.key, device=device.name, solver=solver.name, config=named)
            if isinstance(found, OurKernel):
                return found
    return None


def _status(before: object, found: object) -> TorchStatus:
    """The effect of a search on the user bank."""
    if before is None:
        return TorchStatus.APPEND if isinstance(found, OurKernel) else TorchStatus.RESERVED
    if isinstance(before, OurKernel) and isinstance(found, OurKernel):
        return TorchStatus.RESERVED if before.digest == found.digest else TorchStatus.UPDATE
    return TorchStatus.RESERVED if type(before) is type(found) else TorchStatus.UPDATE


def _joined(statuses: Sequence[TorchStatus]) -> TorchStatus:
    """The status of a call with several problems: the most significant one."""
    order = [
        *(TorchStatus.FAILED, TorchStatus.UPDATE, TorchStatus.APPEND, TorchStatus.RESERVED),
        *(TorchStatus.HIT, TorchStatus.VENDOR),
    ]
    return min(statuses, key=order.index)
