"""Strided copies with bounds: right for any loops and bounds, and no other memory is touched."""

from __future__ import annotations

import ctypes
import mmap
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cpus import skip_unless_it_runs_here
from skipjack.core import Device, numpy_dtype
from skipjack.native import GuardedArray, Slots, cpu, describe, llvm, scratch_slot
from skipjack.solvers.cpu.copy import OUT_SLOT, SOURCE_SLOT, Bound, Copy, CopyLoop, copy_stage
from skipjack.solvers.cpu.copy.plan import CopyError, InnerCopyKind, is_empty, plan_of
from skipjack.solvers.cpu.ir import IRStage, Rounds
from skipjack.solvers.cpu.ir.stages import compose, slots_of

Array = npt.NDArray[Any]
LOADER = llvm.Loader()
UNTOUCHED = -7.0
PAGE = mmap.PAGESIZE


@dataclass(frozen=True)
class Places:
    """The places of the elements of a copy, loop by loop."""

    out: Array
    source: Array
    valid: Array


def places(copy: Copy) -> Places:
    """The meaning of a copy, in simple code."""
    shape = tuple(loop.extent for loop in copy.loops)
    index = dict(zip((loop.name for loop in copy.loops), np.indices(shape), strict=True))
    zero = np.zeros(shape, np.int64)
    valid = np.ones(shape, bool)
    for bound in copy.bounds:
        total = sum((c * index[name] for name, c in bound.terms), zero + bound.constant)
        valid &= (total >= 0) & (total < bound.size)
    out = sum((loop.out * index[loop.name] for loop in copy.loops), zero + copy.out_offset)
    source = sum((loop.source * index[loop.name] for loop in copy.loops), zero + copy.source_offset)
    return Places(out, source, valid)


def fenced(count: int, dtype: str, behind: bool) -> tuple[Array, object]:
    """An array with a guard page directly after it, or directly before it."""
    kind = numpy_dtype(dtype)
    if behind:
        guarded = GuardedArray((count,), numpy_dtype(dtype), alignment=kind.itemsize)
        return guarded.array, guarded
    memory = mmap.mmap(-1, PAGE + max(1, count * kind.itemsize))
    whole = np.frombuffer(memory, np.uint8)
    forbidden = ctypes.c_void_p(whole.ctypes.data)
    assert ctypes.CDLL(None).mprotect(forbidden, ctypes.c_size_t(PAGE), 0) == 0
    return whole[PAGE : PAGE + count * kind.itemsize].view(kind), memory


def call(stages: list[IRStage], device: Device, arrays: dict[str, Array]) -> None:
    """Build and run."""
    code = llvm.compile_object(compose(stages), cpu.target_of(device))
    address = LOADER.load(code, "kernel")
    slots = Slots(slots_of(stages), arrays)
    llvm.c_function(address, ctypes.c_void_p)(slots.address)
    LOADER.unload(address)


def assert_right(
    copy: Copy, dtype: str = "f32", threads: int = 1, behind: bool = True, arch: str = ""
) -> None:
    """Run on a source that has only the needed elements, and a target that is larger."""
    device = describe(f"{arch}/1") if arch else cpu.detect()
    skip_unless_it_runs_here(device)
    where = places(copy)
    needed = where.source[where.valid]
    first, last = (int(needed.min()), int(needed.max())) if needed.size else (0, 0)
    low, high = (int(where.out.min()), int(where.out.max())) if where.out.size else (0, 0)
    copy = replace(copy, source_offset=copy.source_offset - first, out_offset=copy.out_offset - low)
    where = places(copy)
    source, _keep = fenced(last - first + 1, dtype, behind)
    out, fence = fenced(high - low + 1, dtype, behind)
    source[:] = np.arange(1, source.size + 1)
    out[:] = UNTOUCHED
    expected = out.copy()
    expected[where.out] = np.where(where.valid, source[np.where(where.valid, where.source, 0)], 0)
    call(
        [copy_stage(copy, "source", "out", dtype, device, threads)],
        device,
        {"source": source, "out": out},
    )
    np.testing.assert_array_equal(out, expected)
    assert not isinstance(fence, GuardedArray) or fence.intact()


