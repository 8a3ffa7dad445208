"""Which configs of the vector kernels to try first, from their shape and the GPU's alone.

Costs are relative to reading and writing every byte once at the speed of memory, with what was
seen to matter: bytes in flight on every unit, programs enough for all units, and rows that are
held by few threads.
"""

from __future__ import annotations

from math import log2, prod
from typing import TYPE_CHECKING

from skipjack import operations
from skipjack.core.config import Config
from skipjack.core.device import Device
from skipjack.core.problem import Problem
from skipjack.gpu.architectures import KNOWN
from skipjack.solvers.gpu.vectors import cdiv, item_bytes, lanes, power_of_two, row_operation, whole

if TYPE_CHECKING:
    from skipjack.solvers.gpu.triton_reduce import Axis


def flat_cost(problem: Problem, device: Device, config: Config) -> float:
    """Blocks of some 1024 elements, 16 in each thread; fewer where units would have none."""
    elements = prod(operations.get(problem.operation).output(problem).shape)
    warps = whole(config["warps"])
    each = whole(config["vectors"]) * 16 // item_bytes(problem)
    block = each * warps * lanes(device)
    cost = 0.3 * _away(each, 16) + 0.15 * _away(block, 1024)
    return cost + 0.5 * _starved(cdiv(elements, block), device) + _hinted(config)


