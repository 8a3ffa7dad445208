"""Batch normalisation of ``x[images, channels, area]``: partial sums of channels, then elements.

A part has two sums. In training they are those of the differences to the median of three elements
of the channel, and of their squares; in the gradient, those of dy and of dy times the centred x.
"""

import triton
import triton.language as tl

from skipjack.solvers.gpu.kernels.vector.scalar import widened


@triton.jit
def _shift(x, channel, images, channels, area):
    """The median of the channel's first, middle and last element."""
    x += channel.to(tl.int64) * area
    step = tl.cast(channels, tl.int64) * area
    a = widened(tl.load(x))
    b = widened(tl.load(x + images // 2 * step + area // 2))
    c = widened(tl.load(x + (images - 1) * step + area - 1))
    return tl.maximum(tl.minimum(a, b), tl.minimum(tl.maximum(a, b), c))


@triton.jit
def _place(unit, channel, images, channels, area, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Offsets of the elements of a tile, and the mask of those that exist."""
    blocks = tl.cdiv(area, BLOCK)
    image = (unit // blocks * ROWS + tl.arange(0, ROWS))[:, None]
    position = (unit % blocks * BLOCK + tl.arange(0, BLOCK))[None, :]
    at = (image.to(tl.int64) * channels + channel) * area + position
    return at, (image < images) & (position < area)


@triton.jit
def partial(
    x,
    dy,
    mean,
    sums,
    images,
    channels,
    area,
    parts,
    BACKWARD: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    """``sums[channels, 2, parts]``; a part is every `parts`-th tile of a channel."""
    part = tl.program_id(0) % parts
    channel = tl.program_id(0) // parts
    kind = tl.float64 if x.dtype.element_ty == tl.float64 else tl.float32
    first = tl.zeros((ROWS, BLOCK), kind)
    second = tl.zeros((ROWS, BLOCK), kind)
    if BACKWARD:
        centre = widened(tl.load(mean + channel))
    else:
        centre = _shift(x, channel, images, channels, area)
    units = tl.cdiv(images, ROWS) * tl.cdiv(area, BLOCK)
    for unit in tl.range(part, units, parts, num_stages=STAGES):
        at, there = _place(unit, channel, images, channels, area, ROWS, BLOCK)
        away = widened(tl.load(x + at, there, 0.0, eviction_policy="evict_last")) - centre
        if BACKWARD:
            slope = widened(tl.load(dy + at, there, 0.0, eviction_policy="evict_last"))
            first += slope
            second += slope * away
        else:
            away = tl.where(there, away, 0.0)
            first += away
            second += away * away
    to = sums + channel * 2 * parts + part
    tl.store(to, tl.sum(tl.sum(first, 1), 0))
    tl.store(to + parts, tl.sum(tl.sum(second, 1), 0))


@triton.jit
def apply(
    x,
    dy,
    gamma,
    beta,
    mean,
    deviation,
    sums,
    out,
    first_out,
    second_out,
    images,
    channels,
    area,
    parts,
    share,
    eps,
    MODE: tl.constexpr,
    PARTS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    HINT: tl.constexpr,
):
    """A tile of the output; the first tile of a channel also writes the values of the channel.

    `deviation` is the variance in inference, and one over its root in the gradient; `share` is one
    over the number of elements of a channel; `PARTS` is the number of parts, rounded up to a power
    of two.
    """
    units = tl.cdiv(images, ROWS) * tl.cdiv(area, BLOCK)
    # From the end, which the sums have left in the cache.
    unit = units - 1 - tl.program_id(0) % units
    channel = channels - 1 - tl.program_id(0) // units
    at, there = _place(unit, channel, images, channels, area, ROWS, BLOCK)
    value = widened(tl.load(x + at, there, 0.0, eviction_policy=HINT))
    slope = widened(tl.load(dy + at, there, 0.0, eviction_policy=HINT)) if MODE == 2 else value
    factor = widened(tl.load(gamma + channel))
    if MODE != 0:
        part = tl.arange(0, PARTS)
        first = tl.sum(tl.load(sums + channel * 2 * parts + part, part < parts, 0.0), 0)
        second = tl.sum(tl.load(sums + (channel * 2 + 1) * parts + part, part < parts, 0.0), 0)
    if MODE == 0:
        centre = widened(tl.load(mean + channel))
        scale = tl.rsqrt(widened(tl.load(deviation + channel)) + eps)
        result = (value - centre) * (factor * scale) + widened(tl.load(beta + channel))
    elif MODE == 1:
        away = first * share
        centre = _shift(x, channel, images, channels, area) + away
        scale = tl.rsqrt(tl.maximum(second * share - away * away, 0.0) + eps)
        result = (value - centre) * (factor * scale) + widened(tl.load(beta + channel))
        if unit == 0:
            tl.store(first_out + channel, centre.to(first_out.dtype.element_ty))
            tl.store(second_out + channel, scale.to(second_out.dtype.element_ty))
    else:
        centre = widened(tl.load(mean + channel))
        scale = widened(tl.load(deviation + channel))
        across = (value - centre) * (second * share * scale * scale)
        result = (slope - first * share - across) * (factor * scale)
        if unit == 0:
            tl.store(first_out + channel, (second * scale).to(first_out.dtype.element_ty))
            tl.store(second_out + channel, first.to(second_out.dtype.element_ty))
    tl.store(out + at, result.to(out.dtype.element_ty), there, eviction_policy=HINT)
