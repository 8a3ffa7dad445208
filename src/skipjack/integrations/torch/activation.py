"""Turning the hook on and off, and a report of what it did."""

from __future__ import annotations

import atexit
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from skipjack.integrations.mindspore import auto_tune_mode
from skipjack.integrations.torch.hook import TorchHook, existing_hook, torch_hook
from skipjack.integrations.torch.outcomes import (
    CallKey,
    ResultRequest,
    TorchDecision,
    call_key,
    keep_results,
    kept_results,
)
from skipjack.integrations.torch.program_dump import dump_program
from skipjack.integrations.torch.selection import HookOptions
from skipjack.integrations.torch.stubs import why_unknown
from skipjack.runtime.dumps import dump_folder
from skipjack.runtime.process import POLICY_ARGUMENTS, TuningPolicy, make_policy
from skipjack.settings import TUNE_RESULT

# A report of a program's calls: which kernels computed them, and the time saved.

_ROWS = 20


@dataclass(frozen=True, slots=True)
class CallCounts:
    """A kind of call and its counts."""

    decision: TorchDecision
    our_calls: int
    torch_calls: int

    @property
    def saved_ns(self) -> float:
        """The time saved by our kernel, as measured in its race against PyTorch's."""
        one = self.decision
        if one.before_ns is None or one.after_ns is None:
            return 0.0
        return self.our_calls * (one.before_ns - one.after_ns)


@dataclass(frozen=True, slots=True)
class TorchReport:
    """All calls of the hooked operations so far; its text is a table."""

    calls: tuple[CallCounts, ...]
    calls_without_entry: int = 0
    left_alone: tuple[str, ...] = ()
    """Operations that are not hooked because kernels save less than the hook costs."""

    @property
    def hits(self) -> int:
        """Calls that our kernels computed."""
        return sum(one.our_calls for one in self.calls)

    @property
    def misses(self) -> int:
        """Calls that PyTorch's kernels computed."""
        return sum(one.torch_calls for one in self.calls) + self.calls_without_entry

    @property
    def saved_s(self) -> float:
        """Seconds that our kernels saved."""
        return sum(one.saved_ns for one in self.calls) * 1e-9

    def record(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            "format": 1,
            "hits": self.hits,
            "misses": self.misses,
            "saved_s": round(self.saved_s, 6),
            "left_alone": list(self.left_alone),
            "calls": [
                {**_plain(one.decision), "our_calls": one.our_calls, "torch_calls": one.torch_calls}
                for one in self.calls
            ],
        }

    def __str__(self) -> str:
        total = self.hits + self.misses
        lines = [
            f"{self.hits:,} of {total:,} calls by tuned kernels, {self.saved_s:.3f} s saved"
            if total
            else "no call of a hooked operation so far"
        ]
        ordered = sorted(self.calls, key=lambda one: (-one.saved_ns, -one.torch_calls))
        width = max((len(one.decision.op) for one in ordered[:_ROWS]), default=0)
        for one in ordered[:_ROWS]:
            by, calls = (
                ("ours", one.our_calls) if one.decision.is_ours else ("torch", one.torch_calls)
            )
            lines.append(
                f"  {one.decision.op:<{width}} {by:<5} {calls:>8,}  {one.decision.description}"
                f"  ({one.decision.reason})"
            )
        if len(ordered) > _ROWS:
            lines.append(f"  and {len(ordered) - _ROWS} further kinds of calls")
        if self.left_alone:
            names = ", ".join(self.left_alone)
            lines.append(f"  not hooked: {names} (kernels save less than the hook costs)")
        return "\n".join(lines)


def _plain(decision: TorchDecision) -> dict[str, Any]:
    return asdict(decision) | {"status": str(decision.status)}


def report() -> TorchReport:
    """The report of this process so far."""
    hook = existing_hook()
    if hook is None:
        return TorchReport(())
    entries = hook.table.entries
    return TorchReport(
        tuple(
            CallCounts(decision, entries[words].our_calls, entries[words].torch_calls)
            for words, decision in list(hook.decisions.items())
        ),
        hook.table.calls_without_entry,
        hook.left_alone,
    )