# Copies that convolutions are made of


def padded_nhwc(n: int, h: int, w: int, c: int, pad: int) -> Copy:
    high, wide = h + 2 * pad, w + 2 * pad
    loops = (
        CopyLoop("n", n, high * wide * c, h * w * c),
        CopyLoop("h", high, wide * c, w * c),
        CopyLoop("w", wide, c, c),
        CopyLoop("c", c, 1, 1),
    )
    bounds = Bound((("h", 1),), -pad, h), Bound((("w", 1),), -pad, w)
    return Copy(loops, bounds, 0, -(w + 1) * pad * c)


def padded_nchw(c: int, h: int, w: int, pad: int) -> Copy:
    high, wide = h + 2 * pad, w + 2 * pad
    loops = (
        CopyLoop("c", c, high * wide, h * w),
        CopyLoop("h", high, wide, w),
        CopyLoop("w", wide, 1, 1),
    )
    bounds = Bound((("h", 1),), -pad, h), Bound((("w", 1),), -pad, w)
    return Copy(loops, bounds, 0, -(w + 1) * pad)


def nchw_to_nhwc(c: int, h: int, w: int, pad: int = 0) -> Copy:
    high, wide = h + 2 * pad, w + 2 * pad
    loops = CopyLoop("c", c, 1, h * w), CopyLoop("h", high, wide * c, w), CopyLoop("w", wide, c, 1)
    bounds = Bound((("h", 1),), -pad, h), Bound((("w", 1),), -pad, w)
    return Copy(loops, bounds, 0, -(w + 1) * pad)


def nhwc_to_nchw(c: int, h: int, w: int, pad: int = 0) -> Copy:
    high, wide = h + 2 * pad, w + 2 * pad
    loops = (
        CopyLoop("c", c, high * wide, 1),
        CopyLoop("h", high, wide, w * c),
        CopyLoop("w", wide, 1, c),
    )
    bounds = Bound((("h", 1),), -pad, h), Bound((("w", 1),), -pad, w)
    return Copy(loops, bounds, 0, -(w + 1) * pad * c)


