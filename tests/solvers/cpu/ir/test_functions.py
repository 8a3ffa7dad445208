"""Functions without code in LLVM keep to their stated errors, everywhere and at the edges."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from cpus import HASWELL, NEHALEM, NEOVERSE_N1, SKYLAKE_AVX512
from skipjack.core import Access, Call, Device, Load, Nest, Tensor, index, numpy_dtype
from skipjack.core.nest import UNARY
from skipjack.native import detect, llvm, target_of
from skipjack.solvers.cpu.ir.functions import ERROR_ULP, FUNCTIONS, GELU_ERROR_EPS
from skipjack.solvers.cpu.nest import Schedule
from skipjack.solvers.cpu.nest_code.kernel import generate

Array = npt.NDArray[Any]
Runner = Callable[..., Array]
Exact = Callable[[Array], Array]
GELUS = ("gelu", "gelu_tanh")
VECTOR = {"f32": 16, "f64": 8}
ROOT = next(
    path for path in Path(__file__).resolve().parents if (path / "pyproject.toml").is_file()
)
DOCUMENT = ROOT / "docs" / "problems.md"

fused = pytest.mark.skipif(
    detect().vector_bytes < 32 and not detect().arch.startswith(("apple", "cortex", "neoverse")),
    reason="errors are stated for CPUs with fused multiply-add",
)


def nest_of(name: str, size: int) -> Nest:
    return Nest(
        loops=(("i", size),),
        inputs=(Access(Tensor("x", (size,)), (index("i"),)),),
        output=Access(Tensor("y", (size,)), (index("i"),)),
        body=Call(name, (Load(0),)),
    )


def apply(run_ir: Runner, name: str, x: Array, dtype: str, lanes: int = 0) -> Array:
    lanes = lanes or VECTOR[dtype]
    schedule = Schedule.parse(f"i:{lanes} i/v" if lanes > 1 else "i")
    text = generate(nest_of(name, x.size), schedule, dtype, lanes)
    return run_ir(text, dtype, [x.astype(numpy_dtype(dtype))], (x.size,))


def sigmoid(x: Array) -> Array:
    """Right to the end of the left tail."""
    e = np.exp(-np.abs(x))
    return np.asarray(np.where(x < 0, e, 1) / (1 + e))


def silu(x: Array) -> Array:
    return np.asarray(np.where(x < -2000, -0.0, x * sigmoid(x)))


def gelu(x: Array) -> Array:
    erfc = np.vectorize(math.erfc, otypes=[np.float64])
    return np.asarray(np.where(x < -60, -0.0, 0.5 * x * erfc((-x * math.sqrt(0.5)).astype(float))))


def gelu_tanh(x: Array) -> Array:
    inner = np.sqrt(8 / np.arccos(x.dtype.type(-1))) * (x + x.dtype.type(0.044715) * x**3)
    return np.asarray(np.where(x < -60, -0.0, x * sigmoid(inner)))


def erf(x: Array) -> Array:
    """Python's in double; beyond, exp(-x**2) times a series without cancellation."""
    if x.dtype == np.float64:
        return np.vectorize(math.erf, otypes=[np.float64])(x)
    near = np.clip(x, -7, 7)
    twice_square = 2 * near * near
    term, total, count = near, near, 1
    while (np.abs(term) > np.finfo(x.dtype).eps / 8 * np.abs(total)).any():
        count += 2
        term = term * twice_square / count
        total = total + term
    root = np.sqrt(np.arccos(x.dtype.type(-1)))
    return np.asarray(np.clip(2 / root * np.exp(-near * near) * total, -1, 1))


EXACT: dict[str, Exact] = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": erf,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": sigmoid,
    "silu": silu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
}


def errors_ulp(result: Array, exact: Array) -> Array:
    """Distance in units of the last place of the rounded exact value; inf where kinds differ."""
    rounded = exact.astype(result.dtype)
    finite = np.isfinite(rounded) & np.isfinite(result)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    errors = np.where(same, 0.0, np.inf)
    unit = np.spacing(np.abs(rounded[finite])).astype(exact.dtype)
    errors[finite] = np.abs(result[finite].astype(exact.dtype) - exact[finite]) / unit
    return errors