# Turning the hook on and off.

log = logging.getLogger(__name__)

_at_exit = False
_options: HookOptions | None = None
"""The options that the hook was last enabled with."""


def enable(
    policy: str | int = "db",
    *,
    seconds: float | None = None,
    background: bool = False,
    regret: float | str | None = None,
    ops: Sequence[str] | None = None,
    force: bool = False,
    searchers: Mapping[str, str] | None = None,
) -> None:
    """Use tuned kernels for PyTorch's operations in this process, where they are faster.

    `policy`, `seconds`, `background`, `regret` and `searchers` are as for
    `skipjack.tuning_policy`. `ops` names the operations that may use our kernels, by default all.
    With `force` they use them even if they are not faster. `UsageError` if PyTorch is missing or
    too old.

    With ``ENABLE_TUNE_DUMP=True`` in the environment, the program is dumped, and nothing is
    searched, whatever the policy.
    """
    global _at_exit, _options
    chosen = make_policy(
        *(policy, searchers),
        seconds=seconds,
        background=background,
        regret=regret,
        names=POLICY_ARGUMENTS | {"mode": "the argument policy"},
    )
    names = _named(ops)
    folder = dump_folder()
    if folder:
        chosen = make_policy("db")
    hook = torch_hook()
    if chosen.measures:
        from skipjack.runtime.online import tuning_process

        tuning_process().warm()
    _tell(hook, chosen)
    _options = HookOptions(chosen, names, force, times_torch=folder is not None)
    hook.install(_options)
    if not _at_exit:
        _at_exit = True
        atexit.register(disable)
    if folder:
        dump_program(folder, names)


def _named(ops: Sequence[str] | None) -> tuple[str, ...]:
    """Names without their namespace; an unknown one causes a warning and covers no call."""
    given = (ops,) if isinstance(ops, str) else tuple(ops or ())
    names = tuple(one.rpartition("::")[2] for one in given)
    for name in names:
        if sentence := why_unknown(name):
            log.warning("%s", sentence)
    return names


def _tell(hook: TorchHook, policy: TuningPolicy) -> None:
    """Send the hook's decisions to the result file, if one is requested."""
    results = kept_results()
    if results is None and TUNE_RESULT.text() != "1":
        return
    wish = ResultRequest(policy.mode, auto_tune_mode(policy.searchers), results is None)
    results = keep_results(wish)
    if results.take not in hook.listeners:
        hook.listeners.append(results.take)
        results.count_calls(_counts)


def _counts() -> Mapping[CallKey, int]:
    counts: Counter[CallKey] = Counter()
    for one in report().calls:
        counts[call_key(one.decision)] += one.our_calls + one.torch_calls
    return counts


def disable() -> None:
    """Use only PyTorch's own kernels again."""
    if hook := existing_hook():
        hook.uninstall()


def is_enabled() -> bool:
    """Whether tuned kernels may compute PyTorch's operations."""
    hook = existing_hook()
    return hook is not None and hook.is_installed


@contextmanager
def autotune(
    policy: str | int = "db",
    *,
    seconds: float | None = None,
    background: bool = False,
    regret: float | str | None = None,
    ops: Sequence[str] | None = None,
    force: bool = False,
) -> Iterator[None]:
    """``with autotune("incremental"):`` enables the hook inside, for all threads of the process.

    If it is enabled already, its previous options are restored when the block ends.
    """
    before = _options if is_enabled() else None
    enable(policy, seconds=seconds, background=background, regret=regret, ops=ops, force=force)
    try:
        yield
    finally:
        if before is None:
            disable()
        else:
            _enable_again(before)


def _enable_again(options: HookOptions) -> None:
    global _options
    _options = options
    hook = torch_hook()
    _tell(hook, options.policy)
    hook.install(options)
