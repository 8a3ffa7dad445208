"""What lies between two events is the launch, and what cannot be recorded is launched plainly."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("triton")

from triton.runtime import driver

from skipjack.integrations.triton.call_session import LaunchTimer, TimedLaunch


class Story:
    """A device interface that writes down what is asked of it, each step a microsecond."""

    def __init__(self, capture: bool = True, memory: bool = True) -> None:
        self.steps: list[str] = []
        self.capture, self.memory = capture, memory
        self.CUDAGraph = lambda: SimpleNamespace(
            capture_begin=self.begin,
            capture_end=lambda: self.steps.append("end capture"),
            replay=lambda: self.steps.append("replay"),
        )
        self.Stream = lambda: SimpleNamespace(wait_stream=lambda other: None)

    def begin(self, capture_error_mode: str) -> None:
        if not self.capture:
            raise RuntimeError("operation not permitted when stream is capturing")

    @contextmanager
    def stream(self, stream: object) -> Iterator[None]:
        yield

    def current_stream(self) -> None:
        return

    def synchronize(self) -> None:
        self.steps.append("wait")

    def Event(self, enable_timing: bool) -> Any:
        event = SimpleNamespace()

        def record() -> None:
            event.at = len(self.steps)
            self.steps.append("event")

        event.record = record
        event.elapsed_time = lambda later: (later.at - event.at) * 1e-3
        return event

    def get_empty_cache_for_benchmark(self) -> object:
        if not self.memory:
            raise RuntimeError("CUDA out of memory")
        return object()

    def clear_cache(self, cache: object) -> None:
        self.steps.append("clear")

    def get_device_interface(self) -> Any:
        return self

    def shot(self) -> TimedLaunch:
        return TimedLaunch(
            *(lambda s=s: self.steps.append(s) for s in ("launch", "before", "after"))
        )


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> Any:
    def activate(**options: bool) -> Story:
        story = Story(**options)
        monkeypatch.setattr(driver, "_active", story)
        return story

    return activate


def test_the_time_is_that_of_the_launch_alone(active: Any) -> None:
    story = active()
    times = LaunchTimer(graphs=False).sample({"a": story.shot(), "b": story.shot()}, ["b", "a"])
    one = ["before", "clear", "event", "launch", "event", "after"]
    assert story.steps == [*one, *one, "wait"]
    assert list(times) == ["b", "a"]
    assert times["a"] == pytest.approx(2000.0)  # from one event over the launch to the other


def test_a_launch_is_recorded_once_and_replayed(active: Any) -> None:
    story = active()
    timer = LaunchTimer()
    shot = timer.ready(story.shot())
    assert story.steps == ["launch", "end capture"]
    timer.sample({"a": shot}, ["a"])
    assert "replay" in story.steps
    assert story.steps.count("launch") == 1


def test_what_cannot_be_recorded_is_launched(active: Any) -> None:
    story = active(capture=False)
    timer = LaunchTimer()
    timer.sample({"a": timer.ready(story.shot())}, ["a"])
    assert "launch" in story.steps
    assert "replay" not in story.steps


def test_without_memory_for_it_nothing_is_cleared(
    active: Any, caplog: pytest.LogCaptureFixture
) -> None:
    story = active(memory=False)
    LaunchTimer().sample({"a": story.shot()}, ["a"])
    assert "clear" not in story.steps
    assert "without clearing" in caplog.text
