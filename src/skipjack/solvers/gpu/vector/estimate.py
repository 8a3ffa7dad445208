"""Relative costs of configs of the vector kernels, to try the good configs first.

Costs are relative to reading and writing every byte once at the speed of memory. They rate what
matters in measurements: bytes in flight on each unit, enough programs for all units, and rows that
few threads hold.
"""

from __future__ import annotations

from math import log2, prod
from typing import TYPE_CHECKING

from skipjack import operations
from skipjack.core import Config, Device, Problem
from skipjack.gpu import KNOWN
from skipjack.solvers.gpu.vector.arguments import (
    as_int,
    cdiv,
    item_bytes,
    power_of_two,
    row_operation,
    warp_size,
)

if TYPE_CHECKING:
    from skipjack.solvers.gpu.vector.reduce import ReducedAxis


def flat_cost(problem: Problem, device: Device, config: Config) -> float:
    """Best: blocks of about 1024 elements, 16 in each thread; fewer if units would be idle."""
    elements = prod(operations.get(problem.operation).output(problem).shape)
    warps = as_int(config["warps"])
    each = as_int(config["vectors"]) * 16 // item_bytes(problem)
    block = each * warps * warp_size(device)
    cost = 0.3 * _doublings_apart(each, 16) + 0.15 * _doublings_apart(block, 1024)
    return cost + 0.5 * _idle_cost(cdiv(elements, block), device) + _hint_cost(config)