def im2col(c: int, h: int, w: int, y: int, pad: int, stride: int = 1, dilation: int = 1) -> Copy:
    """For an NCHW image: rows of filter taps, columns of result pixels."""
    p, q = ((size + 2 * pad - (y - 1) * dilation - 1) // stride + 1 for size in (h, w))
    loops = (
        CopyLoop("c", c, y * y * p * q, h * w),
        CopyLoop("y", y, y * p * q, dilation * w),
        CopyLoop("x", y, p * q, dilation),
        CopyLoop("p", p, q, stride * w),
        CopyLoop("q", q, 1, stride),
    )
    bounds = (
        Bound((("p", stride), ("y", dilation)), -pad, h),
        Bound((("q", stride), ("x", dilation)), -pad, w),
    )
    return Copy(loops, bounds, 0, -(w + 1) * pad)


def im2col_nhwc(c: int, h: int, w: int, y: int, pad: int, stride: int = 1) -> Copy:
    """For an NHWC image: rows of result pixels, columns of filter taps."""
    p, q = ((size + 2 * pad - y) // stride + 1 for size in (h, w))
    loops = (
        CopyLoop("p", p, q * y * y * c, stride * w * c),
        CopyLoop("q", q, y * y * c, stride * c),
        CopyLoop("y", y, y * c, w * c),
        CopyLoop("x", y, c, c),
        CopyLoop("c", c, 1, 1),
    )
    bounds = (
        Bound((("p", stride), ("y", 1)), -pad, h),
        Bound((("q", stride), ("x", 1)), -pad, w),
    )
    return Copy(loops, bounds, 0, -(w + 1) * pad * c)


def zeros_between(c: int, h: int, w: int, stride: int, nhwc: bool) -> Copy:
    """Each axis in two loops, of which the inner one has an element only at its first step."""
    pixel, plane = (c, 1) if nhwc else (1, h * w)
    out_pixel, out_plane = (c, 1) if nhwc else (1, h * w * stride * stride)
    loops = (
        CopyLoop("c", c, out_plane, plane),
        CopyLoop("h", h, stride * stride * w * out_pixel, w * pixel),
        CopyLoop("r", stride, stride * w * out_pixel, 10**9),
        CopyLoop("w", w, stride * out_pixel, pixel),
        CopyLoop("s", stride, out_pixel, 10**9),
    )
    return Copy(loops, (Bound((("r", 1),), 0, 1), Bound((("s", 1),), 0, 1)))


def transposed(rows: int, columns: int) -> Copy:
    return Copy((CopyLoop("i", rows, 1, columns), CopyLoop("j", columns, rows, 1)))


def panels(k: int, c: int, size: int) -> Copy:
    """A matrix of k rows in panels of a width, the last one padded with zeros."""
    count = -(-k // size)
    loops = (
        CopyLoop("panel", count, c * size, size * c),
        CopyLoop("c", c, size, 1),
        CopyLoop("row", size, 1, c),
    )
    return Copy(loops, (Bound((("panel", size), ("row", 1)), 0, k),))


TYPICAL = {
    "pad nhwc": padded_nhwc(2, 5, 6, 7, 1),
    "pad nhwc, whole vectors": padded_nhwc(1, 5, 9, 64, 2),
    "pad nchw": padded_nchw(3, 5, 20, 2),
    "pad nchw, long rows": padded_nchw(2, 3, 300, 1),
    "nchw to nhwc": nchw_to_nhwc(20, 5, 7),
    "nchw to nhwc, padded": nchw_to_nhwc(37, 5, 19, 2),
    "nchw to nhwc, few channels": nchw_to_nhwc(3, 5, 19, 1),
    "nhwc to nchw": nhwc_to_nchw(20, 5, 7),
    "nhwc to nchw, padded": nhwc_to_nchw(37, 5, 19, 1),
    "nhwc to nchw, few channels": nhwc_to_nchw(3, 5, 37, 1),
    "im2col": im2col(3, 7, 9, 3, 1),
    "im2col, strided": im2col(2, 7, 39, 3, 1, 2),
    "im2col, strided and dilated": im2col(2, 9, 39, 3, 1, 3, 2),
    "im2col, long rows": im2col(2, 4, 200, 3, 1),
    "im2col, long strided rows": im2col(2, 4, 300, 3, 1, 2),
    "im2col nhwc": im2col_nhwc(5, 7, 9, 3, 1),
    "im2col nhwc, strided": im2col_nhwc(3, 9, 9, 7, 3, 2),
    "zeros between, nchw": zeros_between(2, 4, 19, 2, nhwc=False),
    "zeros between by threes, nchw": zeros_between(2, 4, 19, 3, nhwc=False),
    "zeros between, nhwc": zeros_between(20, 4, 5, 2, nhwc=True),
    "transposed": transposed(37, 50),
    "transposed, narrow": transposed(5, 50),
    "transposed, wide": transposed(50, 5),
    "panels": panels(50, 21, 6),
    "panels, whole": panels(64, 21, 16),
    "one walk": Copy((CopyLoop("i", 1000, 1, 1),)),
    "one long walk": Copy((CopyLoop("i", 20011, 1, 1),)),
    "two long walks": Copy((CopyLoop("i", 20011, 1, 1), CopyLoop("j", 2, 20020, 20011))),
    "backwards under a bound": Copy((CopyLoop("i", 100, 1, -1),), (Bound((("i", 1),), -3, 77),)),
    "subsampled to channels last": Copy(
        (CopyLoop("c", 20, 1, 15 * 35), CopyLoop("h", 8, 20 * 18, 70), CopyLoop("w", 18, 20, 2))
    ),
    "turned and flipped": Copy(
        (CopyLoop("k", 20, 1, 90), CopyLoop("c", 10, 20, 9), CopyLoop("t", 9, 200, -1))
    ),
    "spread": Copy(
        (CopyLoop("c", 3, 19 * 60, 90), CopyLoop("h", 3, 120, 30), CopyLoop("w", 30, 2, 1))
    ),
    "spread by threes": Copy((CopyLoop("c", 3, 19 * 90, 30), CopyLoop("w", 30, 3, 1))),
    "zeros with gaps": Copy((CopyLoop("i", 7, 50, 0), CopyLoop("j", 30, 1, 0)), (Bound((), 0, 0),)),
    "backwards": Copy((CopyLoop("i", 100, -1, 1),)),
    "one element for all": Copy((CopyLoop("i", 40, 1, 0), CopyLoop("j", 5, 40, 1))),
    "one element for some": Copy(
        (CopyLoop("i", 40, 1, 0), CopyLoop("j", 5, 40, 7)), (Bound((("i", 1), ("j", -9)), 0, 20),)
    ),
    "a bound in larger steps than its walk": Copy(
        (CopyLoop("x", 6, 4, 4), CopyLoop("c", 4, 1, 1)), (Bound((("x", 2),), -3, 6),)
    ),
    "a bound against its walk": Copy(
        (CopyLoop("x", 6, 4, 4), CopyLoop("c", 4, 1, 1)), (Bound((("x", -1),), 4, 3),)
    ),
    "nothing but zeros": Copy((CopyLoop("i", 40, 1, 1),), (Bound((), -1, 3),)),
    "a single element": Copy(()),
    "nothing at all": Copy((CopyLoop("i", 0, 1, 1), CopyLoop("j", 5, 1, 1))),
}


@pytest.mark.parametrize("name", TYPICAL)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_what_convolutions_copy_is_right(dtype: str, threads: int, name: str) -> None:
    assert_right(TYPICAL[name], dtype, threads)


@pytest.mark.parametrize("name", TYPICAL)
@pytest.mark.parametrize("arch", ["haswell", "x86-64-v2"])
def test_narrower_vectors_are_right(arch: str, name: str) -> None:
    assert_right(TYPICAL[name], arch=arch)


@pytest.mark.parametrize("name", TYPICAL)
def test_nothing_in_front_of_the_source_is_touched(name: str) -> None:
    assert_right(TYPICAL[name], behind=False)


@pytest.mark.parametrize("name", TYPICAL)
def test_code_for_arm_builds(name: str) -> None:
    device = describe("aarch64/1")
    stage = copy_stage(TYPICAL[name], "source", "out", "f32", device)
    assert llvm.compile_object(stage.write(), cpu.target_of(device))


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    """Any loops whose targets differ, over a source in any order, with one or two bounds."""
    extents = draw(st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 17, 33, 70]), max_size=4))
    while prod(extents) > 6000:
        extents.pop()
    names = "abcd"[: len(extents)]
    outs, sources = (draw(_strides(extents)) for _ in range(2))
    free = st.integers(-5, 5)
    sources = [draw(free) if draw(st.integers(0, 5)) == 0 else stride for stride in sources]
    loops = tuple(map(CopyLoop, names, extents, outs, sources))
    if not names:
        return Copy(loops)
    term = st.tuples(st.sampled_from(names), st.integers(-2, 3))
    terms = st.lists(term, max_size=2).map(tuple)
    bounds = st.lists(st.builds(Bound, terms, st.integers(-9, 9), st.integers(1, 40)), max_size=2)
    return Copy(loops, tuple(draw(bounds)))


