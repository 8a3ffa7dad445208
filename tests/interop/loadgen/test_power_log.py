"""PTDaemon's log gives the average watts of a run, and those give what a watt buys."""

from datetime import timedelta
from pathlib import Path

import pytest

from skipjack.core import Metric
from skipjack.errors import UsageError
from skipjack.interop.loadgen import average_watts, efficiency, read_power_log
from skipjack.interop.loadgen.power_log import PowerLog

LINE = (
    "Time,10-12-2021 02:13:{second:06.3f},Watts,{watts:.6f},Volts,207.28,Amps,1.44,PF,0.98,Mark,x\n"
)
BEGIN, END = "10-12-2021 02:13:11.000", "10-12-2021 02:13:13.000"


@pytest.fixture
def log(tmp_path: Path) -> PowerLog:
    """100 W, then 200, 300 and 400 W in the run, then 500."""
    path = tmp_path / "spl.txt"
    path.write_text("".join(LINE.format(second=10 + n, watts=100 * (n + 1)) for n in range(5)))
    return read_power_log(path)


def test_the_average_is_of_samples_within_the_run_its_ends_included(log: PowerLog) -> None:
    assert average_watts(log, BEGIN, END) == pytest.approx(300.0)


@pytest.mark.parametrize("hours", [-8, 2, 5.5])
@pytest.mark.parametrize("sign", [-1, 1])
def test_another_time_zone_is_tried_where_nothing_lies_between(
    log: PowerLog, hours: float, sign: int
) -> None:
    zone = timedelta(hours=hours)
    moved = PowerLog(log.path, tuple((when + sign * zone, watts) for when, watts in log.samples))
    assert average_watts(moved, BEGIN, END, zone) == pytest.approx(300.0)
    assert average_watts(moved, BEGIN, END, timedelta(hours=1)) is None


def test_nothing_between_is_no_average(log: PowerLog) -> None:
    assert average_watts(log, "10-13-2021 02:13:11.000", "10-13-2021 02:13:13.000") is None


def test_the_local_zone_is_this_machines(log: PowerLog, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "XXX-3")
    time.tzset()
    try:
        later = PowerLog(log.path, tuple((w + timedelta(hours=3), x) for w, x in log.samples))
        assert average_watts(later, BEGIN, END) == pytest.approx(300.0)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_broken_lines_are_named_by_number(tmp_path: Path) -> None:
    path = tmp_path / "spl.txt"
    good = LINE.format(second=10.0, watts=50.0)
    path.write_text(
        f"{good}Time,yesterday,Watts,5\n\n{good}Time,10-12-2021 02:13:12.000,Watts,nan\n"
        f"half a li\n{good}Time,10-12-2021 02:13:12.000,Watts,-1.0\n"
    )
    log = read_power_log(path)
    assert [watts for _, watts in log.samples] == [50.0] * 3
    assert log.broken == (2, 5, 6, 8)
    assert log.remarks() == (f"{path}: lines 2, 5, 6, 8 could not be read and were left out",)


def test_many_broken_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "spl.txt"
    path.write_text(LINE.format(second=1.0, watts=1.0) + "x\n" * 9)
    assert "lines 2, 3, 4, 5, 6 and 4 more" in read_power_log(path).remarks()[0]


def test_lines_may_end_as_on_windows(tmp_path: Path) -> None:
    path = tmp_path / "spl.txt"
    path.write_bytes(LINE.format(second=11.0, watts=50.0).replace("\n", "\r\n").encode())
    assert average_watts(read_power_log(path), BEGIN, END) == 50.0


def test_a_log_without_samples_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spl.txt").write_text("hello\n")
    with pytest.raises(UsageError, match=r"spl\.txt has no power samples"):
        read_power_log(tmp_path / "spl.txt")
    with pytest.raises(UsageError, match="cannot read the power log"):
        read_power_log(tmp_path / "none.txt")


def test_times_that_are_none_are_refused(log: PowerLog) -> None:
    with pytest.raises(UsageError, match="power_begin 'noon'"):
        average_watts(log, "noon", END)


@pytest.mark.parametrize(
    ("scenario", "metrics", "name", "value"),
    [
        ("Offline", {"result_samples_per_second": 900.0}, "qps_per_watt", 3.0),
        ("Server", {"result_scheduled_samples_per_sec": 600.0}, "qps_per_watt", 2.0),
        ("server", {"result_completed_samples_per_sec": 300.0}, "qps_per_watt", 1.0),
        ("SingleStream", {"result_mean_latency_ns": 2e6}, "joules_per_stream", 0.6),
        ("multi_stream", {"result_mean_query_latency_ns": 1e7}, "joules_per_stream", 3.0),
    ],
)
def test_what_a_watt_buys_depends_on_the_scenario(
    scenario: str, metrics: dict[str, Metric], name: str, value: float
) -> None:
    found = efficiency(metrics, 300.0, scenario)
    assert found.keys() == {"average_watts", name}
    assert found[name] == pytest.approx(value)


@pytest.mark.parametrize(
    ("scenario", "watts", "complaint"),
    [
        ("Offline", 300.0, "the Offline run has no result_samples_per_second"),
        ("Batch", 300.0, "unknown scenario 'Batch'"),
        ("Offline", 0.0, "is not a valid average power"),
    ],
)
def test_what_cannot_be_worked_out_is_said(scenario: str, watts: float, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        efficiency({"result_samples_per_second": "fast"}, watts, scenario)
