"""What all generators of LLVM IR for CPUs share.

`kernel` writes the entry of a kernel: its slots, the task of one thread, integer arithmetic,
stores past the caches. `lanes` is a notation for arithmetic on vectors; `functions` writes exp,
log, gelu and others in it; `expressions` evaluates trees of scalar operations and reduces lanes.
`panels` packs blocks of matrices and transposes tiles in registers. `stages` composes a kernel of
several stages, and has the base classes of the solvers.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.solvers.cpu.ir.expressions import (
        Leaf,
        combine,
        contiguous_runs,
        evaluated,
        identity,
        larger,
        reduced_lanes,
        step,
    )
    from skipjack.solvers.cpu.ir.functions import exp_nonpositive
    from skipjack.solvers.cpu.ir.kernel import (
        KERNEL,
        WholeNumberWriter,
        run_on_pool,
        run_or_call,
        run_task,
        share,
        share_with_tail,
        slot,
        store_or_stream,
        stream_alignments,
        streamed_if_aligned,
        task_signature,
    )
    from skipjack.solvers.cpu.ir.panels import packing_function, transpose
    from skipjack.solvers.cpu.ir.stages import IRStage, LlvmSolver, Part, Rounds, StagedSolver

__all__ = [
    "KERNEL",
    "IRStage",
    "Leaf",
    "LlvmSolver",
    "Part",
    "Rounds",
    "StagedSolver",
    "WholeNumberWriter",
    "combine",
    "contiguous_runs",
    "evaluated",
    "exp_nonpositive",
    "identity",
    "larger",
    "packing_function",
    "reduced_lanes",
    "run_on_pool",
    "run_or_call",
    "run_task",
    "share",
    "share_with_tail",
    "slot",
    "step",
    "store_or_stream",
    "stream_alignments",
    "streamed_if_aligned",
    "task_signature",
    "transpose",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "expressions": "Leaf combine contiguous_runs evaluated identity larger reduced_lanes step",
        "functions": "exp_nonpositive",
        "kernel": (
            "KERNEL WholeNumberWriter run_on_pool run_or_call run_task share share_with_tail "
            "slot store_or_stream stream_alignments streamed_if_aligned task_signature"
        ),
        "panels": "packing_function transpose",
        "stages": "IRStage LlvmSolver Part Rounds StagedSolver",
    },
)
