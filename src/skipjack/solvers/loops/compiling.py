"""From LLVM IR text to object code: the last step of every solver here."""

from __future__ import annotations

from skipjack.core.device import Device
from skipjack.native import llvm
from skipjack.native.cpu import target_of
from skipjack.solvers.solver import Blob, Solver, Source


class LlvmSolver(Solver):
    """What solvers that write LLVM IR have in common."""

    def compiler(self) -> str:
        """LLVM."""
        return llvm.compiler_version()

    def source(self, text: str, device: Device) -> Source:
        """IR text for a device."""
        return Source(text, target_of(device), self.compiler())

    def compile(self, source: Source) -> Blob:
        """Object code."""
        data = llvm.compile_object(source.text, source.target)
        return Blob(data, source.symbol, resources={"object_bytes": float(len(data))})
