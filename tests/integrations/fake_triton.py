"""A GPU that is not there: Triton compiles for it as always, launches are noted and cost a number.

What a launch costs is a function of its metadata and arguments; a sample is the cost of the launch
that was made last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from skipjack.integrations.triton.call_session import TimedLaunch

Cost = Callable[[Any, Sequence[Any]], float]


class FakeDriver:
    """What `triton.runtime.JITFunction.run` asks of a driver."""

    def __init__(self, cost: Cost, units: int = 132) -> None:
        self.cost = cost
        self.launches: list[Any] = []
        self.last_ns = 0.0
        self.utils = SimpleNamespace(
            get_device_properties=lambda _: {
                "max_shared_mem": 232448,
                "multiprocessor_count": units,
            },
            load_binary=lambda *_: (object(), object(), 32, 0, 1024),
        )

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", 90, 32)

    def launcher_cls(self, src: Any, metadata: Any) -> Callable[..., None]:
        constants = {src.fn.arg_names[at[0]]: value for at, value in src.constants.items()}
        told = SimpleNamespace(**{**metadata._asdict(), **constants})

        def launch(*values: Any) -> None:
            arguments = values[9:]  # after the grid, the stream, the function and the hooks
            self.launches.append(told)
            self.last_ns = self.cost(told, arguments)

        return launch


class FakeTimer:
    """Times the launches of a `FakeDriver`; notes who ran in which sample."""

    def __init__(self, fake: FakeDriver) -> None:
        self.fake = fake
        self.sampled: list[int] = []
        """Blocks of the launches that were timed."""

    def ready(self, shot: TimedLaunch) -> TimedLaunch:
        return shot

    def synchronize(self) -> None:
        return

    def sample(self, shots: Mapping[int, TimedLaunch], order: Sequence[int]) -> Mapping[int, float]:
        times = {}
        for name in order:
            shots[name].before()
            shots[name].launch()
            times[name] = self.fake.last_ns
            self.sampled.append(self.fake.launches[-1].BLOCK)
            shots[name].after()
        return times


@contextmanager
def gpu(cost: Cost, units: int = 132) -> Iterator[FakeDriver]:
    """Triton's active driver is a fake one for a while."""
    before = driver._active
    fake = FakeDriver(cost, units)
    driver.set_active(fake)
    try:
        yield fake
    finally:
        driver._active = before


class FakeTensor:
    """What Triton asks of a tensor when it compiles and launches, without torch."""

    dtype = "torch.float32"

    def data_ptr(self) -> int:
        return 4096
