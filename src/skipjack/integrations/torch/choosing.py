"""What is done with a call that is seen for the first time: our kernels, or PyTorch's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.core.space import Promising
from skipjack.errors import SkipjackError
from skipjack.gpu.opening import find_gpu
from skipjack.integrations.torch.abi import torch_abi
from skipjack.integrations.torch.calls import CallMatch, CallMatches, TorchCall
from skipjack.integrations.torch.decisions import TorchDecision, TorchStatus
from skipjack.integrations.torch.matching import match_call
from skipjack.integrations.torch.plans import make_cpu_plan, make_gpu_plan
from skipjack.integrations.torch.racing import (
    HookVerdict,
    HookVerdicts,
    VerdictSubject,
    judge,
    time_plainly,
    verdict_key,
    why_invalid,
)
from skipjack.integrations.torch.signatures import Signature
from skipjack.integrations.torch.table import CallTable, NativePlan, TableEntry
from skipjack.native import cpu
from skipjack.operations import get
from skipjack.runtime import (
    GpuKernel,
    TunedKernel,
    TuningPolicy,
    in_force,
    lookup,
    ranked_program,
    tuning_policy,
)
from skipjack.runtime.online import LATE, SearchAnswer, failure_of, is_asked_for, search_of
from skipjack.settings import load_settings
from skipjack.solvers import solvers_for

OFF, DB, REFRESH, EXHAUSTIVE, CLEAN = "off", "db", "refresh", "exhaustive", "clean"
_STARTING_S = 4.0
_RACE_S = 1.0
"""About how long the race of a kernel with PyTorch's may take."""


@dataclass(frozen=True, slots=True)
class HookOptions:
    """How calls are decided."""

    policy: TuningPolicy
    ops: tuple[str, ...] = ()
    """Names of operations of PyTorch or of ours; all without any."""
    force: bool = False
    """Whether our kernels run wherever there can be any, banked or not: for tests of numerics."""
    times_torch: bool = False
    """Whether PyTorch's kernel is timed where it has no rival, too: for dumps."""

    @property
    def wants_every_call(self) -> bool:
        """Whether calls are of interest for which there is no kernel."""
        policy = self.policy
        return policy.measures or policy.mode == CLEAN or self.force or self.times_torch

    def covers(self, name: str) -> bool:
        """Whether an operation of either name may have a kernel of ours."""
        return not self.ops or name.rpartition("::")[2] in self.ops


OurKernel = TunedKernel | GpuKernel


@dataclass(frozen=True, slots=True)
class _Found:
    """What is known of a problem."""

    kernel: OurKernel | None
    status: TorchStatus
    solver: str
    reason: str
    is_open: bool = False
    """Whether a search of it goes on."""
    search: SearchAnswer | None = None
    """What this process asked for, if it has ended."""


