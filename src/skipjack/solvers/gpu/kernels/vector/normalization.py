"""Normalisations of rows: softmax, logsoftmax, layer norm, RMS norm."""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.vector.scalar import widened

_LOG2E = tl.constexpr(1.4426950408889634)
_LOW = tl.constexpr(float("-inf"))


@triton.jit
def _power(x):
    """``e**x`` for x up to 0, with a relative error that may grow with the magnitude of x."""
    return tl.exp(x) if x.dtype == tl.float64 else tl.exp2(x * _LOG2E)


@triton.jit
def _exponential(NAME: tl.constexpr, x):
    shifted = x - tl.max(x, 1)[:, None]
    power = _power(shifted)
    total = tl.sum(power, 1)
    if NAME == "softmax":
        return power * (1.0 / total)[:, None]
    else:
        return shifted - tl.log(total)[:, None]


@triton.jit
def _scaled(NAME: tl.constexpr, x, there, share, eps, MASKED: tl.constexpr):
    """The rows, their means and their scales; the mean is 0 if none is subtracted."""
    centre = tl.zeros((x.shape[0],), x.dtype)
    if NAME == "layernorm":
        centre = tl.sum(x, 1) * share
        x -= centre[:, None]
        if MASKED:
            x = tl.where(there, x, 0.0)
    scale = tl.rsqrt(tl.sum(x * x, 1) * share + eps)
    return x * scale[:, None], centre, scale


@triton.jit
def _vector(vector, column, here, EVEN: tl.constexpr):
    if EVEN:
        return tl.load(vector + column, eviction_policy="evict_last")
    else:
        return tl.load(vector + column, here, 0.0, eviction_policy="evict_last")


@triton.jit
def whole(
    x,
    gamma,
    beta,
    out,
    mean,
    invstd,
    count,
    columns,
    share,
    eps,
    NAME: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
    PERSISTENT: tl.constexpr,
    STAGES: tl.constexpr,
    HINT: tl.constexpr,
):
    """Rows that fit in registers; `BLOCK` is the length of a row, rounded up to a power of two.

    Persistent programs process groups of rows in turn and keep the vectors in registers; other
    programs load the vectors late, when the registers of the sums are free again. `mean` and
    `invstd` are written if they are given, one element for each row.
    """
    column = tl.arange(0, BLOCK)[None, :]
    here = column < columns
    scaled: tl.constexpr = gamma is not None
    shifted: tl.constexpr = beta is not None
    if PERSISTENT and scaled:
        kept_factor = _vector(gamma, column, here, EVEN)
    if PERSISTENT and shifted:
        kept_term = _vector(beta, column, here, EVEN)
    other: tl.constexpr = 0.0 if scaled else _LOW
    last = tl.cdiv(count, ROWS) if PERSISTENT else tl.program_id(0) + 1
    for group in tl.range(tl.program_id(0), last, tl.num_programs(0), num_stages=STAGES):
        row = group * ROWS + tl.arange(0, ROWS)[:, None]
        at = row.to(tl.int64) * columns + column
        there = row < count if EVEN else (row < count) & here
        if ROWS == 1 and EVEN:
            value = widened(tl.load(x + at, eviction_policy=HINT))
        else:
            value = widened(tl.load(x + at, there, other, eviction_policy=HINT))
        if scaled:
            result, centre, scale = _scaled(NAME, value, there, share, eps, not EVEN)
            if mean is not None:
                one = group * ROWS + tl.arange(0, ROWS)
                tl.store(mean + one, centre, one < count)
                tl.store(invstd + one, scale, one < count)
            factor = kept_factor if PERSISTENT else _vector(gamma, column, here, EVEN)
            result *= widened(factor)
            if shifted:
                term = kept_term if PERSISTENT else _vector(beta, column, here, EVEN)
                result += widened(term)
        else:
            result = _exponential(NAME, value)
        result = result.to(out.dtype.element_ty)
        if ROWS == 1 and EVEN:
            tl.store(out + at, result, eviction_policy=HINT)
        else:
            tl.store(out + at, result, there, eviction_policy=HINT)


@triton.jit
def _middle(x, y, z):
    return tl.maximum(tl.minimum(x, y), tl.minimum(tl.maximum(x, y), z))


@triton.jit
def long(
    x,
    gamma,
    beta,
    out,
    mean,
    invstd,
    columns,
    share,
    eps,
    NAME: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    HINT: tl.constexpr,
):
    """A row in blocks, in two passes: for its statistics, then for its elements.

    Softmax keeps a maximum, and a sum that is rescaled when the maximum grows. Layer norm sums
    differences to the median of three elements, so that little precision is lost.
    """
    x += tl.program_id(0).to(tl.int64) * columns
    out += tl.program_id(0).to(tl.int64) * columns
    at = tl.arange(0, BLOCK)
    kind = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    first = tl.zeros((BLOCK,), kind)
    second = tl.zeros((BLOCK,), kind)
    exponential: tl.constexpr = (NAME == "softmax") or (NAME == "logsoftmax")
    if NAME == "layernorm":
        shift = _middle(
            widened(tl.load(x)),
            widened(tl.load(x + columns // 2)),
            widened(tl.load(x + columns - 1)),
        )
    else:
        shift = 0.0
    if exponential:
        first += _LOW
    for start in tl.range(0, columns, BLOCK, num_stages=STAGES):
        there = start + at < columns
        if exponential:
            value = widened(tl.load(x + start + at, there, _LOW, eviction_policy="evict_last"))
            largest = tl.maximum(first, value)
            # A lane that has seen nothing or only minus infinity must not produce NaN.
            known = tl.maximum(largest, -3.0e38)
            second = second * _power(first - known) + _power(value - known)
            first = largest
        else:
            value = widened(tl.load(x + start + at, there, 0.0, eviction_policy="evict_last"))
            away = tl.where(there, value - shift, 0.0)
            first += away
            second += away * away
    if exponential:
        largest = tl.max(first, 0)
        total = tl.sum(second * _power(first - largest), 0)
        scale = tl.log(total) if NAME == "logsoftmax" else 1.0 / total
    else:
        centre = tl.sum(first, 0) * share
        square = tl.sum(second, 0) * share
        if NAME == "layernorm":
            square = tl.maximum(square - centre * centre, 0.0)
        scale = tl.rsqrt(square + eps)
        largest = centre + shift
        if mean is not None:
            tl.store(mean + tl.program_id(0), largest)
            tl.store(invstd + tl.program_id(0), scale)
    for start in tl.range(0, columns, BLOCK, num_stages=STAGES):
        there = start + at < columns
        value = widened(tl.load(x + start + at, there, 0.0, eviction_policy=HINT))
        if NAME == "softmax":
            value = _power(value - largest) * scale
        elif NAME == "logsoftmax":
            value = value - largest - scale
        elif NAME == "layernorm":
            factor = widened(tl.load(gamma + start + at, there, 0.0, eviction_policy="evict_last"))
            term = widened(tl.load(beta + start + at, there, 0.0, eviction_policy="evict_last"))
            value = (value - largest) * scale * factor + term
        else:
            factor = widened(tl.load(gamma + start + at, there, 0.0, eviction_policy="evict_last"))
            value = value * scale * factor
        result = value.to(out.dtype.element_ty)
        tl.store(out + start + at, result, there, eviction_policy=HINT)
