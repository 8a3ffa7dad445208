"""Configs that share a build have the same code: what is set at run time is in the slots."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from skipjack.core import Staged
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.solvers import building_solvers

SHAPES = (
    "n1c16h14w14k16y3x3p1q1",
    "n4c32h28w28k32y3x3p1q1",
    "n4c32h14w14k64y1x1",
    "n4c32h14w14k64y1x1u2v2",
    "n4c32h14w14k32y3x3p1q1g32",
    "n4c3h32w32k32y7x7p3q3u2v2",
)


@pytest.mark.parametrize("direction", ["fwd", "bwd", "wrw"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    "shape", [*SHAPES[::2], *(pytest.param(one, marks=pytest.mark.long) for one in SHAPES[1::2])]
)
def test_configs_that_share_a_build_share_its_source(
    shape: str, layout: str, direction: str
) -> None:
    problem = parse(f"conv2d:{shape}", layout=layout, direction=direction)
    for threads in (1, 2):
        device = replace(cpu.detect(), units=threads)
        for solver in building_solvers(problem, device):
            space = solver.space(problem, device)
            assert isinstance(space, Staged)
            rng = np.random.default_rng(0)
            configs = [*space.promising(4), *(space.sample(rng) for _ in range(4))]  # type: ignore[attr-defined]
            sources: dict[str, str] = {}
            for config in configs:
                digest = solver.lower(problem, device, config).digest
                part = space.build_part(config).key
                assert sources.setdefault(part, digest) == digest, f"{solver.name}: {config}"