class CallChooser:
    """Decides about calls, for a table."""

    def __init__(
        self,
        table: CallTable,
        functions: Mapping[str, int],
        options: HookOptions,
        detours: Mapping[Signature, float],
    ) -> None:
        """`detours` are nanoseconds that calls take longer for the hook, where that is much."""
        self._table, self._functions, self.options = table, functions, options
        self._detours = detours
        self._has_searched = False

    def choose(self, call: TorchCall, entry: TableEntry) -> TorchDecision:
        """Set the entry, and tell why."""
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
            return "it is not among the operations to tune"
        if call.gpu is None and call.threads > len(cpu.usable_cores()):
            return f"PyTorch has {call.threads} threads, and there are fewer cores"
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
            reason = "its search is not done yet"
            timed = time_plainly(call) if self.options.policy.background else None
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
    ) -> HookVerdict:
        if not plans:
            return HookVerdict(None, 1.0, 0.0, None, "its kernels have too many arguments")
        if self.options.force:
            return HookVerdict(1, 1.0, 0.0, None, "forced")
        verdicts = HookVerdicts(load_settings().user_dir)
        code = [kernels[one].digest for one in sorted(kernels, key=lambda one: one.key)]
        key = verdict_key(
            [call.signature.full_name, entry.words, torch_abi().version, device.class_key, code]
        )
        known = verdicts.find(key)
        # Ranks of a program keep to what the first of them found.
        policy, is_rank = self.options.policy, ranked_program() is not None
        if known and (known.way or 0) <= len(plans):
            is_kept = not policy.measures or (known.is_sure and policy.mode != EXHAUSTIVE)
            if is_kept or is_rank:
                return known
        end = time.monotonic() + _RACE_S
        detour_ns = self._detours.get(call.signature, 0.0)
        found = judge(entry, plans, call, lambda: time.monotonic() > end, detour_ns)
        backend = call.signature.backend.value
        subject = VerdictSubject(plain_op(call), backend, torch_abi().version)
        return verdicts.put(key, found, subject, known)

    def _first_with_more_time(self, policy: TuningPolicy) -> TuningPolicy:
        """The first search also starts the processes that build and time."""
        if self._has_searched or policy.seconds is None:
            return policy
        self._has_searched = True
        return replace(policy, starting_s=_STARTING_S)

    def _waits(self, problem: Problem, device: Device, before: object) -> bool:
        """Whether it is searched in the background when its turn has come, which others decide."""
        in_background = self.options.policy.background and before is None
        return in_background and not is_asked_for(problem.key, device.name)

    def _find(self, problem: Problem, device: Device) -> _Found:
        """The kernel that banks have, after a search if the policy says so."""
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
                return _Found(None, TorchStatus.VENDOR, "torch", "its search has not begun", True)
            if before is None or policy.mode in (EXHAUSTIVE, REFRESH):
                with in_force(self._first_with_more_time(policy)):
                    found = lookup(problem.key, device=device.name, banks_only=True)
                status = _status(before, found)
            search = search_of(problem.key, device.name)
            if before is not None and (search is None or search.status == LATE):
                found, status = before, TorchStatus.HIT  # its search is not done, or never began
            if search is not None and search.searched and status is TorchStatus.HIT:
                status = _status(None, found)  # it ended after the call that asked for it
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
    """The ways to compute a call; none for one that PyTorch refuses, which is an error from now on.

    PyTorch's functions of C++ raise their errors themselves: they need not be tried where no kernel
    of ours can take their place. Trying takes milliseconds, and once 0.2 s to load what it needs.
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
    """PyTorch's name of what is called, also where a twin of ours stands in for it."""
    return f"aten::{call.signature.name}"


def _device_of(call: TorchCall) -> Device:
    """Where a call is computed, with as many threads as PyTorch has."""
    if call.gpu is None:
        return cpu.detect(min(call.threads, len(cpu.usable_cores())))
    return find_gpu(f"cuda:{max(call.gpu, 0)}")[2]


def _first_proposal(problem: Problem, device: Device) -> OurKernel | None:
    """What the most promising solver would try first, built; None if there is nothing."""
    for solver in solvers_for(problem, device):
        space = solver.space(problem, device)
        for config in space.promising(1) if isinstance(space, Promising) else ():
            named = dict(config)
            found = lookup(problem.key, device=device.name, solver=solver.name, config=named)
            if isinstance(found, OurKernel):
                return found
    return None


def _status(before: object, found: object) -> TorchStatus:
    """What a search did to the user bank."""
    if before is None:
        return TorchStatus.APPEND if isinstance(found, OurKernel) else TorchStatus.RESERVED
    if isinstance(before, OurKernel) and isinstance(found, OurKernel):
        return TorchStatus.RESERVED if before.digest == found.digest else TorchStatus.UPDATE
    return TorchStatus.RESERVED if type(before) is type(found) else TorchStatus.UPDATE


def _joined(statuses: Sequence[TorchStatus]) -> TorchStatus:
    """Of a call that is several problems: what happened most."""
    order = [
        *(TorchStatus.FAILED, TorchStatus.UPDATE, TorchStatus.APPEND, TorchStatus.RESERVED),
        *(TorchStatus.HIT, TorchStatus.VENDOR),
    ]
    return min(statuses, key=order.index)
