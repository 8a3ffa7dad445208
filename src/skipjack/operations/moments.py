"""Mean and variance of a group, and the normalisation by them, as parts of a row program."""

from __future__ import annotations

from dataclasses import dataclass

from skipjack.core.nest import Accumulator, Call, Constant, Scalar
from skipjack.core.program import Statistic


@dataclass(frozen=True, slots=True)
class Moments:
    """How a mean, a variance and a scale, ``1 / sqrt(variance + eps)``, come about."""

    mean: Scalar
    variance: Scalar
    eps: float
    statistics: tuple[Statistic, ...] = ()

    @property
    def scale(self) -> Scalar:
        """One over the standard deviation."""
        return Call("rsqrt", (Call("add", (self.variance, Constant(self.eps))),))


def two_pass(x: Scalar, count: int, eps: float) -> Moments:
    """The mean, then the variance from differences to it."""
    mean = Accumulator("mean")
    squares = Call("square", (Call("sub", (x, mean)),))
    statistics = mean_of("mean", x, count), mean_of("variance", squares, count)
    return Moments(mean, Accumulator("variance"), eps, statistics)


def one_pass(x: Scalar, some: tuple[Scalar, Scalar, Scalar], count: int, eps: float) -> Moments:
    """Both from differences to the middle one of three elements of the group, summed together.

    With that element k standard deviations from the mean, ``1 + k**2`` times as much is lost as in
    two passes. As a rule k is about 1; that two of three are far out is rare.
    """
    middle = _middle(*some)
    away = Call("sub", (x, middle))
    shift = Accumulator("shift")
    variance = Call("sub", (over(Accumulator(), count), Call("square", (shift,))))
    positive = Call("max", (variance, Constant(0.0)))
    statistics = (
        mean_of("shift", away, count),
        Statistic("variance", "sum", Call("square", (away,)), positive),
    )
    return Moments(Call("add", (middle, shift)), Accumulator("variance"), eps, statistics)


def _middle(one: Scalar, two: Scalar, three: Scalar) -> Scalar:
    low, high = Call("min", (one, two)), Call("max", (one, two))
    return Call("max", (low, Call("min", (high, three))))


def mean_of(name: str, body: Scalar, count: int) -> Statistic:
    """The mean of a body over a group of so many elements."""
    return Statistic(name, "sum", body, over(Accumulator(), count))


def normalized(x: Scalar, moments: Moments, gamma: Scalar, beta: Scalar) -> Scalar:
    """``(x - mean) * (gamma * scale) + beta``."""
    factor = Call("mul", (gamma, moments.scale))
    return Call("add", (Call("mul", (Call("sub", (x, moments.mean)), factor)), beta))


def over(total: Scalar, count: int) -> Scalar:
    """A sum of so many as their mean."""
    return Call("mul", (total, Constant(1.0 / count)))
