"""Row programs, generated for one shape: a row stays in the caches from the first pass to the
last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skipjack.core import (
    Config,
    Device,
    Parameter,
    ParameterSpace,
    Problem,
    ProgramOperation,
    RowProgram,
    lanes_for,
)
from skipjack.native import ITEM_BYTES, parallel_slot, registers_of, workspace_slot
from skipjack.operations import bytes_moved, get
from skipjack.solvers.cpu.ir import LlvmSolver
from skipjack.solvers.cpu.rows.kernel import generate, scratch_bytes
from skipjack.solvers.cpu.rows.plan import (
    AGAIN,
    OUTPUT,
    SCRATCH,
    RowsPlan,
    RowTarget,
    can_align,
    can_block,
    can_divide,
    can_stream,
    chunkable,
    estimate,
    fitted,
    kept_part,
)
from skipjack.solvers.solver import Slot, Source

_COPIES = (1, 2, 4, 8)
_ROWS = (1, 2, 4)
_BLOCKS = (4, 16, 64)
_CHUNKS = (16, 32)
_SHARE = 1 << 13
"""Bytes per thread that are worth starting it for."""
_FEW = 4
"""Groups per thread below which threads may wait long for the slowest."""


class RowsSolver(LlvmSolver):
    """Solver of row programs; sizes are constants in the code, as in `NestSolver`."""

    name = "rows"
    version = 2

    def refuses(self, problem: Problem, device: Device) -> str:
        """Accepts row programs, on CPUs."""
        if device.kind != "cpu":
            return f"it builds for CPUs, not for {device.name}"
        several = isinstance(get(problem.operation), ProgramOperation)
        return "" if several else f"{problem.operation} is not a program of passes over rows"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """The settings that make a difference for this problem."""
        programs = _programs(problem)
        program = next(iter(programs.values()))
        item = ITEM_BYTES[problem.dtype]
        widths = tuple(sorted({device.vector_bytes, max(16, device.vector_bytes // 2)}))[::-1]
        vectors = -(-program.columns // lanes_for(program.columns, widths[-1] // item))
        copies = tuple(number for number in _COPIES if number == 1 or number <= vectors)
        rows = tuple(number for number in _ROWS if number <= program.groups)
        threads = min(device.units, program.groups)
        shares = _shares(problem, program, device)
        target = RowTarget.of(device, item, bytes_moved(problem))
        sums = max((len(sweep) for sweep in program.passes()), default=1)
        return ParameterSpace(
            [
                Parameter("program", tuple(programs)),
                Parameter("vector_bytes", widths),
                Parameter("copies", copies),
                Parameter("rows", rows),
                Parameter("keep", _keeping(problem, program, device)),
                Parameter("streaming", _streaming(problem, program, device)),
                Parameter(
                    "aligned", (False, True) if _can_align(problem, program, device) else (False,)
                ),
                Parameter("ahead", (False, True) if _beyond_second(problem, device) else (False,)),
                Parameter("chunk", _chunks(program, target)),
                Parameter("block", _blocks(program, device.units)),
                Parameter("parallel", (False, True) if shares or threads > 1 else (False,)),
                Parameter("pieces", (False, True) if shares else (False,)),
            ],
            [
                f"copies * rows * {sums} <= {registers_of(device)}",
                f"keep == '{AGAIN}' or streaming == (keep == '{SCRATCH}')",
                f"not streaming or aligned or {can_stream(program, widths[0] // item)}",
                f"not aligned or rows == 1 or {program.segments > 1}",
                "block == 0 or (rows == 1 and not ahead)",
                f"not parallel or pieces or max(rows, block, 1) * {threads} <= {program.groups}",
                "not pieces or (parallel and rows == 1 and block + chunk == 0 and not ahead)",
                "chunk == 0 or rows == 1",
            ],
            order=lambda config: estimate(
                programs[str(config["program"])],
                _plan(config, programs, problem, device.units),
                target,
            ),
            default_by_order=True,
        )

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        programs = _programs(problem)
        program = programs[str(config["program"])]
        text = generate(program, _plan(config, programs, problem, device.units), problem.dtype)
        return self.source(text, device)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers, scratch memory, and the pool if threads share out the rows."""
        programs = _programs(problem)
        program = programs[str(config["program"])]
        slots: list[Slot] = [*program.arrays]
        scratch = scratch_bytes(
            program, _plan(config, programs, problem, device.units), problem.dtype
        )
        if scratch:
            slots.append(workspace_slot(scratch * (device.units if config["parallel"] else 1)))
        if config["parallel"]:
            slots += [parallel_slot(device.units), device.units]
        return slots


