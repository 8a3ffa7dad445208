"""Is the result right? As on the CPU, with arrays, guards and the comparison on the GPU.

With PyTorch, the full reference is computed on the GPU in float64 and results are checked there:
only the verdict is sent to the host. Without PyTorch, and for the few operations that it does not
have, the reference is the host's.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np

from skipjack.core import Problem, Tensor
from skipjack.execute.gpu.arrays import DeviceArrays, Inputs
from skipjack.execute.gpu.torch_bridge import TorchBridge, exact_output, exact_sums
from skipjack.execute.verification import (
    Reference,
    Verdict,
    digest_of_outputs,
    judge,
    make_references,
    storage_of,
)
from skipjack.gpu import Gpu, GpuError
from skipjack.operations import ErrorTerms, error_terms, get, outputs, tensors, without_overflow

log = logging.getLogger(__name__)

_TINY = float(np.finfo(np.float32).tiny)
_EXACT = 1e-9
"""The tolerance for sums of whole numbers, which are exact, or off by 1 at least."""
_SECOND_SEED = 1
_PIECE = 1 << 26
"""Elements that are checked at a time."""


class GpuChecker:
    """Checks kernels of one problem on arrays of its own. The reference is computed once."""

    def __init__(
        self, gpu: Gpu, problem: Problem, bridge: TorchBridge | None, seed: int = 0
    ) -> None:
        self._gpu, self._bridge, self.problem = gpu, bridge, problem
        self._outputs = {tensor.name: tensor for tensor in outputs(problem)}
        # Allocate first: drawing inputs that do not fit would take long.
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
        self._unaligned: DeviceArrays | None = None
        self._whole: _WholeNumbers | None = None
        self._looked_for_whole = False

    def whole_numbers(self) -> _WholeNumbers | None:
        """The second check of products and convolutions, if there is PyTorch and enough memory."""
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
            log.info("the reference does not fit into memory with the arrays: %s", error)
            return None

    def unaligned(self, offset: int) -> DeviceArrays:
        """Arrays that begin `offset` bytes behind an aligned address, as users' arrays may.

        The aligned arrays if no second set fits into memory.
        """
        if self._unaligned is None:
            try:
                other = DeviceArrays(self._gpu, self.problem, tensors(self.problem), offset)
            except GpuError as error:
                if not error.out_of_memory:
                    raise
                log.info("unaligned arrays do not fit into memory with the others: %s", error)
                return self.arrays
            self._unaligned = other
            other.copy_from(self.arrays)
        return self._unaligned

    def prepare(self, arrays: DeviceArrays) -> None:
        """Poison the outputs before a run."""
        arrays.poison(list(self._outputs))
        self._gpu.synchronize()

    def verdict(self, arrays: DeviceArrays, tolerance_factor: float = 1.0) -> Verdict:
        """Check the arrays after a run; `tolerance_factor` multiplies the tolerance."""
        around = arrays.strayed()
        if around:
            return Verdict(False, f"wrote outside of {around}", stray=True)
        changed = self._changed(arrays)
        if changed:
            self._inputs.write(self._gpu, arrays)
            return Verdict(False, f"changed its input {changed}")
        if self._judged is not None:
            return self._judged.verdict(arrays, tolerance_factor)
        worst = 0.0
        for name, reference in self._references.items():
            result = arrays.download(name, storage_of(self.problem, self._outputs[name]))
            verdict = reference.compare(result, tolerance_factor)
            if not verdict.right:
                where = f"{name}: " if len(self._outputs) > 1 else ""
                return replace(verdict, reason=where + verdict.reason)
            worst = max(worst, verdict.error)
        return Verdict(True, error=worst)

    def output_digest(self) -> str:
        """The digest of the outputs after a run, as on the CPU."""
        return digest_of_outputs(
            {
                name: self.arrays.download(name, storage_of(self.problem, tensor))
                for name, tensor in self._outputs.items()
            }
        )

    def _changed(self, arrays: DeviceArrays) -> str:
        """The first input that was changed; empty if none was."""
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
        """Free all memory."""
        whole = self._whole.arrays if self._whole else None
        for arrays in (self.arrays, self._pristine, self._unaligned, whole):
            if arrays is not None:
                arrays.free()
        self._judged = self._whole = None
        if self._bridge:
            self._bridge.release()


class _WholeNumbers:
    """Products and convolutions of -1, 0 and 1: their sums are exact, so a missing term is found.

    With random inputs the bound grows with the length of a sum, and a kernel that leaves out a few
    terms of a long sum stays within it.
    """

    def __init__(self, arrays: DeviceArrays, judge_: _OnGpu) -> None:
        self.arrays, self._judge = arrays, judge_

    @classmethod
    def make(cls, gpu: Gpu, problem: Problem, bridge: TorchBridge) -> _WholeNumbers | None:
        """None for operations that are not plain sums, and if there is too little memory."""
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
            log.info("too little memory for a second check: %s", error)
        if arrays is not None:
            arrays.free()
        return None

    def verdict(self) -> Verdict:
        """Check the arrays after a run."""
        found = self._judge.verdict(self.arrays, 1.0)
        if found.right:
            return found
        return replace(found, reason=f"on whole numbers, whose sums are exact: {found.reason}")


class _OnGpu:
    """Compares results on the GPU. A wrong result is explained on the host."""

    def __init__(
        self,
        bridge: TorchBridge,
        tensor: Tensor,
        storage: np.dtype[Any],
        terms: ErrorTerms,
        reference: Any,
        magnitude: Any | None,
    ) -> None:
        """Without a magnitude, it is 1 for all elements."""
        self._bridge, self._tensor = bridge, tensor
        self._storage, self._terms = storage, terms
        self._reference = reference.reshape(-1).contiguous()
        self._magnitude = None if magnitude is None else magnitude.reshape(-1).contiguous()

    def verdict(self, arrays: DeviceArrays, tolerance_factor: float) -> Verdict:
        with self._bridge.working():
            result = self._bridge.tensors(arrays)[self._tensor.name].reshape(-1)
            worst = max(
                self._worst(slice(at, at + _PIECE), result, tolerance_factor)
                for at in range(0, result.numel(), _PIECE)
            )
        if worst <= 1.0:
            return Verdict(True, error=worst)
        return self._explained(arrays, tolerance_factor)

    def _worst(self, piece: slice, result: Any, tolerance_factor: float) -> float:
        """The largest error in units of its bound; infinite if an element is not a number."""
        reference = self._reference[piece]
        terms = self._terms
        if self._magnitude is None:
            bound = self._bridge.torch.full_like(reference, terms.computing)
        else:
            bound = self._magnitude[piece].clamp(min=_TINY).mul_(terms.computing * tolerance_factor)
        if terms.rounds:
            bound += reference.abs().mul_(terms.storing).add_(terms.least)
        error = result[piece].double().sub_(reference).abs_().div_(bound)
        worst = float(error.max())
        return worst if worst == worst else float("inf")

    def _explained(self, arrays: DeviceArrays, tolerance_factor: float) -> Verdict:
        shape = self._tensor.shape
        reference = self._reference.cpu().numpy().reshape(shape)
        if self._magnitude is None:
            magnitude = np.ones(shape)
        else:
            magnitude = self._magnitude.cpu().numpy().reshape(shape)
        bound = self._terms.bound(reference, magnitude, tolerance_factor)
        result = arrays.download(self._tensor.name, self._storage).astype(np.float64)
        if self._terms.rounds:
            result = without_overflow(result, reference, bound, self._storage)
        return judge(result, reference, bound)
