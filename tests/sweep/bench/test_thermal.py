"""Runs begin cool, are watched, and never fail because of a sensor."""

import threading
from dataclasses import dataclass, field

import pytest

from processes import PATIENCE_S
from skipjack.core import Status
from skipjack.errors import UsageError
from skipjack.sweep.bench import RunCondition, RunOutcome, Sensors, Thermal
from skipjack.sweep.bench.sensors import SensorReading


@dataclass
class Cooling:
    """A device, and a clock that moves when somebody sleeps; it loses a degree each second."""

    temperature: float
    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    name: str = "a fake"

    def read(self) -> list[SensorReading]:
        return [SensorReading(self.temperature - self.now)]

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def thermal(self, **options: object) -> Thermal:
        sensors = Sensors(self)
        return Thermal(
            sensors=sensors, clock=lambda: self.now, sleep=self.sleep, watch_s=0.001,
            **options,  # type: ignore[arg-type]
        )  # fmt: skip


@dataclass
class Script:
    """Readings one after the other; it tells when it has said them all."""

    looks: list[list[SensorReading]]
    said: threading.Event = field(default_factory=threading.Event)
    name: str = "a script"

    def read(self) -> list[SensorReading]:
        if not self.looks:
            self.said.set()
            return []
        return self.looks.pop(0)


def watched(*looks: list[SensorReading], notes: tuple[str, ...] = ()) -> RunCondition:
    script = Script(list(looks))
    with Thermal(sensors=Sensors(script), watch_s=0.001).watch() as watch:
        assert script.said.wait(PATIENCE_S)
    return watch.condition(*notes)


def test_a_run_waits_until_it_is_cool() -> None:
    device = Cooling(55.0)
    assert device.thermal(cool_to_c=50, cool_timeout_s=60).before_run() == ""
    assert device.slept == [2.0, 2.0, 2.0]


def test_waiting_ends_with_a_note_when_the_time_is_up() -> None:
    device = Cooling(90.0)
    note = device.thermal(cool_to_c=50, cool_timeout_s=5).before_run()
    assert note == "still 85 °C after 5 s of cooling to 50 °C"
    assert device.slept == [2.0, 2.0, 1.0]


@pytest.mark.parametrize("options", [{}, {"cool_to_c": 50}, {"cool_timeout_s": 60}])
def test_nothing_is_waited_for_unless_both_are_said(options: dict[str, float]) -> None:
    device = Cooling(90.0)
    assert device.thermal(**options).before_run() == ""
    assert device.slept == []


def test_a_user_who_wants_to_stop_does_not_wait() -> None:
    device = Cooling(90.0)
    thermal = device.thermal(cool_to_c=50, cool_timeout_s=60, stopped=lambda: device.now >= 4.0)
    assert thermal.before_run() == ""
    assert device.slept == [2.0, 2.0]


def test_the_first_build_does_not_wait_and_later_ones_do() -> None:
    device = Cooling(53.0)
    thermal = device.thermal(cool_to_c=50, cool_timeout_s=60)
    thermal.before_build()
    assert device.slept == []
    with thermal.watch():
        pass
    thermal.before_build()
    assert device.slept == [2.0, 2.0]


def test_where_there_is_no_sensor_nothing_is_waited_for_and_it_is_said_once() -> None:
    thermal = Thermal(cool_to_c=50, cool_timeout_s=60, sensors=Sensors())
    assert thermal.before_run() == ""
    assert thermal.remarks() == (
        "the temperature is not available here, so runs do not wait for cooling",
    )
    assert Thermal(sensors=Sensors()).remarks() == ()


def test_where_there_is_no_sensor_a_run_has_no_condition() -> None:
    with Thermal(sensors=Sensors()).watch() as watch:
        pass
    assert watch.condition() == RunCondition()


def test_a_run_is_watched() -> None:
    first = [SensorReading(40.0, 90.0), SensorReading(50.0, 90.0)]
    condition = watched(
        first,
        [SensorReading(60.0, 300.0, ()), SensorReading(70.0, 100.0)],
        [SensorReading(65.0, 500.0)],
    )
    assert condition.metrics == {
        "start_temp": 45.0, "max_temp": 70.0, "power_w": 450.0, "throttled": 0.0,
    }  # fmt: skip
    assert condition.notes == ()


def test_throttling_is_noticed_with_its_reason() -> None:
    condition = watched(
        [], [SensorReading(90.0, throttle=("too hot",))], [SensorReading(power_capped=True)]
    )
    assert condition.metrics["throttled"] == 1.0
    assert condition.notes == ("throttled: too hot", "ran at the power limit")


def test_running_at_the_power_limit_is_no_throttling() -> None:
    condition = watched([], [SensorReading(58.0, 692.0, (), power_capped=True)])
    assert condition.metrics["throttled"] == 0.0
    assert condition.notes == ("ran at the power limit",)


def test_an_outcome_gets_the_condition_and_keeps_what_it_said() -> None:
    outcome = RunOutcome(Status.OK, {"rate": 5.0, "power_w": 7.0}, notes=("repaired",))
    condition = watched(
        [SensorReading(40.0)], [SensorReading(50.0, 99.0)], notes=("", "still 60 °C")
    )
    both = condition.added_to(outcome)
    assert both.metrics == {
        "rate": 5.0, "power_w": 7.0, "start_temp": 40.0, "max_temp": 50.0,
    }  # fmt: skip
    assert both.notes == ("repaired", "still 60 °C")


def test_a_run_that_raises_ends_its_watch() -> None:
    before = threading.active_count()
    with pytest.raises(ZeroDivisionError), Cooling(50.0).thermal().watch():
        raise ZeroDivisionError
    assert threading.active_count() == before


def test_a_source_that_raises_does_not_end_a_run() -> None:
    class Broken:
        name = "broken"
        calls = 0
        seen = threading.Event()

        def read(self) -> list[SensorReading]:
            self.calls += 1
            if self.calls > 2:
                self.seen.set()
            if self.calls > 1:
                raise OSError("gone")
            return [SensorReading(40.0)]

    broken = Broken()
    with Thermal(sensors=Sensors(broken), watch_s=0.001).watch() as watch:
        assert broken.seen.wait(PATIENCE_S)
    assert watch.condition().metrics == {"start_temp": 40.0}


def test_warming_up_takes_runs_or_time() -> None:
    device = Cooling(0.0)
    assert device.thermal().warm_up(lambda: device.sleep(3.0)) == 0
    assert device.thermal(warm_up_runs=2).warm_up(lambda: device.sleep(3.0)) == 2
    assert device.thermal(warm_up_s=10).warm_up(lambda: device.sleep(3.0)) == 4


@pytest.mark.parametrize("options", [{"cool_timeout_s": -1}, {"warm_up_s": float("nan")}])
def test_times_below_zero_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="must be 0 or more"):
        Thermal(sensors=Sensors(), **options)  # type: ignore[arg-type]
