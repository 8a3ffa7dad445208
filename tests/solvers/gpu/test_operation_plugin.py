"""An operation for GPUs is added by one file outside of Skipjack."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from processes import PATIENCE_S
from skipjack import plugins, solvers
from skipjack.core import Candidate, Status
from skipjack.execute.gpu.torch_bridge import exact_output
from skipjack.execute.pool import BuildPool
from skipjack.gpu import Launch, describe_gpu, from_slots, unpack
from skipjack.operations import get, parse
from skipjack.operations import registry as known_operations
from skipjack.operations.normalization import Softmax
from skipjack.solvers import registry as known_solvers
from skipjack.solvers.gpu.vector.normalization import TritonRows
from skipjack.solvers.vendor import has_function

pytest.importorskip("triton")

PLUGIN = Path(__file__).with_name("leaky_plugin.py")
HOPPER = describe_gpu("sm_90/132")


@pytest.fixture(scope="module", autouse=True)
def leaky() -> Iterator[None]:
    """Loaded here and in every worker that is started from now on; unknown to other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "_loaded", {})
        for registry in (known_operations, known_solvers):
            patch.setattr(registry, "_known", dict(registry._known))
        patch.setenv(plugins.VARIABLE, "")
        patch.setenv(plugins.FOLDERS, "")
        plugins.load((str(PLUGIN),))
        patch.setenv(plugins.VARIABLE, str(PLUGIN))
        yield


def test_its_kernel_is_built_for_a_gpu_by_the_build_pool(children: object) -> None:
    problem = parse("leaky:100000:f16")
    solver = solvers.solver_for(problem, HOPPER)
    config = solver.space(problem, HOPPER).default()
    with BuildPool(1, HOPPER) as pool:
        pool.submit(Candidate(problem, solver.name, config))
        deadline, builds = time.monotonic() + PATIENCE_S, []
        while not builds and time.monotonic() < deadline:
            builds = list(pool.poll(0.1))
    (build,) = builds
    assert (build.status, build.reason) == (Status.OK, "")
    artifact = unpack(build.artifact or b"")
    assert artifact.target == "sm_90"
    assert artifact.kernel("leak").symbol == "leak"
    (step,) = from_slots(build.slots)
    assert isinstance(step, Launch) and step.grid == (391, 1, 1)


def test_its_results_are_checked_by_pytorch_on_the_gpu() -> None:
    torch = pytest.importorskip("torch")
    problem, x = parse("leaky:3x4"), np.linspace(-1.0, 1.0, 12).reshape(3, 4)
    exact = exact_output(torch, problem, {"x": torch.from_numpy(x)})
    assert exact is not None
    operation = get("leaky")
    np.testing.assert_array_equal(exact.reference.numpy(), operation.reference(problem, {"x": x}))
    np.testing.assert_array_equal(exact.magnitude.numpy(), operation.magnitude(problem, {"x": x}))


def test_it_is_compared_with_pytorch() -> None:
    assert has_function(parse("leaky:4096"))


def test_rows_are_computed_by_the_kernel_that_the_operation_declares(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, solver = parse("softmax:8x64"), TritonRows()
    config = solver.space(problem, HOPPER).default()
    monkeypatch.setattr(Softmax, "gpu_rows", "logsoftmax")
    (spec,) = solver.kernels(problem, HOPPER, config)
    assert spec.constants["NAME"] == "logsoftmax"
    monkeypatch.setattr(Softmax, "gpu_rows", "")
    assert "kernels for rows do not compute softmax" in solver.refuses(problem, HOPPER)
