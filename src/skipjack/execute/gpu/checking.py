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
from skipjack.execute.gpu.torch_references import exact_output, exact_sums
from skipjack.execute.verification import (
    Reference,
    Verdict,
    digest_of_outputs,
    judge,
    make_references,
    storage_of,
)
from skipjack.gpu.driver import Gpu, GpuError
from skipjack.operations import get, outputs, tensors
from skipjack.operations.bounds import ErrorTerms, error_terms, without_overflow

log = logging.getLogger(__name__)

_TINY = float(np.finfo(np.float32).tiny)
_EXACT = 1e-9
"""What computing may lose where nothing is lost; whole numbers are off by 1 at least."""
_SECOND_SEED = 1
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
        self._whole: _WholeNumbers | None = None
        self._looked_for_whole = False

    def whole_numbers(self) -> _WholeNumbers | None:
        """The second check of products and convolutions, where PyTorch is and memory allows."""
        if not self._looked_for_whole:
            self._looked_for_whole = True
            if self._bridge and self._judged:
                self._whole = _WholeNumbers.make(self._gpu, self.problem, self._bridge)
                self._bridge.release()
        return self._whole

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
                out = self._outputs["out"]
                terms = error_terms(self.problem, out)
                storage = storage_of(self.problem, out)
                return _OnGpu(bridge, out, storage, terms, exact.reference, exact.magnitude)
        except GpuError as error:
            if not error.out_of_memory:
                raise
            log.info("the reference does not fit beside the arrays: %s", error)
            return None

    def elsewhere(self, offset: int) -> DeviceArrays:
        """Arrays that begin so many bytes behind an aligned address, as users' arrays may.

        The aligned ones where memory holds no second set.
        """
        if self._elsewhere is None:
            try:
                other = DeviceArrays(self._gpu, self.problem, tensors(self.problem), offset)
            except GpuError as error:
                if not error.out_of_memory:
                    raise
                log.info("arrays that are not aligned do not fit beside the others: %s", error)
                return self.arrays
            self._elsewhere = other
            other.copy_from(self.arrays)
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

    def output_digest(self) -> str:
        """Of what a run left in the outputs, as on the CPU."""
        return digest_of_outputs(
            {
                name: self.arrays.download(name, storage_of(self.problem, tensor))
                for name, tensor in self._outputs.items()
            }
        )

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
        whole = self._whole.arrays if self._whole else None
        for arrays in (self.arrays, self._pristine, self._elsewhere, whole):
            if arrays is not None:
                arrays.free()
        self._judged = self._whole = None
        if self._bridge:
            self._bridge.release()


class _WholeNumbers:
    """Products and convolutions of -1, 0 and 1: their sums are exact, and a lost term shows.

    With random inputs the bound grows with the length of a sum, and a kernel that leaves a few
    terms of a long one out stays within it.
    """

    def __init__(self, arrays: DeviceArrays, judge_: _OnGpu) -> None:
        self.arrays, self._judge = arrays, judge_

    @classmethod
    def make(cls, gpu: Gpu, problem: Problem, bridge: TorchBridge) -> _WholeNumbers | None:
        """None for what is no plain sum, and where there is too little memory."""
        out = get(problem.operation).output(problem)
        arrays: DeviceArrays | None = None
        try:
            arrays = DeviceArrays(gpu, problem, tensors(problem))
            inputs = Inputs(problem, _SECOND_SEED, whole=True)
            inputs.write(gpu, arrays)
            with bridge.working():
                held = bridge.tensors(arrays)
                exact = {name: held[name].double() for name in inputs.names}
                found = exact_sums(bridge.torch, problem, exact)
            if found is not None:
                terms = replace(error_terms(problem, out), computing=_EXACT)
                storage = storage_of(problem, out)
                return cls(arrays, _OnGpu(bridge, out, storage, terms, found, None))
        except GpuError as error:
            if not error.out_of_memory:
                raise
            log.info("there is no memory for a second check: %s", error)
        if arrays is not None:
            arrays.free()
        return None

    def verdict(self) -> Verdict:
        """Of a run on the arrays."""
        found = self._judge.verdict(self.arrays, 1.0)
        if found.right:
            return found
        return replace(found, reason=f"on whole numbers, whose sums are exact: {found.reason}")


class _OnGpu:
    """A result compared where it is. What is not plainly right goes to the host to be explained."""

    def __init__(
        self,
        bridge: TorchBridge,
        tensor: Tensor,
        storage: np.dtype[Any],
        terms: ErrorTerms,
        reference: Any,
        magnitude: Any | None,
    ) -> None:
        """Without a magnitude it is 1 everywhere."""
        self._bridge, self._tensor = bridge, tensor
        self._storage, self._terms = storage, terms
        self._reference = reference.reshape(-1).contiguous()
        self._magnitude = None if magnitude is None else magnitude.reshape(-1).contiguous()

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
        if self._magnitude is None:
            bound = self._bridge.torch.full_like(reference, terms.computing)
        else:
            bound = self._magnitude[piece].clamp(min=_TINY).mul_(terms.computing * slack)
        if terms.rounds:
            bound += reference.abs().mul_(terms.storing).add_(terms.least)
        error = result[piece].double().sub_(reference).abs_().div_(bound)
        worst = float(error.max())
        return worst if worst == worst else float("inf")

    def _explained(self, arrays: DeviceArrays, slack: float) -> Verdict:
        shape = self._tensor.shape
        reference = self._reference.cpu().numpy().reshape(shape)
        if self._magnitude is None:
            magnitude = np.ones(shape)
        else:
            magnitude = self._magnitude.cpu().numpy().reshape(shape)
        bound = self._terms.bound(reference, magnitude, slack)
        result = arrays.download(self._tensor.name, self._storage).astype(np.float64)
        if self._terms.rounds:
            result = without_overflow(result, reference, bound, self._storage)
        return judge(result, reference, bound)
