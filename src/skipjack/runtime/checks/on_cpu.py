"""Verifying kernels for this CPU: they run in this process, on random inputs."""

from __future__ import annotations

from functools import cached_property

from skipjack.core.problem import Problem
from skipjack.execute.verification import Checker
from skipjack.operations import MEMORY_SHARE, arrays_bytes, get, outputs
from skipjack.runtime.kernel import TunedKernel


class KernelVerifier:
    """Of one problem: what its kernels are compared with is computed once."""

    def __init__(self, problem: Problem, memory_bytes: int) -> None:
        self._problem, self._memory_bytes = problem, memory_bytes

    def fault(self, kernel: TunedKernel, slack: float) -> str:
        """Why a kernel is not right, on arrays that are aligned or not; empty if it is."""
        memory = self._memory_bytes
        if memory and arrays_bytes(self._problem) > MEMORY_SHARE * memory:
            return "its arrays are too large to check it here"
        return self._fault_on(self._aligned, kernel, slack) or self._fault_on(
            self._elsewhere, kernel, slack
        )

    @cached_property
    def _aligned(self) -> Checker:
        return Checker(self._problem)

    @cached_property
    def _elsewhere(self) -> Checker:
        return self._aligned.elsewhere()

    def _fault_on(self, checker: Checker, kernel: TunedKernel, slack: float) -> str:
        problem = self._problem
        checker.prepare()
        inputs = [checker.arrays[tensor.name] for tensor in get(problem.operation).inputs(problem)]
        out = {tensor.name: checker.arrays[tensor.name] for tensor in outputs(problem)}
        kernel.bind(*inputs, out=out)()
        verdict = checker.verdict(slack)
        return "" if verdict.right else verdict.reason
