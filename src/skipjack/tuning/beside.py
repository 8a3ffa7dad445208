"""Gains that are told beside a verdict and decide nothing: over plain loops, and as called."""

from __future__ import annotations

from collections.abc import Mapping

from skipjack.execute.confirm import confirm
from skipjack.execute.session import Loadable
from skipjack.execute.statistics import Ratio
from skipjack.solvers import find_solver
from skipjack.solvers.solver import NativeVendorSolver, VendorSolver
from skipjack.tuning.evaluator import LoadedCandidate
from skipjack.tuning.result import LONG_CALL_NS
from skipjack.tuning.study_run import StudyRun

_PAIRS = 10


class Beside:
    """Times one kernel beside others, for a person to read."""

    def __init__(self, run: StudyRun, best: LoadedCandidate) -> None:
        self._run, self._best = run, best

    def untuned(self, plain: LoadedCandidate | None) -> Ratio | None:
        """The gain over plain loops; None where they are not asked for."""
        if plain is None or plain.cut_short:
            return None
        if plain.kernel == self._best.kernel:
            return Ratio(1.0, 1.0, 1.0)
        return self._gain(self._best.kernel, plain.kernel)

    def as_called(self, vendors: Mapping[str, LoadedCandidate]) -> Ratio | None:
        """The gain over a library that is called from Python, for who calls both from Python.

        The library writes into an array that is there (``out=``), and the kernel was bound to its
        arrays. None where calls are long, on GPUs, and where no library is called from Python.
        """
        context, best = self._run.context, self._best
        library = next((loaded for name, loaded in vendors.items() if _from_python(name)), None)
        if context.device.kind != "cpu" or library is None or library.cut_short:
            return None
        if not best.artifact_digest or best.time_ns > LONG_CALL_NS:
            return None
        data = context.artifacts.get(best.artifact_digest)
        code = Loadable(data, best.artifact_digest, best.symbol, best.abi, best.slots, called=True)
        return self._gain(context.session.add(code), library.kernel)

    def _gain(self, kernel: int, rival: int) -> Ratio | None:
        confirmed = confirm(
            self._run.context.session,
            kernel,
            [rival],
            _PAIRS,
            self._run.limit.over,
            self._run.context.clock,
        )
        return confirmed.gains.get(rival)


def _from_python(name: str) -> bool:
    solver = find_solver(name)
    return isinstance(solver, VendorSolver) and not isinstance(solver, NativeVendorSolver)