def broadcast_cost(problem: Problem, device: Device, config: Config, columns: int) -> float:
    """As `flat_cost`; with an access of all threads in one row, and little beyond its end."""
    wide = whole(config["columns"])
    threads = whole(config["warps"]) * lanes(device)
    lost = cdiv(columns, wide) * wide / columns - 1.0
    wanted = min(threads * 16 // item_bytes(problem), power_of_two(columns))
    return flat_cost(problem, device, config) + 4.0 * lost + 0.15 * _away(wide, wanted)


def rows_cost(problem: Problem, device: Device, config: Config) -> float:
    """Rows in registers, 16 to 32 elements in each thread, few rows of some warps in a program."""
    rows, columns, warps = (whole(config[name]) for name in ("rows", "columns", "warps"))
    threads = lanes(device) * warps
    each = rows * columns / threads
    count = prod(problem.shape[:-1])
    wanted = 256 if count > 2 * device.units else 1024
    cost = max(0.0, _away(each, 23) - 0.55) + 0.1 * _away(threads, wanted)
    cost += 0.15 * _away(rows, max(1.0, 2048 / columns))
    if columns < problem.shape[-1]:
        cost += 1.5 + 0.2 * _away(columns, 4096) + 0.5 * _overflow(problem, device, threads)
    cost += _starved(cdiv(count, rows), device)
    return cost + _residence(problem, config, each) + _hinted(config)


def row_gradients_cost(problem: Problem, device: Device, config: Config) -> float:
    """Some elements in each thread, as five values of each are held, and units full of threads."""
    rows, warps, resident = (whole(config[name]) for name in ("rows", "warps", "resident"))
    threads = lanes(device) * warps
    count = prod(problem.shape[:-1])
    each = rows * power_of_two(problem.shape[-1]) / threads
    cost = 0.5 * _away(each, 8) + 0.2 * _away(threads, 256) + 0.3 * _away(resident * threads, 1024)
    return cost + _starved(cdiv(count, rows), device) + _hinted(config)


def _overflow(problem: Problem, device: Device, threads: int) -> float:
    """How far all rows that are read for the first time would not fit into half of the L2 cache.

    Units run programs of a thousand threads together, at the registers that these take.
    """
    limits = KNOWN.get(device.arch)
    cache = device.cache_bytes("L2") or (limits.l2_bytes if limits else 0)
    count = min(prod(problem.shape[:-1]), device.units * max(1, 1024 // threads))
    held = count * problem.shape[-1] * item_bytes(problem)
    return max(0.0, log2(2 * held / cache)) if cache else 0.0


def _residence(problem: Problem, config: Config, each: float) -> float:
    """Programs that stay pay where vectors are kept; so does room for more of those that go.

    With rows of 16 bits and vectors to scale by, a thread would take 80 registers for 32 elements
    where 64 are enough, and 52 for 16 where 40 are.
    """
    resident, stages = whole(config["resident"]), whole(config["stages"])
    registers = whole(config["registers"])
    operation = row_operation(problem)
    scaled = operation is not None and bool(operation.vectors)
    even = problem.shape[-1] == config["columns"]
    crowded = scaled and even and item_bytes(problem) == 2
    if resident:
        away = _away(resident, 3) + 0.5 * _away(stages, 3)
        return (0.35 if crowded else 0.8) + 0.2 * away + (0.3 if registers else 0.0)
    cost = 0.2 * (stages - 1)
    if crowded and registers:
        return cost + 0.1 * _away(registers, 2.25 * each)
    return cost + (0.15 if crowded else 0.5 * bool(registers))


def row_sum_cost(problem: Problem, device: Device, config: Config, axis: Axis) -> float:
    """Whole rows where they fit, or blocks of them, by some hundred threads."""
    rows, columns, warps, waves = (
        whole(config[name]) for name in ("rows", "columns", "warps", "waves")
    )
    threads = lanes(device) * warps
    programs = cdiv(axis.outer, rows)
    cost = max(0.0, _away(rows * columns / threads, 16) - 1.0) + 0.1 * _away(threads, 360)
    wanted = min(8192, power_of_two(axis.length))
    cost += 0.08 * _away(columns, wanted) + 0.15 * _away(rows, max(1.0, 4096 / wanted))
    if waves:
        cost += 0.3 + 0.1 * _away(waves, 4)
        programs = device.units * waves
    cost += _starved(programs, device) + 0.2 * (whole(config["stages"]) - 1)
    return cost + 0.5 * _hinted(config)


def column_sum_cost(problem: Problem, device: Device, config: Config, axis: Axis) -> float:
    """Tiles of 256 columns that are loaded ahead, and few parts to join."""
    rows, columns, warps, waves = (
        whole(config[name]) for name in ("rows", "columns", "warps", "waves")
    )
    threads, stages = lanes(device) * warps, whole(config["stages"])
    programs = cdiv(axis.inner, columns) * axis.outer
    blocks = programs * cdiv(axis.length, rows)
    cost = 0.5 * _away(rows * columns / threads, 32) + 0.15 * _away(threads, 256)
    cost += 0.2 * _away(columns, min(256, power_of_two(axis.inner)))
    if waves:
        programs = device.units * waves
        cost += 0.1 + 0.1 * _away(waves, 2)
    cost += 0.25 * _away(stages, 3) if blocks >= 4 * programs else 0.3 * (stages - 1)
    return cost + _starved(programs, device) + 0.5 * _hinted(config)


def batchnorm_cost(problem: Problem, device: Device, config: Config) -> float:
    """Tiles of about 2048 elements, and little beyond the end of an image."""
    rows, columns, warps = (whole(config[name]) for name in ("rows", "columns", "warps"))
    area = problem.shape[2] * problem.shape[3]
    threads = lanes(device) * warps
    lost = cdiv(area, columns) * columns / area - 1.0
    cost = _away(rows * columns / threads, 16) + 0.3 * _away(threads, 128) + 3.0 * lost
    return cost + 0.2 * _away(rows, 1) + 0.1 * _away(whole(config["waves"]), 16) + _hinted(config)


def _away(value: float, best: float) -> float:
    """How many doublings apart."""
    return abs(log2(max(value, 2.0**-20) / best))


def _hinted(config: Config) -> float:
    """To drop lines early costs 2 to 4 % on an H200 wherever there is something to write."""
    return 0.6 if config["hint"] else 0.0


def _starved(programs: int, device: Device) -> float:
    """Units without work, and work without company."""
    return 2.0 * max(0.0, log2(2 * device.units / programs))
