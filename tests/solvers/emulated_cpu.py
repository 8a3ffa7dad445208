"""Run under an emulator: detects the CPU, then builds, loads and verifies kernels in this process.

A child of an emulated process runs on the real CPU, so nothing here may start one. The result is
printed as JSON.
"""

from __future__ import annotations

import ctypes
import json
import re

from skipjack.core import Config, Device, Problem, Promising
from skipjack.execute import Checker
from skipjack.native import PAGE, Slots, cpu, describe, llvm
from skipjack.operations import parse
from skipjack.solvers import BuildingSolver, building_solvers, tolerance_factor_of

KEYS = (
    "matmul:37x50x29",
    "sum:33x65/axis=1",
    "softmax:7x131",
    "conv2d:n2c10h9w11k20y3x3p1q1:NHWC:fwd",
)


def main() -> None:
    """The most promising config of every solver on every key."""
    device = cpu.detect()
    assert describe(device.name) == device, "this machine's own CPU is described by its name"
    loader = llvm.Loader()
    verdicts, listings = {}, ""
    for key in KEYS:
        problem = parse(key)
        # Bytes behind the arrays may be read: the emulator loads the lanes that a mask leaves out.
        checker = Checker(problem, alignment=PAGE)
        for solver in building_solvers(problem, device):
            config = _first(solver, problem, device)
            source = solver.lower(problem, device, config)
            blob = solver.compile(source)
            address = loader.load(blob.data, blob.symbol)
            checker.prepare()
            slots = Slots(solver.slots(problem, device, config), checker.arrays)
            llvm.c_function(address, ctypes.c_void_p)(slots.address)
            verdict = checker.verdict(tolerance_factor_of(solver, problem))
            verdicts[f"{key} by {solver.name} with {config}"] = verdict.reason
        listings += llvm.assembly(source.text, source.target)
    told = {
        "arch": device.arch,
        "level": device.level,
        "vector_bytes": device.vector_bytes,
        "features": device.features,
        "registers": sorted(set(re.findall("[xyz]mm", listings))),
        "verdicts": verdicts,
    }
    print(json.dumps(told))


def _first(solver: BuildingSolver, problem: Problem, device: Device) -> Config:
    space = solver.space(problem, device)
    return space.promising(1)[0] if isinstance(space, Promising) else space.default()


if __name__ == "__main__":
    main()
