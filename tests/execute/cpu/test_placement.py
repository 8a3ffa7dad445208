"""Arrays are timed at two sets of addresses."""

import numpy as np
import numpy.typing as npt

from skipjack.execute import Checker
from skipjack.execute.cpu.kernels import PlacedKernel, placements
from skipjack.native import PAGE
from skipjack.operations import parse


def offsets(arrays: dict[str, npt.NDArray[np.float32]]) -> list[int]:
    return [array.ctypes.data % PAGE for array in arrays.values()]


def test_arrays_begin_at_page_starts_and_then_further_and_further_into_pages() -> None:
    contents = {name: np.full((3, 5), 2.0, "f4") for name in "abc"}
    first, second = placements(contents)
    assert offsets(first) == [0, 0, 0]
    assert offsets(second) == [0, 64, 128]


def test_a_checker_can_move_to_arrays_that_are_not_aligned() -> None:
    checker = Checker(parse("add:64x5"))
    other = checker.unaligned()
    assert checker.arrays["x"].ctypes.data % 64 == 0
    assert {array.ctypes.data % 64 for array in other.arrays.values()} == {48}
    np.testing.assert_array_equal(other.arrays["x"], checker.arrays["x"])
    other.prepare()
    np.add(other.arrays["x"], other.arrays["y"], out=other.arrays["out"])
    assert other.verdict().right


def test_both_hold_values_of_the_arrays() -> None:
    values = np.arange(1, 8, dtype="f8").reshape(7, 1)
    first, second = placements({"x": np.zeros(3), "y": values})
    np.testing.assert_array_equal(first["y"], values)
    assert second["y"].shape == values.shape
    assert set(second["y"].ravel()) <= set(values.ravel())


class Recording:
    """Takes note of what it is asked for; its samples are all `time`."""

    def __init__(self, time: float) -> None:
        self.time = time
        self.taken: list[int] = []

    def call(self) -> None:
        self.taken.append(0)

    def sample(self, calls: int, samples: int) -> npt.NDArray[np.float64]:
        self.taken.append(samples)
        return np.full(samples, self.time)


def test_samples_are_shared_out() -> None:
    kernel = PlacedKernel([Recording(1.0), Recording(3.0)])
    assert kernel.sample(10, 4).tolist() == [1.0, 1.0, 3.0, 3.0]
    assert len(kernel.sample(10, 5)) == 5


def test_places_can_be_taken_in_turn() -> None:
    kernel = PlacedKernel([Recording(1.0), Recording(3.0)])
    assert [kernel.at(place).sample(1, 1)[0] for place in range(3)] == [1.0, 3.0, 1.0]