def broadcast_cost(problem: Problem, device: Device, config: Config, columns: int) -> float:
    """Like `flat_cost`; best if an access of all threads is in one row, ending near its end."""
    wide = as_int(config["columns"])
    threads = as_int(config["warps"]) * warp_size(device)
    lost = cdiv(columns, wide) * wide / columns - 1.0
    wanted = min(threads * 16 // item_bytes(problem), power_of_two(columns))
    return flat_cost(problem, device, config) + 4.0 * lost + 0.15 * _doublings_apart(wide, wanted)


def rows_cost(problem: Problem, device: Device, config: Config) -> float:
    """Best: rows in registers, 16 to 32 elements in a thread, few rows and warps in a program."""
    rows, columns, warps = (as_int(config[name]) for name in ("rows", "columns", "warps"))
    threads = warp_size(device) * warps
    each = rows * columns / threads
    count = prod(problem.shape[:-1])
    wanted = 256 if count > 2 * device.units else 1024
    cost = max(0.0, _doublings_apart(each, 23) - 0.55) + 0.1 * _doublings_apart(threads, wanted)
    cost += 0.15 * _doublings_apart(rows, max(1.0, 2048 / columns))
    if columns < problem.shape[-1]:
        cost += (
            1.5 + 0.2 * _doublings_apart(columns, 4096) + 0.5 * _overflow(problem, device, threads)
        )
    cost += _idle_cost(cdiv(count, rows), device)
    return cost + _residence(problem, config, each) + _hint_cost(config)


def row_gradients_cost(problem: Problem, device: Device, config: Config) -> float:
    """Best: few elements in each thread, since five values of each are held, and full units."""
    rows, warps, resident = (as_int(config[name]) for name in ("rows", "warps", "resident"))
    threads = warp_size(device) * warps
    count = prod(problem.shape[:-1])
    each = rows * power_of_two(problem.shape[-1]) / threads
    cost = (
        0.5 * _doublings_apart(each, 8)
        + 0.2 * _doublings_apart(threads, 256)
        + 0.3 * _doublings_apart(resident * threads, 1024)
    )
    return cost + _idle_cost(cdiv(count, rows), device) + _hint_cost(config)


def _overflow(problem: Problem, device: Device, threads: int) -> float:
    """By how many doublings the rows of all running programs exceed half of the L2 cache.

    A unit runs programs with about a thousand threads in all, given the registers they need.
    """
    limits = KNOWN.get(device.arch)
    cache = device.cache_bytes("L2") or (limits.l2_bytes if limits else 0)
    count = min(prod(problem.shape[:-1]), device.units * max(1, 1024 // threads))
    held = count * problem.shape[-1] * item_bytes(problem)
    return max(0.0, log2(2 * held / cache)) if cache else 0.0


def _residence(problem: Problem, config: Config, each: float) -> float:
    """The cost of persistent programs and of register limits.

    Persistent programs pay if vectors are kept in registers; otherwise fewer registers pay, so that
    more programs run at once. With 16-bit rows and vectors to scale by, a thread would take 80
    registers for 32 elements although 64 suffice, and 52 for 16 elements although 40 suffice.
    """
    resident, stages = as_int(config["resident"]), as_int(config["stages"])
    registers = as_int(config["registers"])
    operation = row_operation(problem)
    scaled = operation is not None and bool(operation.vectors)
    even = problem.shape[-1] == config["columns"]
    crowded = scaled and even and item_bytes(problem) == 2
    if resident:
        away = _doublings_apart(resident, 3) + 0.5 * _doublings_apart(stages, 3)
        return (0.35 if crowded else 0.8) + 0.2 * away + (0.3 if registers else 0.0)
    cost = 0.2 * (stages - 1)
    if crowded and registers:
        return cost + 0.1 * _doublings_apart(registers, 2.25 * each)
    return cost + (0.15 if crowded else 0.5 * bool(registers))


def row_sum_cost(problem: Problem, device: Device, config: Config, axis: ReducedAxis) -> float:
    """Best: whole rows if they fit, or blocks of them, by a few hundred threads."""
    rows, columns, warps, waves = (
        as_int(config[name]) for name in ("rows", "columns", "warps", "waves")
    )
    threads = warp_size(device) * warps
    programs = cdiv(axis.outer, rows)
    cost = max(0.0, _doublings_apart(rows * columns / threads, 16) - 1.0) + 0.1 * _doublings_apart(
        threads, 360
    )
    wanted = min(8192, power_of_two(axis.length))
    cost += 0.08 * _doublings_apart(columns, wanted) + 0.15 * _doublings_apart(
        rows, max(1.0, 4096 / wanted)
    )
    if waves:
        cost += 0.3 + 0.1 * _doublings_apart(waves, 4)
        programs = device.units * waves
    cost += _idle_cost(programs, device) + 0.2 * (as_int(config["stages"]) - 1)
    return cost + 0.5 * _hint_cost(config)


def column_sum_cost(problem: Problem, device: Device, config: Config, axis: ReducedAxis) -> float:
    """Best: tiles of 256 columns that are prefetched, and few parts to add up."""
    rows, columns, warps, waves = (
        as_int(config[name]) for name in ("rows", "columns", "warps", "waves")
    )
    threads, stages = warp_size(device) * warps, as_int(config["stages"])
    programs = cdiv(axis.inner, columns) * axis.outer
    blocks = programs * cdiv(axis.length, rows)
    cost = 0.5 * _doublings_apart(rows * columns / threads, 32) + 0.15 * _doublings_apart(
        threads, 256
    )
    cost += 0.2 * _doublings_apart(columns, min(256, power_of_two(axis.inner)))
    if waves:
        programs = device.units * waves
        cost += 0.1 + 0.1 * _doublings_apart(waves, 2)
    cost += 0.25 * _doublings_apart(stages, 3) if blocks >= 4 * programs else 0.3 * (stages - 1)
    return cost + _idle_cost(programs, device) + 0.5 * _hint_cost(config)


def batchnorm_cost(problem: Problem, device: Device, config: Config) -> float:
    """Best: tiles of about 2048 elements, with little past the end of an image."""
    rows, columns, warps = (as_int(config[name]) for name in ("rows", "columns", "warps"))
    area = problem.shape[2] * problem.shape[3]
    threads = warp_size(device) * warps
    lost = cdiv(area, columns) * columns / area - 1.0
    cost = (
        _doublings_apart(rows * columns / threads, 16)
        + 0.3 * _doublings_apart(threads, 128)
        + 3.0 * lost
    )
    return (
        cost
        + 0.2 * _doublings_apart(rows, 1)
        + 0.1 * _doublings_apart(as_int(config["waves"]), 16)
        + _hint_cost(config)
    )


def _doublings_apart(value: float, best: float) -> float:
    """The distance of two values in doublings."""
    return abs(log2(max(value, 2.0**-20) / best))


def _hint_cost(config: Config) -> float:
    """Evicting cache lines first costs 2 to 4 % on an H200 if anything is written."""
    return 0.6 if config["hint"] else 0.0


def _idle_cost(programs: int, device: Device) -> float:
    """The cost of idle units, and of units with a single program."""
    return 2.0 * max(0.0, log2(2 * device.units / programs))