@st.composite
def _strides(draw: st.DrawFn, extents: list[int]) -> list[int]:
    """Strides of an array with these extents in any order, perhaps with gaps or backwards."""
    order = draw(st.permutations(range(len(extents))))
    strides, size = [0] * len(extents), draw(st.sampled_from([1, 1, 1, 2, 3]))
    for axis in order:
        strides[axis] = size * draw(st.sampled_from([1, 1, 1, 1, -1]))
        size = size * extents[axis] + draw(st.sampled_from([0, 0, 0, 1, 5]))
    return strides


@settings(deadline=None, max_examples=120)
@given(copies(), st.sampled_from(["f32", "f64"]), st.sampled_from([1, 2]), st.booleans())
def test_any_copy_is_right(copy: Copy, dtype: str, threads: int, behind: bool) -> None:
    assert_right(copy, dtype, threads, behind)


@settings(deadline=None, max_examples=40)
@given(copies(), st.sampled_from(["f32", "f64"]))
def test_any_copy_is_right_with_narrower_vectors(copy: Copy, dtype: str) -> None:
    assert_right(copy, dtype, arch="haswell")


@pytest.mark.parametrize("name", [name for name in TYPICAL if not is_empty(TYPICAL[name])])
def test_a_plan_means_the_same_as_a_typical_copy(name: str) -> None:
    assert_same_meaning(TYPICAL[name])


