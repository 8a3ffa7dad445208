"""Kernels take arrays of others in the CPU's memory: PyTorch's, DLPack's, array interfaces."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

from skipjack.errors import ArgumentTypeError, UsageError
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.local_kernels import CpuLibraryKernel, KernelCode, TunedKernel
from skipjack.runtime.local_kernels import kernel as kernel_module
from skipjack.solvers import find_solver, solver_for


class ByDlpack:
    """Somebody's array that speaks DLPack and nothing else."""

    def __init__(self, array: Any, device: int = 1) -> None:
        self.array, self._device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device, 0


class ByInterface:
    """Somebody's array with an array interface."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def __array_interface__(self) -> Any:
        return self.array.__array_interface__


def kernel_of(key: str) -> TunedKernel:
    """The default kernel of a problem, without tuning."""
    problem, device = parse(key), cpu.detect()
    solver = solver_for(problem, device)
    config = solver.space(problem, device).default()
    blob = solver.compile(solver.lower(problem, device, config))
    slots = tuple(solver.slots(problem, device, config))
    return TunedKernel(problem, KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, slots))


def x() -> Any:
    return np.arange(64, dtype=np.float32)


@pytest.fixture(params=["first", "later", "library"])
def add(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`add:64` as it is called at first, once native code checks arrays, and by NumPy."""
    if request.param == "library":
        return CpuLibraryKernel(parse("add:64"), find_solver("numpy"))
    monkeypatch.setattr(kernel_module, "_FIRST_PLAIN_CALLS", 0)
    kernel = kernel_of("add:64")
    if request.param == "later":
        kernel(x(), x())
        assert kernel._plans
    return kernel


@pytest.mark.parametrize("made", [ByDlpack, ByInterface])
def test_arrays_of_others_are_read_and_written_where_they_are(
    add: Any, made: Callable[[Any], Any]
) -> None:
    result = add(made(x()), x())
    assert type(result) is np.ndarray and np.array_equal(result, 2 * x())
    written = np.zeros(64, np.float32)
    out = made(written)
    assert add(made(x()), made(x()), out=out) is out
    assert np.array_equal(written, 2 * x())
    bound = add.bind(made(x()), x(), out=out)
    written[:] = 0
    assert bound() is out and np.array_equal(written, 2 * x())


def test_an_interface_that_is_of_no_use_is_told(add: Any) -> None:
    class Broken:
        __array_interface__: ClassVar = {"bad": 1}

    with pytest.raises(UsageError, match="the __array_interface__ of x cannot be used"):
        add(Broken(), x())


def test_tensors_in_are_tensors_out(add: Any) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(64, dtype=torch.float32)
    result = add(tensor, tensor)
    assert isinstance(result, torch.Tensor) and torch.equal(result, 2 * tensor)
    assert type(add(tensor, x())) is np.ndarray, "a mixture is NumPy's"
    out = torch.zeros(64)
    assert add(tensor, x(), out=out) is out and torch.equal(out, 2 * tensor)
    bound = add.bind(tensor, tensor)
    tensor += 1
    assert torch.equal(bound(), 2 * tensor) and isinstance(bound.out, torch.Tensor)
    assert torch.equal(add(torch.arange(128.0)[::2], tensor * 0), torch.arange(128.0)[::2])
    grown = tensor.clone().requires_grad_()
    with torch.no_grad():
        assert torch.equal(add(grown, grown), 2 * tensor)


def refusals() -> list[tuple[Any, str]]:
    torch = pytest.importorskip("torch")
    return [
        (torch.ones(64, requires_grad=True), r"x requires grad.*pass x.detach\(\)"),
        (torch.ones(64, device="meta"), "x is a meta tensor, which has no data"),
        (torch.ones(64, dtype=torch.bfloat16), "x is a tensor of bfloat16"),
        (torch.ones(64, dtype=torch.float64), "x must be float32 of shape .64,., not float64"),
        (torch.ones(64).to_sparse(), "x is a tensor of float32, sparse_coo"),
        (ByDlpack(x(), device=2), "x is not in the CPU's memory"),
        (ByInterface(x()[:3]), "x must be float32 of shape"),
    ]


def test_what_does_not_fit_is_refused_in_a_sentence(add: Any) -> None:
    for wrong, told in refusals():
        with pytest.raises(UsageError, match=told) as caught:
            add(wrong, x())
        assert "\n" not in str(caught.value)
        with pytest.raises(UsageError, match=told.replace("x ", "out ", 1).replace("x.", "out.")):
            add(x(), x(), out=wrong)
    for wrong in ([1.0], np.float32(1), None):
        with pytest.raises(
            ArgumentTypeError, match=r"x must be a NumPy array, a PyTorch tensor, .*, not"
        ):
            add(wrong, x())
    same = ByDlpack(x())
    with pytest.raises(UsageError, match="must not overlap"):
        add(same, x(), out=same.array)
    with pytest.raises(UsageError, match="takes 2 arrays, not 3"):
        add(ByDlpack(x()), x(), x())
    frozen = x()
    frozen.flags.writeable = False
    with pytest.raises(UsageError, match="out is not writeable"):
        add(x(), x(), out=ByInterface(frozen))


def test_a_kernel_of_several_outputs_gives_tensors_for_tensors() -> None:
    torch = pytest.importorskip("torch")
    kernel = kernel_of("layernorm:4x8/mode=train")
    inputs = [torch.rand(4, 8), torch.ones(8), torch.zeros(8)]
    mean = torch.zeros(4)
    y, told, invstd = kernel(*inputs, out=[None, mean, None])
    assert told is mean and isinstance(invstd, torch.Tensor)
    wanted = torch.nn.functional.layer_norm(inputs[0], (8,))
    assert torch.allclose(y, wanted, atol=1e-5) and torch.allclose(mean, inputs[0].mean(1))