def largest_error(name: str, x: Array, result: Array, wide: Any) -> float:
    with np.errstate(all="ignore"):
        exact = EXACT[name](x.astype(wide)).astype(wide)
        if name not in GELUS:
            return float(errors_ulp(result, exact).max())
        bound = (
            np.finfo(x.dtype).eps * np.abs(x.astype(wide)) + np.finfo(x.dtype).smallest_subnormal
        )
        same = (result == exact) | (np.isnan(result) & np.isnan(exact))
        return float(np.where(same, 0.0, np.abs(result.astype(wide) - exact) / bound).max())


def stated(name: str, dtype: str) -> float:
    return GELU_ERROR_EPS if name in GELUS else ERROR_ULP[name][dtype]


BREAKS = {
    "f32": [-110, -104, -103.97208, -103.27893, -88.72284, -87.33655, 88.72283, 89],
    "f64": [-760, -746, -745.1332191019412, -708.3964185322641, 709.782712893384, 710],
}
COMMON = [0.0, 0.5, 1.0, math.sqrt(0.5), math.sqrt(2), 2.0, math.log(2) / 2, 4.2, 6.1, 10.0, 21.0]


def neighbours_of_breaks(dtype: str) -> Array:
    """The points where the code switches formulas, and a few numbers on each side."""
    kind = numpy_dtype(dtype)
    values = np.array([*BREAKS[dtype], *COMMON, *(-c for c in COMMON)], kind)
    limits = np.finfo(kind)
    values = np.r_[values, limits.tiny, limits.max, limits.smallest_subnormal, np.inf, np.nan]
    values = np.r_[values, -values].astype(kind)
    around, up, down = [values], values, values
    with np.errstate(all="ignore"):
        for _ in range(8):
            up, down = np.nextafter(up, kind.type(np.inf)), np.nextafter(down, kind.type(-np.inf))
            around += [up, down]
    return np.concatenate(around)


def samples(dtype: str, spread: int, dense: int) -> Array:
    """All exponents and signs alike, the interesting range densely, the breaks."""
    kind, rng = numpy_dtype(dtype), np.random.default_rng(7)
    word = {"f32": np.uint32, "f64": np.uint64}[dtype]
    patterns = rng.integers(0, 2 ** (8 * kind.itemsize), spread, dtype=word).view(kind)
    reach = {"f32": (-115, 92), "f64": (-770, 715)}[dtype]
    middle = [rng.uniform(-7, 7, dense), rng.uniform(-25, 25, dense), rng.uniform(*reach, dense)]
    near_one = 1 + rng.uniform(-0.5, 0.5, dense) ** 3
    return np.concatenate(
        [
            patterns,
            *(part.astype(kind) for part in (*middle, near_one)),
            neighbours_of_breaks(dtype),
        ]
    )


def test_every_function_has_code_and_a_stated_error() -> None:
    assert FUNCTIONS <= UNARY
    assert set(EXACT) == FUNCTIONS == set(ERROR_ULP) | set(GELUS)


@fused
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_f32_is_within_its_stated_error_over_all_exponents(run_ir: Runner, name: str) -> None:
    x = samples("f32", 1 << 20, 1 << 17)
    result = apply(run_ir, name, x, "f32")
    assert largest_error(name, x, result, np.float64) <= stated(name, "f32")


@fused
@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs a type wider than double")
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_f64_is_within_its_stated_error_over_all_exponents(run_ir: Runner, name: str) -> None:
    x = samples("f64", 1 << 16, 1 << 15)
    result = apply(run_ir, name, x, "f64")
    assert largest_error(name, x, result, np.longdouble) <= stated(name, "f64")


