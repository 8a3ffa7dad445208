"""Decisions as the hook would make them."""

from __future__ import annotations

from skipjack.integrations.torch.outcomes import TorchDecision, TorchStatus


def decision(
    number: int = 0,
    status: TorchStatus = TorchStatus.HIT,
    *,
    searcher: str = "",
    is_ours: bool = True,
    before_ns: float | None = 2000.0,
    after_ns: float | None = 1000.0,
    rounds: tuple[tuple[float, str], ...] = (),
) -> TorchDecision:
    return TorchDecision(
        op="aten::mm",
        description=f"f32 {number}x8x8",
        problem=f"matmul:{number}x8x8",
        device="haswell/1",
        is_ours=is_ours,
        reason="it is faster",
        status=status,
        solver="gemm" if is_ours else "torch",
        searcher=searcher,
        before_ns=before_ns,
        after_ns=after_ns,
        rounds=rounds,
    )
