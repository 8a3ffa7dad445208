"""A system under test that only waits, measured by LoadGen itself, which logs into DIR.

``python dummy_sut.py DIR SCENARIO SERVICE_S [field=value ...]``
"""

import queue
import sys
import threading
import time
from pathlib import Path

import mlperf_loadgen as lg


def main(directory: str, scenario: str, service_s: float, fields: dict[str, float]) -> None:
    """One performance run."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, scenario)
    settings.mode = lg.TestMode.PerformanceOnly
    for name, value in fields.items():
        setattr(settings, name, type(getattr(settings, name))(value))
    waiting: queue.SimpleQueue[list[int] | None] = queue.SimpleQueue()

    def serve() -> None:
        while (ids := waiting.get()) is not None:
            time.sleep(service_s)
            lg.QuerySamplesComplete([lg.QuerySampleResponse(one, 0, 0) for one in ids])

    thread = threading.Thread(target=serve)
    thread.start()
    log = lg.LogSettings()
    log.enable_trace = False
    log.log_output.outdir = directory
    sut = lg.ConstructSUT(lambda samples: waiting.put([s.id for s in samples]), lambda: None)
    samples = lg.ConstructQSL(1024, 1024, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(sut, samples, settings, log, "")
    waiting.put(None)
    thread.join()
    lg.DestroyQSL(samples)
    lg.DestroySUT(sut)


if __name__ == "__main__":
    pairs = (text.split("=") for text in sys.argv[4:])
    main(
        sys.argv[1], sys.argv[2], float(sys.argv[3]), {name: float(value) for name, value in pairs}
    )