ROUNDED: dict[str, Exact] = {"sqrt": np.sqrt, "reciprocal": lambda x: 1 / x, "square": np.square}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs a type wider than double")
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(ROUNDED))
def test_what_a_cpu_has_an_instruction_for_is_rounded_correctly(
    run_ir: Runner, name: str, dtype: str
) -> None:
    x = samples(dtype, 1 << 16, 1 << 12)
    result = apply(run_ir, name, x, dtype)
    with np.errstate(all="ignore"):
        exact = ROUNDED[name](x.astype(np.longdouble))
        # Rounded twice, the exact value may be off by slightly more than half a unit.
        assert float(errors_ulp(result, exact).max()) <= 0.5 + 2**-9


def document_table() -> dict[str, tuple[str, str]]:
    """The two stated errors of each function, as documented for users."""
    rows = re.findall(
        r"^\| `(\w+)` \| [^|]+ \| ([\d.]+ \w+) \| ([\d.]+ \w+) \|", DOCUMENT.read_text(), re.M
    )
    return {name: (single, double) for name, single, double in rows}


def test_the_document_states_the_errors_that_are_tested() -> None:
    expected = {
        name: tuple(f"{errors[dtype]:g} ulp" for dtype in ("f32", "f64"))
        for name, errors in ERROR_ULP.items()
    }
    expected |= dict.fromkeys(ROUNDED, ("0.5 ulp",) * 2)
    expected |= dict.fromkeys(GELUS, (f"{GELU_ERROR_EPS:g} eps",) * 2)
    assert document_table() == expected


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("name", "at", "expected"),
    [
        ("exp", [-np.inf, np.inf, 0.0, -0.0, np.nan], [0.0, np.inf, 1.0, 1.0, np.nan]),
        ("log", [0.0, -0.0, 1.0, np.inf, np.nan], [-np.inf, -np.inf, 0.0, np.inf, np.nan]),
        ("log", [-1.0, -np.inf, -1e-40], [np.nan] * 3),
        ("tanh", [-np.inf, np.inf, 0.0, -0.0, np.nan], [-1.0, 1.0, 0.0, -0.0, np.nan]),
        ("erf", [-np.inf, np.inf, 0.0, -0.0, np.nan], [-1.0, 1.0, 0.0, -0.0, np.nan]),
        ("rsqrt", [0.0, -0.0, np.inf, -1.0, np.nan], [np.inf, -np.inf, 0.0, np.nan, np.nan]),
        ("sigmoid", [-np.inf, np.inf, 0.0, -0.0, np.nan], [0.0, 1.0, 0.5, 0.5, np.nan]),
        ("silu", [-np.inf, np.inf, 0.0, -0.0, np.nan], [-0.0, np.inf, 0.0, -0.0, np.nan]),
        ("gelu", [-np.inf, np.inf, 0.0, -0.0, np.nan], [-0.0, np.inf, 0.0, -0.0, np.nan]),
        ("gelu_tanh", [-np.inf, np.inf, 0.0, -0.0, np.nan], [-0.0, np.inf, 0.0, -0.0, np.nan]),
    ],
)
def test_special_values_and_the_signs_of_zeros(
    run_ir: Runner, name: str, at: list[float], expected: list[float], dtype: str
) -> None:
    wanted = np.array(expected)
    result = apply(run_ir, name, np.array(at), dtype)
    np.testing.assert_array_equal(result, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("name", "far_left", "far_right"),
    [
        ("exp", 0.0, np.inf),
        ("tanh", -1.0, 1.0),
        ("erf", -1.0, 1.0),
        ("sigmoid", 0.0, 1.0),
        ("silu", -0.0, None),
        ("gelu", -0.0, None),
        ("gelu_tanh", -0.0, None),
    ],
)
def test_large_arguments_have_the_limits(
    run_ir: Runner, name: str, far_left: float, far_right: float | None, dtype: str
) -> None:
    """The largest numbers too, whose squares and cubes overflow on the way."""
    kind = numpy_dtype(dtype)
    far = np.r_[np.geomspace(1e3, 1e38, 50), np.finfo(kind).max].astype(kind)
    left, right = apply(run_ir, name, -far, dtype), apply(run_ir, name, far, dtype)
    np.testing.assert_array_equal(left, np.full(far.size, far_left, kind))
    assert (np.signbit(left) == np.signbit(far_left)).all()
    np.testing.assert_array_equal(right, far if far_right is None else np.full(far.size, far_right))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exp", lambda x: np.ones_like(x)),
        ("tanh", lambda x: x),
        ("sigmoid", lambda x: np.full_like(x, 0.5)),
        ("silu", lambda x: x / 2),
        ("sqrt", np.sqrt),
        ("square", lambda x: np.zeros_like(x)),
        ("log", lambda x: np.log(x.astype(np.longdouble)).astype(x.dtype)),
        ("rsqrt", lambda x: (1 / np.sqrt(x.astype(np.longdouble))).astype(x.dtype)),
    ],
)
def test_denormals_are_not_flushed(run_ir: Runner, name: str, expected: Exact, dtype: str) -> None:
    kind = numpy_dtype(dtype)
    x = np.finfo(kind).smallest_subnormal * np.array([2.0, 6.0, 64.0, 4094.0]).astype(kind)
    assert (x < np.finfo(kind).tiny).all()
    np.testing.assert_array_max_ulp(apply(run_ir, name, x, dtype), expected(x), 2)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_the_number_of_lanes_and_a_masked_tail_change_nothing(
    run_ir: Runner, name: str, dtype: str
) -> None:
    x = np.random.default_rng(3).uniform(-9, 9, 77).astype(numpy_dtype(dtype))
    wide = apply(run_ir, name, x, dtype, 16)
    for lanes in (1, 4, 8):
        np.testing.assert_array_equal(apply(run_ir, name, x, dtype, lanes), wide)
    np.testing.assert_array_equal(apply(run_ir, name, x[:3], dtype, 16), wide[:3])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["tanh", "erf", "sigmoid"])
