"""Tuned kernels under PyTorch's operations, for programs that need not know of it."""

from __future__ import annotations

from skipjack.integrations.torch.decisions import TorchDecision, TorchStatus

__all__ = ["TorchDecision", "TorchStatus"]
