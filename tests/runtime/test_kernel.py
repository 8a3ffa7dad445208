"""A kernel as a function: which arrays it takes."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest

from skipjack import tuning
from skipjack.errors import UsageError
from skipjack.native import detect
from skipjack.operations import parse
from skipjack.runtime import bank_lookup, kernel_file
from skipjack.runtime.local_kernels import KernelCode, TunedKernel
from skipjack.runtime.local_kernels import kernel as kernels
from skipjack.solvers.cpu.nest_code.solver import NestSolver
from skipjack.solvers.cpu.rows.solver import RowsSolver


@pytest.fixture(scope="module")
def built() -> Callable[[str], TunedKernel]:
    """The default kernel of a problem, without tuning."""

    def build(key: str) -> TunedKernel:
        problem, device = parse(key), detect()
        solver = RowsSolver() if problem.operation == "batchnorm" else NestSolver()
        config = solver.space(problem, device).default()
        blob = solver.compile(solver.lower(problem, device, config))
        slots = tuple(solver.slots(problem, device, config))
        return TunedKernel(
            problem, KernelCode(blob.data, blob.digest, blob.symbol, blob.abi, slots)
        )

    return build


def test_leading_axes_that_a_key_leaves_out_are_taken(built: Callable[[str], TunedKernel]) -> None:
    kernel = built("add:2x3x4/y=1x3x1")
    x = np.random.default_rng(0).uniform(size=(2, 3, 4)).astype(np.float32)
    y = np.arange(3, dtype=np.float32).reshape(3, 1)
    for given in (y, y[None]):
        np.testing.assert_array_equal(kernel(x, given), x + y)


def test_a_scalar_may_have_no_axis(built: Callable[[str], TunedKernel]) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    kernel = built("mul:3x4/y=1")
    for given in (np.array(2.5, np.float32), np.full(1, 2.5, "f4"), np.full((1, 1), 2.5, "f4")):
        np.testing.assert_array_equal(kernel(x, given), x * np.float32(2.5))


def test_other_shapes_are_refused(built: Callable[[str], TunedKernel]) -> None:
    kernel = built("add:2x3x4/y=3x1")
    x, y = np.zeros((2, 3, 4), np.float32), np.zeros((3, 1), np.float32)
    for wrong in (y.ravel(), y[None, None], y.T, np.zeros((2, 3, 1), np.float32)):
        with pytest.raises(UsageError, match=r"y must be float32 of shape \(3, 1\)"):
            kernel(x, wrong)
    with pytest.raises(UsageError, match="x must be"):
        kernel(x[None], y)


TRAINING = "batchnorm:n4c3h5w5:f64"


def training_inputs() -> tuple[npt.NDArray[np.float64], ...]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(4, 3, 5, 5)), rng.normal(size=3), rng.normal(size=3)


def test_several_outputs_are_a_tuple(built: Callable[[str], TunedKernel]) -> None:
    kernel = built(TRAINING)
    assert kernel.outputs == ("out", "mean", "invstd")
    x, gamma, beta = training_inputs()
    out, mean, invstd = kernel(x, gamma, beta)
    np.testing.assert_allclose(mean, x.mean(axis=(0, 2, 3)))
    np.testing.assert_allclose(invstd, (x.var(axis=(0, 2, 3)) + 1e-5) ** -0.5)
    normal = (x - mean[:, None, None]) * invstd[:, None, None]
    np.testing.assert_allclose(out, normal * gamma[:, None, None] + beta[:, None, None])


def test_what_training_saves_gives_the_gradients(built: Callable[[str], TunedKernel]) -> None:
    x, gamma, beta = training_inputs()
    _, mean, invstd = built(TRAINING)(x, gamma, beta)
    dy = np.random.default_rng(1).normal(size=x.shape)
    dx, dgamma, dbeta = built("batchnorm:n4c3h5w5/mode=backward:f64")(dy, x, gamma, mean, invstd)
    normal = (x - mean[:, None, None]) * invstd[:, None, None]
    np.testing.assert_allclose(dbeta, dy.sum(axis=(0, 2, 3)))
    np.testing.assert_allclose(dgamma, (dy * normal).sum(axis=(0, 2, 3)))
    np.testing.assert_allclose(dx.sum(axis=(0, 2, 3)), 0.0, atol=1e-12)


def test_outputs_are_given_by_place_or_by_name(built: Callable[[str], TunedKernel]) -> None:
    kernel, inputs = built(TRAINING), training_inputs()
    expected = kernel(*inputs)
    out, saved = np.empty((4, 3, 5, 5)), np.empty(3)
    for given, names in (
        (out, {"out": out}),
        ((out, None, saved), {"out": out, "invstd": saved}),
        ({"mean": saved}, {"mean": saved}),
    ):
        result = dict(zip(kernel.outputs, kernel(*inputs, out=given), strict=True))
        assert all(result[name] is array for name, array in names.items())
        for name, array in zip(kernel.outputs, expected, strict=True):
            # Where arrays begin decides which elements are computed in vectors.
            np.testing.assert_allclose(result[name], array, rtol=1e-12)


def test_outputs_that_do_not_fit_are_refused(built: Callable[[str], TunedKernel]) -> None:
    kernel, inputs = built(TRAINING), training_inputs()
    saved = np.empty(3)
    for given, says in (
        ({"variance": saved}, "no output variance, only out, mean, invstd"),
        ((None, saved), "has the outputs out, mean, invstd"),
        ({"mean": np.empty(4)}, "mean must be float64 of shape"),
        ({"mean": saved, "invstd": saved}, "must not overlap"),
        ({"mean": inputs[1]}, "must not overlap"),
        (saved, "out must be"),
    ):
        with pytest.raises(UsageError, match=says):
            kernel(*inputs, out=given)  # type: ignore[arg-type]


def test_a_bound_kernel_computes_into_the_same_outputs(
    built: Callable[[str], TunedKernel],
) -> None:
    x, gamma, beta = training_inputs()
    call = built(TRAINING).bind(x, gamma, beta)
    first = [array.copy() for array in call()]
    x *= 2.0
    for again, once, held in zip(call(), first, call.out, strict=True):
        assert again is held
        assert not np.array_equal(again, once)


def test_arrays_that_cut_through_elements_are_copied_or_refused(
    built: Callable[[str], TunedKernel],
) -> None:
    kernel = built("relu:5")
    crooked = np.zeros(21, np.uint8)[1:].view(np.float32)
    crooked[...] = [-1, 2, -3, 4, -5]
    assert not crooked.flags.aligned
    np.testing.assert_array_equal(kernel(crooked), [0, 2, 0, 4, 0])
    with pytest.raises(UsageError, match="aligned to its elements"):
        kernel(np.zeros(5, np.float32), out=crooked)


def test_names_that_moved_say_where_they_are() -> None:
    with pytest.warns(DeprecationWarning, match=r"skipjack\.runtime\.TunedKernel"):
        assert tuning.TunedKernel is TunedKernel
    with pytest.raises(AttributeError, match="no attribute 'tuna'"):
        _ = tuning.tuna


def test_pickles_of_earlier_versions_find_their_functions() -> None:
    for module, name, now in (
        ("skipjack.tuning.lookup", "look_up_again", bank_lookup.look_up_again),
        ("skipjack.tuning.kernel_file", "found_again", kernel_file.found_again),
    ):
        assert pickle.loads(f"c{module}\n{name}\n.".encode()) is now


@pytest.fixture(autouse=True)
def planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_FIRST_PLAIN_CALLS", 0)


def twice(kernel: TunedKernel, *inputs: npt.NDArray[np.float32]) -> None:
    """The first call is checked by Python, those that follow by native code."""
    for _ in range(2):
        kernel(*inputs)
    assert kernel._plans


@pytest.mark.parametrize("warm", [False, True])
def test_every_call_is_checked(built: Callable[[str], TunedKernel], warm: bool) -> None:
    kernel = built("add:6x4")
    x, y = np.ones((6, 4), np.float32), np.ones((6, 4), np.float32)
    if warm:
        twice(kernel, x, y)
    frozen = np.empty((6, 4), np.float32)
    frozen.flags.writeable = False
    for inputs, out, says in (
        ((x,), None, "takes 2 arrays"),
        ((x, y, y), None, "takes 2 arrays"),
        ((x, y.tolist()), None, "y must be a NumPy array"),
        ((x, y[:5]), None, "y must be float32 of shape"),
        ((x, y.T), None, "y must be float32 of shape"),
        ((x, y.astype(np.float64)), None, "y must be float32"),
        ((x, y.astype(">f4")), None, "y must be float32"),
        ((x, y), np.empty((6, 5), np.float32), "out must be float32 of shape"),
        ((x, y), np.empty((6, 4)), "out must be float32"),
        ((x, y), np.empty((6, 8), np.float32)[:, ::2], "out is not contiguous, which"),
        ((x, y), frozen, "out is not writeable, which"),
        ((x, y), frozen[:, ::-1], "out is not contiguous and not writeable, which"),
        ((x, y), np.ma.array(np.empty((6, 4), np.float32)), "out is a masked array"),
        ((np.ma.array(x), y), None, "x is a masked array"),
        ((x, y), x, "must not overlap"),
        ((x, y), 1.0, "out must be a NumPy array, .*, not float"),
        ((x, y), [1.0], r"out\[0\] must be a NumPy array, .*, not float"),
    ):
        with pytest.raises(UsageError, match=says):
            kernel(*inputs, out=out)  # type: ignore[arg-type]


def test_later_calls_give_what_the_first_gave(built: Callable[[str], TunedKernel]) -> None:
    kernel = built("sub:6x4")
    rng = np.random.default_rng(0)
    x, y = rng.random((6, 4), np.float32), rng.random((6, 4), np.float32)
    twice(kernel, x, y)
    results = [kernel(x, y) for _ in range(3)]
    for result in results:
        np.testing.assert_array_equal(result, x - y)
        assert result.ctypes.data % 64 == 0 and result.flags.writeable
    assert not any(np.shares_memory(results[0], other) for other in results[1:])
    out = np.empty((6, 4), np.float32)
    assert kernel(x, y, out=out) is out
    np.testing.assert_array_equal(out, x - y)
    np.testing.assert_array_equal(kernel(x[::-1], y), x[::-1] - y)  # copied
    np.testing.assert_array_equal(kernel(x, y, out=[None]), x - y)
    assert kernel(x, y, out={"out": out}) is out


def test_an_array_that_is_bound_cannot_be_resized(built: Callable[[str], TunedKernel]) -> None:
    x, y = np.ones((6, 4), np.float32), np.ones((6, 4), np.float32)
    bound = built("add:6x4").bind(x, y)
    for array in (x, y):
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize((600, 400), refcheck=False)
    np.testing.assert_array_equal(bound(), x + y)
    del bound
    x.resize((600, 400), refcheck=False)


def test_threads_call_one_kernel_at_once(built: Callable[[str], TunedKernel]) -> None:
    kernel = built("matmul:33x21x17")
    rng = np.random.default_rng(0)
    pairs = [(rng.random((33, 17), np.float32), rng.random((17, 21), np.float32)) for _ in range(8)]

    def work(pair: tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]) -> bool:
        expected = pair[0] @ pair[1]
        return all(np.allclose(kernel(*pair), expected, rtol=1e-5) for _ in range(200))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, pairs))
    assert len(kernel._plans) <= 8


def test_a_call_does_not_import_the_masked_arrays() -> None:
    """A process that is forked while another thread imports them would wait for it for good."""
    script = (
        "import sys, numpy, skipjack; a = numpy.ones(64, numpy.float32); "
        "skipjack.lookup('add:64')(a, a); print('numpy.ma' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