def test_what_grows_to_one_stays_there(run_ir: Runner, name: str, dtype: str) -> None:
    x = np.concatenate([np.linspace(3, 45, 20001), np.geomspace(45, 1e30, 1000)])
    result = apply(run_ir, name, x, dtype)
    assert (result <= 1.0).all()
    assert (result[x >= 40] == 1.0).all()
    steps = np.diff(result)
    assert (steps >= -8 * np.finfo(numpy_dtype(dtype)).eps).all()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_functions_are_odd_to_the_last_bit(run_ir: Runner, name: str, dtype: str) -> None:
    x = np.random.default_rng(5).uniform(0, 8, 4096)
    positive, negative = (apply(run_ir, name, sign * x, dtype) for sign in (1, -1))
    np.testing.assert_array_equal(positive, -negative)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_exp_and_log_grow_across_the_seams_of_their_reductions(run_ir: Runner, dtype: str) -> None:
    seams = np.concatenate(
        [(n + 0.5) * math.log(2) + np.linspace(-0.01, 0.01, 201) for n in range(-9, 9)]
    )
    assert (np.diff(apply(run_ir, "exp", seams, dtype)) > 0).all()
    seams = np.concatenate(
        [2.0**n * math.sqrt(0.5) * np.linspace(0.99, 1.01, 201) for n in range(-9, 9)]
    )
    assert (np.diff(apply(run_ir, "log", seams, dtype)) > 0).all()


@pytest.mark.parametrize(
    "device", [NEHALEM, HASWELL, SKYLAKE_AVX512, NEOVERSE_N1], ids=lambda device: device.arch
)
@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_no_target_calls_a_library(name: str, device: Device) -> None:
    text = generate(nest_of(name, 64), Schedule.parse("i:8 i/v"), "f32", 8)
    listing = llvm.assembly(text, target_of(device))
    assert not [line for line in listing.splitlines() if line.split()[:1] in (["callq"], ["bl"])]
