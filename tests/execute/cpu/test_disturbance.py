"""Disturbed samples are distinguished from the others, one by one."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from skipjack.execute.cpu.kernels import take_samples


class Machine:
    """A kernel and the counters of its machine: samples with given times, some interrupted."""

    def __init__(
        self,
        times_ns: Sequence[float],
        interrupted: Sequence[int] = (),
        ran_ns: float | None = None,
    ) -> None:
        self._times, self._interrupted = list(times_ns), set(interrupted)
        self.taken = self.warmed = self._switches = 0
        self.stolen_at = -1
        self._busy_ns: float | None = None if ran_ns is None else 0.0
        self._ran_ns = ran_ns

    def call(self) -> None:
        raise AssertionError("it is only timed")

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        assert samples == 1, "one by one"
        if calls == 1:
            self.warmed += 1
            return np.zeros(1)
        self._switches += self.taken in self._interrupted
        self.taken += 1
        if self._busy_ns is not None and self._ran_ns is not None:
            self._busy_ns += calls * self._ran_ns
        return np.array([self._times[(self.taken - 1) % len(self._times)]])

    def switches(self) -> int:
        return self._switches

    def steal(self) -> int:
        return int(0 <= self.stolen_at <= self.taken)

    def busy_ns(self) -> float | None:
        return self._busy_ns


def test_a_disturbed_sample_is_left_out_and_taken_again() -> None:
    machine = Machine([10.0, 99.0, 11.0, 12.0, 13.0], interrupted=[1])
    taken = take_samples([machine], 2, 4, machine)
    assert taken.times_ns == (10.0, 11.0, 12.0, 13.0)
    assert not taken.disturbed
    assert taken.dropped == 1
    assert machine.warmed == 2, "once at first, once after the disturbance"


def test_where_everything_is_disturbed_that_is_said() -> None:
    machine = Machine([50.0], interrupted=range(1000))
    taken = take_samples([machine], 2, 4, machine)
    assert taken.disturbed
    assert set(taken.times_ns) == {50.0}
    assert machine.taken == 12, "it was tried three times as often as wanted"


def test_of_a_disturbed_sample_the_time_on_the_core_counts() -> None:
    machine = Machine([50.0], interrupted=range(1000), ran_ns=20.0)
    taken = take_samples([machine], 2, 4, machine)
    assert taken.disturbed
    assert set(taken.times_ns) == {20.0}


def test_a_long_call_is_not_repeated_for_ever() -> None:
    machine = Machine([5e7], interrupted=range(1000))
    assert take_samples([machine], 2, 1, machine, warm=False).disturbed
    assert machine.taken == 1
    assert machine.warmed == 0


def test_stolen_time_disturbs_the_whole_block() -> None:
    machine = Machine([10.0])
    machine.stolen_at = 3
    assert take_samples([machine], 2, 4, machine).disturbed


def test_every_place_has_its_share() -> None:
    first, second = Machine([10.0]), Machine([20.0])
    taken = take_samples([first, second], 2, 4, first)
    assert taken.times_ns == (10.0, 10.0, 20.0, 20.0)
    assert take_samples([first, second], 2, 1, first).times_ns == (20.0,)
