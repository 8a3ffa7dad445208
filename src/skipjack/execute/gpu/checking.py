"""Is the result right? As on the CPU, with arrays, guards and the comparison on the GPU.

Where PyTorch is, the whole reference is computed on the GPU in float64 and results are judged
there: only the verdict comes to the host. Elsewhere, and for the few operations that PyTorch has no
words for, it is the host's reference.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np

from skipjack.core.nest import Tensor
from skipjack.core.problem import Problem
from skipjack.execute.gpu.arrays import DeviceArrays
from skipjack.execute.gpu.inputs import Inputs
from skipjack.execute.gpu.torch_bridge import TorchBridge
from skipjack.execute.gpu.torch_references import exact_output
from skipjack.execute.verification import (
    Reference,
    Verdict,
    judge,
    make_references,
    storage_of,
)
from skipjack.gpu.driver import Gpu, GpuError
from skipjack.operations import get, outputs, tensors
from skipjack.operations.bounds import ErrorTerms, error_terms, without_overflow

log = logging.getLogger(__name__)

_TINY = float(np.finfo(np.float32).tiny)
_PIECE = 1 << 26
"""Elements that are judged at a time."""


class GpuChecker:
    """Checks kernels of one problem on arrays of its own. The reference is computed once."""

    def __init__(
        self, gpu: Gpu, problem: Problem, bridge: TorchBridge | None, seed: int = 0
    ) -> None:
        self._gpu, self._bridge, self.problem = gpu, bridge, problem
        self._outputs = {tensor.name: tensor for tensor in outputs(problem)}
        # Memory first: drawing inputs that do not fit would take long.
        self.arrays = DeviceArrays(gpu, problem, tensors(problem))
        try:
            self._pristine = DeviceArrays(gpu, problem, get(problem.operation).inputs(problem))
        except GpuError:
            self.arrays.free()
            raise
        self._inputs = Inputs(problem, seed)
        self._inputs.write(gpu, self.arrays)
        self._pristine.copy_from(self.arrays)
        self._judged = self._judge_on_gpu() if bridge else None
        if bridge:
            bridge.release()
        self._references: dict[str, Reference] = {}
        if self._judged is None:
            inputs = self._inputs.on_host
            exact = {name: array.astype(np.float64) for name, array in inputs.items()}
            self._references = make_references(problem, exact)
        self._elsewhere: DeviceArrays | None = None

    def _judge_on_gpu(self) -> _OnGpu | None:
        bridge = self._bridge
        if bridge is None or list(self._outputs) != ["out"]:
            return None
        try:
            with bridge.working():
                inputs = {
                    name: tensor.double() for name, tensor in bridge.tensors(self._pristine).items()
                }
                exact = exact_output(bridge.torch, self.problem, inputs)
                if exact is None:
                    return None
                return _OnGpu(bridge, self.problem, self._outputs["out"], exact)
        except GpuError as error:
            if not error.out_of_memory:
                raise
            log.info("the reference does not fit beside the arrays: %s", error)
            return None

    def elsewhere(self, offset: int) -> DeviceArrays:
        """Arrays that begin so many bytes behind an aligned address, as users' arrays may."""
        if self._elsewhere is None:
            self._elsewhere = DeviceArrays(self._gpu, self.problem, tensors(self.problem), offset)
            self._elsewhere.copy_from(self.arrays)
        return self._elsewhere

    def prepare(self, arrays: DeviceArrays) -> None:
        """Poison the outputs before a run."""
        arrays.poison(list(self._outputs))
        self._gpu.synchronize()

    def verdict(self, arrays: DeviceArrays, slack: float = 1.0) -> Verdict:
        """Judge what a run left behind; `slack` is how many times the tolerance is allowed."""
        around = arrays.strayed()
        if around:
            return Verdict(False, f"wrote outside of {around}", stray=True)
        changed = self._changed(arrays)
        if changed:
            self._inputs.write(self._gpu, arrays)
            return Verdict(False, f"changed its input {changed}")
        if self._judged is not None:
            return self._judged.verdict(arrays, slack)
        worst = 0.0
        for name, reference in self._references.items():
            result = arrays.download(name, storage_of(self.problem, self._outputs[name]))
            verdict = reference.compare(result, slack)
            if not verdict.right:
                where = f"{name}: " if len(self._outputs) > 1 else ""
                return replace(verdict, reason=where + verdict.reason)
            worst = max(worst, verdict.error)
        return Verdict(True, error=worst)

    def _changed(self, arrays: DeviceArrays) -> str:
        """The first input that is not what it was."""
        for name in self._inputs.names:
            if not self._same(arrays, name):
                return name
        return ""

    def _same(self, arrays: DeviceArrays, name: str) -> bool:
        size = arrays.sizes[name]
        if self._bridge:
            with self._bridge.working():
                now = self._bridge.bytes_at(arrays.addresses[name], size)
                before = self._bridge.bytes_at(self._pristine.addresses[name], size)
                return bool(self._bridge.torch.equal(now, before))
        return arrays.raw(name).tobytes() == self._inputs.on_host[name].tobytes()

    def free(self) -> None:
        """Give all memory back."""
        for arrays in (self.arrays, self._pristine, self._elsewhere):
            if arrays is not None:
                arrays.free()
        self._judged = None
        if self._bridge:
            self._bridge.release()


class _OnGpu:
    """A result compared where it is. What is not plainly right goes to the host to be explained."""

    def __init__(self, bridge: TorchBridge, problem: Problem, tensor: Tensor, exact: Any) -> None:
        self._bridge, self._tensor = bridge, tensor
        self._storage = storage_of(problem, tensor)
        self._terms: ErrorTerms = error_terms(problem, tensor)
        self._reference = exact.reference.reshape(-1).contiguous()
        self._magnitude = exact.magnitude.reshape(-1).contiguous()

    def verdict(self, arrays: DeviceArrays, slack: float) -> Verdict:
        with self._bridge.working():
            result = self._bridge.tensors(arrays)[self._tensor.name].reshape(-1)
            worst = max(
                self._worst(slice(at, at + _PIECE), result, slack)
                for at in range(0, result.numel(), _PIECE)
            )
        if worst <= 1.0:
            return Verdict(True, error=worst)
        return self._explained(arrays, slack)

    def _worst(self, piece: slice, result: Any, slack: float) -> float:
        """The largest error in units of its bound; infinite where something is not a number."""
        reference = self._reference[piece]
        terms = self._terms
        bound = self._magnitude[piece].clamp(min=_TINY).mul_(terms.computing * slack)
        if terms.rounds:
            bound += reference.abs().mul_(terms.storing).add_(terms.least)
        error = result[piece].double().sub_(reference).abs_().div_(bound)
        worst = float(error.max())
        return worst if worst == worst else float("inf")

    def _explained(self, arrays: DeviceArrays, slack: float) -> Verdict:
        shape = self._tensor.shape
        reference = self._reference.cpu().numpy().reshape(shape)
        magnitude = self._magnitude.cpu().numpy().reshape(shape)
        bound = self._terms.bound(reference, magnitude, slack)
        result = arrays.download(self._tensor.name, self._storage).astype(np.float64)
        if self._terms.rounds:
            result = without_overflow(result, reference, bound, self._storage)
        return judge(result, reference, bound)
