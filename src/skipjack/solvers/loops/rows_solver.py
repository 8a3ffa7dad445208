"""Row programs, generated for one shape: a row stays in the caches from first pass to last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.operation import ProgramOperation
from skipjack.core.parameters import Parameter, ParameterSpace
from skipjack.core.problem import Problem
from skipjack.core.program import RowProgram
from skipjack.native import llvm
from skipjack.native.cpu import registers_of, target_of
from skipjack.native.ir import ITEM_BYTES
from skipjack.native.slots import parallel_slot
from skipjack.operations import bytes_moved, get
from skipjack.solvers.loops.nest_solver import compile_source
from skipjack.solvers.loops.rows_code import generate
from skipjack.solvers.loops.rows_plan import RowsPlan, can_stream, fitted, kept_part, lanes_for
from skipjack.solvers.solver import Blob, Slot, Source

_COPIES = (1, 2, 4, 8)
_ROWS = (1, 2, 4)
_PAGE = 4096


class RowsSolver:
    """Sizes are constants in the code, as in `NestSolver`."""

    name = "rows"
    version = 1

    def refuses(self, problem: Problem, device: Device) -> str:
        """CPUs only, and what is a row program."""
        if device.kind != "cpu":
            return f"it builds for CPUs, not for {device.name}"
        several = isinstance(get(problem.operation), ProgramOperation)
        return "" if several else f"{problem.operation} is not a program of passes over rows"

    def space(self, problem: Problem, device: Device) -> ParameterSpace:
        """Settings that make a difference for this problem."""
        programs = _programs(problem)
        program = next(iter(programs.values()))
        item = ITEM_BYTES[problem.dtype]
        widths = tuple(sorted({device.vector_bytes, max(16, device.vector_bytes // 2)}))[::-1]
        vectors = -(-program.columns // lanes_for(program.columns, widths[-1] // item))
        copies = tuple(number for number in _COPIES if number == 1 or number <= vectors)
        rows = tuple(number for number in _ROWS if number <= program.groups)
        threads = min(device.units, program.groups)
        sums = max((len(sweep) for sweep in program.passes()), default=1)
        return ParameterSpace(
            [
                Parameter("program", tuple(programs)),
                Parameter("vector_bytes", widths),
                Parameter("copies", copies),
                Parameter("rows", rows),
                Parameter("keep", (True, False) if kept_part(program) else (False,)),
                Parameter("streaming", _streaming(problem, program, device)),
                Parameter("parallel", (False, True) if threads > 1 else (False,)),
            ],
            [
                f"copies * rows * {sums} <= {registers_of(device)}",
                "not (keep and streaming)",
                f"not parallel or rows * {threads} <= {program.groups}",
            ],
            order=lambda config: _estimate(
                programs[str(config["program"])], _plan(config, programs, problem), item
            ),
        )

    def compiler(self) -> str:
        """LLVM."""
        return llvm.compiler_version()

    def lower(self, problem: Problem, device: Device, config: Config) -> Source:
        """IR text of the program under these settings."""
        programs = _programs(problem)
        program = programs[str(config["program"])]
        text = generate(program, _plan(config, programs, problem), problem.dtype)
        return Source(text, target_of(device), self.compiler())

    def compile(self, source: Source) -> Blob:
        """Object code."""
        return compile_source(source)

    def slots(self, problem: Problem, device: Device, config: Config) -> Sequence[Slot]:
        """Pointers, and the pool where threads share the rows out."""
        slots: list[Slot] = [*_programs(problem)[str(config["program"])].arrays]
        if config["parallel"]:
            slots += [parallel_slot(device.units), device.units]
        return slots


def _programs(problem: Problem) -> Mapping[str, RowProgram]:
    operation = get(problem.operation)
    assert isinstance(operation, ProgramOperation), "refused before"
    return operation.programs(problem)


def _plan(config: Config, programs: Mapping[str, RowProgram], problem: Problem) -> RowsPlan:
    plan = RowsPlan(
        lanes=int(config["vector_bytes"]) // ITEM_BYTES[problem.dtype],
        copies=int(config["copies"]),
        rows=int(config["rows"]),
        keep=bool(config["keep"]),
        streaming=bool(config["streaming"]),
        parallel=bool(config["parallel"]),
    )
    return fitted(plan, programs[str(config["program"])])


def _streaming(problem: Problem, program: RowProgram, device: Device) -> tuple[bool, ...]:
    """Worth a try where the arrays fill more than half of the last cache."""
    last = max((size for _, size in device.caches), default=0)
    lanes = lanes_for(program.columns, device.vector_bytes // ITEM_BYTES[problem.dtype])
    large = bytes_moved(problem) > last // 2
    return (False, True) if large and can_stream(program, lanes) else (False,)


def _estimate(program: RowProgram, plan: RowsPlan, item_bytes: int) -> float:
    """Relative time for an element, by arithmetic alone."""
    vectors = -(-program.columns // plan.lanes) / program.columns
    sweeps = len(program.passes()) + 1
    work = vectors * (sweeps + (plan.keep < bool(kept_part(program))))
    # Additions into one accumulator wait for each other; so does what ends a sweep of a row.
    waiting = vectors * sweeps * max(0.0, 4.0 / (plan.copies * plan.rows) - 1.0)
    ends = 20.0 * sweeps / (program.columns * program.segments) / plan.rows
    # Rows side by side need more registers, and at multiples of a page share their place in L1.
    same_place = program.output.group * item_bytes % _PAGE == 0
    beside = vectors * (plan.rows - 1) * (0.5 if same_place else 0.05)
    return work + waiting + ends + beside - vectors * (0.1 * plan.streaming + plan.parallel)