def _programs(problem: Problem) -> Mapping[str, RowProgram]:
    operation = get(problem.operation)
    assert isinstance(operation, ProgramOperation), "refused before"
    return operation.programs(problem)


def _plan(
    config: Config, programs: Mapping[str, RowProgram], problem: Problem, units: int
) -> RowsPlan:
    plan = RowsPlan(
        lanes=int(config["vector_bytes"]) // ITEM_BYTES[problem.dtype],
        copies=int(config["copies"]),
        rows=int(config["rows"]),
        keep=str(config["keep"]),
        streaming=bool(config["streaming"]),
        parallel=bool(config["parallel"]),
        ahead=bool(config["ahead"]),
        block=int(config["block"]),
        chunk=int(config["chunk"]),
        aligned=bool(config["aligned"]),
        pieces=units if config["pieces"] else 0,
    )
    return fitted(plan, programs[str(config["program"])])


def _keeping(problem: Problem, program: RowProgram, device: Device) -> tuple[str, ...]:
    """Where to keep values; scratch memory is worth a try if the output can be streamed."""
    if kept_part(program) is None:
        return (AGAIN,)
    scratch = _streaming(problem, program, device) != (False,) and program.segments == 1
    return (OUTPUT, SCRATCH, AGAIN) if scratch else (OUTPUT, AGAIN)


def _shares(problem: Problem, program: RowProgram, device: Device) -> bool:
    """Whether it may pay to divide groups: few per thread, and long enough."""
    few = program.groups < _FEW * device.units and bytes_moved(problem) >= _SHARE * device.units
    lanes = lanes_for(program.columns, device.vector_bytes // ITEM_BYTES[problem.dtype])
    return device.units > 1 and few and can_divide(program, device.units, lanes)


def _beyond_second(problem: Problem, device: Device) -> bool:
    """Whether the arrays are larger than L2, so that prefetching may help."""
    sizes = [size for _, size in device.caches[:2]]
    return bytes_moved(problem) > max(sizes, default=0)


def _chunks(program: RowProgram, target: RowTarget) -> tuple[int, ...]:
    """Chunks are worth a try if rows fill more than a quarter of L1."""
    long = 4 * program.columns * target.item_bytes > target.first
    fits = program.columns >= 2 * max(_CHUNKS) * target.lanes
    return (0, *_CHUNKS) if long and fits and chunkable(program) else (0,)


def _blocks(program: RowProgram, threads: int) -> tuple[int, ...]:
    """Sizes of blocks: some groups, all groups of a thread, all groups."""
    if not can_block(program):
        return (0,)
    share = max(1, program.groups // threads)
    sizes = {min(size, program.groups) for size in (*_BLOCKS, share, program.groups)}
    return (0, *sorted(sizes))


def _streaming(problem: Problem, program: RowProgram, device: Device) -> tuple[bool, ...]:
    """Streaming is worth a try if the arrays fill more than half of the last cache."""
    last = max((size for _, size in device.caches), default=0)
    lanes = lanes_for(program.columns, device.vector_bytes // ITEM_BYTES[problem.dtype])
    large = bytes_moved(problem) > last // 2
    possible = can_stream(program, lanes) or can_align(program, lanes)
    return (False, True) if large and possible else (False,)


def _can_align(problem: Problem, program: RowProgram, device: Device) -> bool:
    return can_align(program, device.vector_bytes // ITEM_BYTES[problem.dtype])
