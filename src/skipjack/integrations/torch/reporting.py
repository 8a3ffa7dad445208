"""What became of a program's calls: who computed them, and how much time that saved."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from skipjack.integrations.torch.decisions import TorchDecision
from skipjack.integrations.torch.hook import existing_hook

_ROWS = 20


@dataclass(frozen=True, slots=True)
class CallCounts:
    """A kind of call, and how often it was made."""

    decision: TorchDecision
    our_calls: int
    torch_calls: int

    @property
    def saved_ns(self) -> float:
        """By calls of our kernel, as timed when it raced PyTorch's."""
        one = self.decision
        if one.before_ns is None or one.after_ns is None:
            return 0.0
        return self.our_calls * (one.before_ns - one.after_ns)


@dataclass(frozen=True, slots=True)
class TorchReport:
    """All calls of the hooked operations so far; printing it gives a table."""

    calls: tuple[CallCounts, ...]
    calls_without_entry: int = 0
    left_alone: tuple[str, ...] = ()
    """Operations that are not hooked because kernels gain less than the detour costs."""

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
        """As plain JSON values."""
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
            lines.append(f"  not hooked: {names} (kernels gain less than the detour costs)")
        return "\n".join(lines)


def _plain(decision: TorchDecision) -> dict[str, Any]:
    return asdict(decision) | {"status": str(decision.status)}


def report() -> TorchReport:
    """What became of the calls of this process so far."""
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
