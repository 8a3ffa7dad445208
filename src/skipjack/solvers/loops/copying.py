"""Guarded strided copies as a stage of a kernel: padding, layouts, im2col, panels of weights.

What a copy does is said by `Copy`; `copying_plan` decides how, `copying_nest` writes the loops.
"""

from __future__ import annotations

from math import prod

from skipjack.core.device import Device
from skipjack.native.ir import ITEM_BYTES, IRWriter, VectorType, function
from skipjack.native.slots import parallel_slot
from skipjack.solvers.loops.copying_nest import Nest
from skipjack.solvers.loops.copying_plan import CopyError, is_empty, plan_of
from skipjack.solvers.loops.copying_squares import Pace
from skipjack.solvers.loops.copying_walks import Bound, Copy, Walk
from skipjack.solvers.loops.entry import KERNEL, hand_out, slot, task_signature
from skipjack.solvers.loops.stages import Stage
from skipjack.solvers.solver import Slot

__all__ = ["OUT", "SOURCE", "Bound", "Copy", "CopyError", "Walk", "copy_module", "copy_stage"]

SOURCE, OUT = 0, 1
"""Slots of the stage, as for `Stage.moves`; with several threads the pool follows."""
_STRIP = 8
"""Squares that follow each other in the source: 1.4 times faster for 10 MB, slower for 2 MB."""


def copy_stage(
    copy: Copy, source: Slot, out: Slot, dtype: str, device: Device, threads: int | None = None
) -> Stage:
    """The stage; with as many threads as the device has units unless told otherwise."""
    threads = threads or device.units
    vector = VectorType(dtype, device.vector_bytes // ITEM_BYTES[dtype])
    pool: tuple[Slot, ...] = (parallel_slot(threads), threads) if threads > 1 else ()
    return Stage(
        lambda: copy_module(copy, vector, threads, _pace(copy, vector, device)),
        (source, out, *pool),
    )


def _pace(copy: Copy, vector: VectorType, device: Device) -> Pace:
    """Arrays that fit the second level of caches need no care."""
    size = 2 * prod(walk.extent for walk in copy.walks) * vector.item_bytes
    far = size > device.cache_bytes("L3") // 2
    return Pace(size > device.cache_bytes("L2"), _STRIP if far else 1)


def copy_module(copy: Copy, vector: VectorType, threads: int, pace: Pace) -> str:
    """The module of a copy; slots are source and target, and for several threads their pool."""
    nest = Nest(plan_of(copy), vector, pace)
    w = nest.w
    pointers = slot(w, OUT), slot(w, SOURCE)
    if is_empty(copy):
        threads = 1
    elif threads == 1:
        nest.write(*pointers)
    else:
        nest.write_share(*pointers, threads)
    w.emit("ret void")
    bits = 8 * vector.lanes * vector.item_bytes
    functions = nest.library.functions.values()
    declared = w.declarations.union(*(declarations for _, declarations in functions))
    texts = [text for text, _ in functions]
    if threads == 1:
        texts.append(function(w, KERNEL, bits))
    else:
        kernel = IRWriter()
        hand_out(kernel, OUT + 1)
        kernel.emit("ret void")
        texts.append(function(w, task_signature(), bits, linkage="internal"))
        texts.append(function(kernel, KERNEL, bits))
    return "\n".join([*sorted(declared), *texts])
