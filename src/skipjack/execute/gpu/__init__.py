"""The run worker of a GPU: arrays in its memory, kernels from artifacts, checks, timing."""

from skipjack.execute.gpu.arguments import packed
from skipjack.execute.gpu.kernel import LoadedKernel, Queue, checked_artifact, hidden_scratch

__all__ = ["LoadedKernel", "Queue", "checked_artifact", "hidden_scratch", "packed"]
