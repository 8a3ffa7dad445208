"""Kernels of ours as plans of calls, which native stubs follow."""

from skipjack.integrations.torch.plans.on_cpu import make_cpu_plan
from skipjack.integrations.torch.plans.on_gpu import make_gpu_plan

__all__ = ["make_cpu_plan", "make_gpu_plan"]
