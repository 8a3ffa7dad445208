"""Tuned kernels under PyTorch's operations.

>>> import skipjack.torch
>>> skipjack.integrations.torch.activation.enable()  # doctest: +SKIP
>>> print(skipjack.integrations.torch.activation.report())  # doctest: +SKIP
"""

from skipjack.integrations.torch import TorchReport, autotune, disable, enable, is_enabled, report

__all__ = ["TorchReport", "autotune", "disable", "enable", "is_enabled", "report"]