@settings(deadline=None, max_examples=200)
@given(copies())
def test_a_plan_means_the_same_as_any_copy(copy: Copy) -> None:
    assert_same_meaning(copy)


def assert_same_meaning(copy: Copy) -> None:
    """The meanings of a copy and of its plan."""
    plan = plan_of(copy)
    bounds = (*plan.bounds, Bound((), -1, 1)) if plan.only_zeros else plan.bounds
    again = Copy(plan.loops, bounds, plan.out_offset, plan.source_offset)
    assert meaning(again) == meaning(copy)


def meaning(copy: Copy) -> dict[int, int | None]:
    """The element of the source for each of the target."""
    where = places(copy)
    flat = zip(where.out.flat, where.source.flat, where.valid.flat, strict=True)
    return {int(out): int(source) if valid else None for out, source, valid in flat}


@pytest.mark.parametrize(
    ("copy", "inner_kind"),
    [
        (padded_nhwc(1, 5, 6, 7, 1), InnerCopyKind.ROW),
        (im2col(2, 7, 39, 3, 1, 2), InnerCopyKind.ROW),
        (nchw_to_nhwc(20, 5, 7, 1), InnerCopyKind.TRANSPOSED),
        (panels(50, 21, 6), InnerCopyKind.TRANSPOSED),
        (nchw_to_nhwc(3, 5, 7), InnerCopyKind.INTERLEAVED),
        (zeros_between(2, 4, 19, 2, nhwc=False), InnerCopyKind.INTERLEAVED),
        (Copy((CopyLoop("i", 9, 7, 1),)), InnerCopyKind.ELEMENT),
    ],
)
def test_walks_decide_the_way_of_copying(copy: Copy, inner_kind: InnerCopyKind) -> None:
    assert plan_of(copy).inner_kind is inner_kind


def test_a_padded_row_of_pixels_is_one_walk() -> None:
    assert [loop.extent for loop in plan_of(padded_nhwc(1, 5, 6, 7, 1)).loops] == [7, 8 * 7]


def test_stages_may_move_from_round_to_round() -> None:
    device = cpu.detect()
    between = scratch_slot("between", 4 * 35)
    there = copy_stage(transposed(5, 7), "source", between, "f32", device, 1)
    back = copy_stage(transposed(7, 5), between, "out", "f32", device, 1)
    rounds = Rounds(
        3, (replace(there, moves={SOURCE_SLOT: 4 * 35}), replace(back, moves={OUT_SLOT: 4 * 35}))
    )
    source = np.arange(105, dtype="float32")
    out = np.zeros_like(source)
    code = llvm.compile_object(compose([rounds]), cpu.target_of(device))
    slots = Slots(slots_of([rounds]), {"source": source, "out": out})
    llvm.c_function(LOADER.load(code, "kernel"), ctypes.c_void_p)(slots.address)
    np.testing.assert_array_equal(out, source)


@pytest.mark.parametrize(
    ("copy", "reason"),
    [
        (Copy((CopyLoop("i", 3, 0, 1),)), "writes the same element 3 times"),
        (Copy((CopyLoop("i", 3, 1, 1), CopyLoop("i", 2, 3, 3))), "have the same name"),
        (Copy((CopyLoop("i", 3, 1, 1),), (Bound((("j", 1),), 0, 2),)), "names j"),
        (Copy((CopyLoop("i", 1 << 29, 1, 1),), (Bound((("i", 1),), 0, 2),)), "split it"),
    ],
)
def test_copies_without_a_meaning_are_refused(copy: Copy, reason: str) -> None:
    with pytest.raises(CopyError, match=reason):
        copy_stage(copy, "source", "out", "f32", cpu.detect()).write()
