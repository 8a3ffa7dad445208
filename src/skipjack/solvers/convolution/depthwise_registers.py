"""How much of a depthwise convolution fits into registers, and how long its code gets."""

from __future__ import annotations

from dataclasses import replace

from skipjack.solvers.convolution.depthwise_march import March, chunks, march
from skipjack.solvers.convolution.depthwise_plan import Plan
from skipjack.solvers.convolution.depthwise_sums import filter_groups

_SPARE = 2
"""Registers for what is loaded; with taps in registers one is enough."""
_FEW = 4
"""Positions that a strip should have before more rows of the filter are worth it."""


def fitted(plan: Plan, registers: int, narrow: int) -> Plan:
    """The plan with as many positions as fit into so many registers, divided by `narrow`."""
    if plan.geometry.wanted == "filter":
        return _fitted_sums(plan, registers, narrow)
    step = plan.patterns[2].step
    if not plan.marching:
        room = registers - plan.geometry.filter_sizes[2] - _SPARE
        return _with_positions(plan, room // narrow, step)
    live = max(1, march(plan.patterns[1]).live)
    _, rows, columns = plan.geometry.filter_sizes
    room = (registers - rows * columns - 1) // live
    hoisted = room >= max(2, step)
    if not hoisted:
        room = (registers - _SPARE) // live
    return _with_positions(replace(plan, hoisted=hoisted), room // narrow, step)


def _with_positions(plan: Plan, positions: int, step: int) -> Plan:
    return replace(plan, positions=max(1, positions // step) * step)


def _fitted_sums(plan: Plan, registers: int, narrow: int) -> Plan:
    """As many rows of the filter as leave room for some positions."""
    _, rows, columns = plan.geometry.filter_sizes
    _, high, _ = plan.patterns
    best = plan
    for group in range(1, rows + 1):
        taken = replace(high, phases=(high.phases[0][:group],))
        live = max(1, march(taken).live)
        positions = (registers - group * columns - _SPARE) // live
        if group > 1 and positions < _FEW:
            break
        best = replace(plan, group=group, positions=max(1, positions // narrow))
    return best


def products(plan: Plan) -> int:
    """Multiply-adds in the code: what it takes to build it."""
    columns = sum(_meetings(plan, run_number) for run_number in range(len(plan.runs)))
    _, high, _ = plan.patterns
    if plan.geometry.wanted == "filter":
        groups = filter_groups(high.phases[0], plan.group)
        patterns = [replace(high, phases=(reads,)) for reads in groups]
    else:
        patterns = [high]
    marches = [each.march for pattern in patterns for each in chunks(pattern, plan.chunks)]
    return columns * sum(_rows(each) for each in marches) * (2 if plan.tail else 1)


def _meetings(plan: Plan, run_number: int) -> int:
    """Products of a row of a run with a row of the filter."""
    run = plan.runs[run_number]
    if plan.last:
        return sum(len(reads) for reads in run.reads)
    wide = plan.patterns[2]
    vectors = -(-run.size // (plan.vector.lanes * wide.step))
    return vectors * sum(len(reads) for reads in wide.phases)


def _rows(each: March) -> int:
    return sum(len(meetings) for part in each.rounds for _, meetings in part.rows)
