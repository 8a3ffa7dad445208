"""Tuned kernels under PyTorch's operations.

>>> import skipjack.torch
>>> skipjack.torch.enable()  # doctest: +SKIP
>>> print(skipjack.torch.report())  # doctest: +SKIP
"""

from skipjack.integrations.torch import (
    TorchReport,
    autotune,
    disable,
    enable,
    is_enabled,
    report,
)

__all__ = ["TorchReport", "autotune", "disable", "enable", "is_enabled", "report"]
