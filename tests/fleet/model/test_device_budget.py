"""Which jobs get the next device time: a pure function of what is known of them."""

from dataclasses import replace

import pytest

from skipjack.fleet.model import (
    SLICE_TRIALS,
    DeviceTime,
    JobProgress,
    LabelBudget,
    SliceRecord,
    choose_slices,
    rate_of_searches,
)

AMPLE = LabelBudget(1000.0)


def job(id: int, *best_ns: float, first_ns: float = 100.0, **more: float) -> JobProgress:
    """A job with a slice of one second for each best time."""
    slices = tuple(
        SliceRecord(SLICE_TRIALS * number, best, 1.0) for number, best in enumerate(best_ns, 1)
    )
    known = JobProgress(id, slices, first_ns if best_ns else None, 64, SLICE_TRIALS * len(slices))
    return replace(known, **more)  # type: ignore[arg-type]


def first(*jobs: JobProgress, budget: LabelBudget = AMPLE) -> int:
    (chosen,) = choose_slices(jobs, budget, 1).slices
    return chosen


def test_every_job_gets_a_short_first_slice() -> None:
    fresh = [job(id) for id in range(4)]
    assert set(choose_slices(fresh, AMPLE, 4).slices) == {0, 1, 2, 3}
    assert first(job(1, 60.0, 50.0), job(2, size=100.0)) == 2


def test_the_job_that_still_gains_goes_on() -> None:
    flat, falling = job(1, 50.0, 50.0, 50.0), job(2, 90.0, 70.0, 50.0)
    assert first(flat, falling) == 2
    assert first(falling, flat) == 2


def test_calls_and_times_weigh_the_gain() -> None:
    assert first(job(1, 80.0), job(2, 80.0, calls=10.0)) == 2
    assert first(job(1, 80.0), job(2, 800.0, first_ns=1000.0)) == 2
    dear = replace(job(3, 80.0), slices=(SliceRecord(SLICE_TRIALS, 80.0, 9.0),))
    assert first(dear, job(4, 80.0)) == 4, "the same gain for less time"


def test_a_higher_priority_comes_first_whatever_it_gains() -> None:
    assert first(job(1, 50.0, 50.0, priority=1), job(2, 90.0, 50.0, calls=1e6)) == 1
    assert first(job(1, 50.0, retries=1), job(2, 50.0)) == 2, "failures come last"


def test_what_is_in_work_is_counted_and_not_chosen() -> None:
    busy = job(1, 50.0, waiting=False)
    assert first(busy, job(2, 50.0)) == 2
    # Its round and both verdicts take what is left; the verdicts wait for its round.
    choice = choose_slices([busy, job(2, 50.0)], LabelBudget(3.5, used=1.0), 2)
    assert not (choice.slices or choice.verdicts or choice.spent)


def test_time_for_verdicts_is_kept_back() -> None:
    jobs = [job(1, 90.0), job(2, 50.0, calls=5.0), job(3)]
    choice = choose_slices(jobs, LabelBudget(4.0, used=2.0, verdict_slices=0.9), 4)
    assert choice.slices == () and choice.verdicts == (1, 2), "the better one may still go on"
    choice = choose_slices(jobs, LabelBudget(3.0, used=2.0, verdict_slices=0.9), 1)
    assert choice.verdicts == (2,), "time for one verdict: that of the job that won most"
    roomy = choose_slices(jobs, LabelBudget(6.0, used=2.0, verdict_slices=0.9), 4)
    assert roomy.slices and not roomy.verdicts


def test_nothing_begins_when_the_budget_is_spent() -> None:
    assert choose_slices([job(1), job(2, 50.0)], LabelBudget(5.0, used=5.0), 4).spent
    ended = job(1, 50.0, ended=True)
    assert choose_slices([ended], LabelBudget(5.0, used=4.5), 4).spent
    assert choose_slices([ended], AMPLE, 4).slices == (1,), "more time continues it"
    done = job(1, 50.0, trials=64)
    assert choose_slices([done], AMPLE, 4).verdicts == (1,)


def test_a_job_in_which_nothing_ran_is_no_mistake() -> None:
    failed = replace(job(1), slices=(SliceRecord(8, None, 1.0),), trials=8)
    choice = choose_slices([failed, job(2, 90.0)], AMPLE, 2)
    assert set(choice.slices) == {1, 2}
    assert failed.won_ns == 0.0


def test_the_rate_of_earlier_searches_is_the_fall_for_each_doubling() -> None:
    assert rate_of_searches([]) is None
    steep = rate_of_searches([(100.0, 25.0, 32)])
    flat = rate_of_searches([(100.0, 90.0, 32)])
    assert steep and flat and steep > 10 * flat


@pytest.mark.parametrize("calls", [1.0, 1000.0])
def test_device_time_for_each_microsecond(calls: float) -> None:
    time = DeviceTime(3600.0, 100.0, 50_000.0 * calls, calls > 1.0)
    assert time.left_s == 3500.0
    assert time.seconds_per_us == pytest.approx(2.0 / calls)
    assert DeviceTime(None).seconds_per_us is None
    assert DeviceTime(None).left_s is None
