"""States of the hook as the benchmarks of PyTorch bring them about, and what its report counts."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import skipjack.torch
from skipjack.settings import SYSTEM_DIR, USER_DIR

Record = dict[str, Any]


def undone() -> None:
    """PyTorch as it is without Skipjack."""
    skipjack.torch.disable()


def enabled(**options: Any) -> Callable[[], None]:
    """A state in which the hook is enabled with these options of `skipjack.torch.enable`."""

    def enter() -> None:
        skipjack.torch.disable()
        skipjack.torch.enable(**options)

    return enter


def calls_during(step: Callable[[], object]) -> Record:
    """What the hook saw in a step whose calls were decided about before.

    Calls, those that our kernels computed, the same by operation, kinds of calls, and kinds that
    have a kernel of ours.
    """
    before = _counted()
    step()
    kinds, kernels, ops = 0, 0, defaultdict[str, dict[str, int]](lambda: {"calls": 0, "hits": 0})
    for kind, counts in _counted().items():
        hits, calls = (
            now - then for now, then in zip(counts, before.get(kind, (0, 0)), strict=True)
        )
        if calls:
            kinds, kernels = kinds + 1, kernels + bool(hits)
            ops[kind[0]]["calls"] += calls
            ops[kind[0]]["hits"] += hits
    total = {name: sum(seen[name] for seen in ops.values()) for name in ("calls", "hits")}
    return {**total, "kinds": kinds, "kernels": kernels, "ops": dict(ops)}


def _counted() -> dict[tuple[str, str, str], tuple[int, int]]:
    """Hits and calls so far, of each kind of call, whatever PyTorch's switches were."""
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for one in skipjack.torch.report().calls:
        kind = one.decision.op, one.decision.description, one.decision.device
        hits, calls = found.get(kind, (0, 0))
        found[kind] = hits + one.our_calls, calls + one.our_calls + one.torch_calls
    return found


def decided() -> dict[str, str]:
    """What computes each kind of call: PyTorch, or a kernel of ours and which."""
    return {
        f"{one.decision.op} {one.decision.description} on {one.decision.device}": (
            f"{one.decision.solver} {one.decision.kernel}" if one.decision.is_ours else "torch"
        )
        for one in skipjack.torch.report().calls
    }


@contextlib.contextmanager
def no_banks() -> Iterator[Path]:
    """An empty user directory, which goes away, and no bank that comes with Skipjack."""
    with tempfile.TemporaryDirectory(prefix="skipjack-bench-") as directory:
        user, system = Path(directory) / "user", Path(directory) / "system"
        user.mkdir()
        system.mkdir()
        kept = {name: os.environ.get(name) for name in (USER_DIR.name, SYSTEM_DIR.name)}
        os.environ |= {USER_DIR.name: str(user), SYSTEM_DIR.name: str(system)}
        try:
            yield user
        finally:
            for name, value in kept.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
