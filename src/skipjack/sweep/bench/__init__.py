"""What a sweep measures: outcomes of runs, workloads, sensors and cooling."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.sweep.bench.outcome import RunOutcome, SimulatedBench, SweepBench, synthetic_run
    from skipjack.sweep.bench.sensors import SensorReading, Sensors, program_output
    from skipjack.sweep.bench.thermal import RunCondition, Thermal
    from skipjack.sweep.bench.workload import (
        WORKLOAD_PREFIX,
        Workload,
        build_part,
        content_digest,
        count_builds,
        count_rebuilds,
        fewest_builds,
        product_points,
        workload_of,
    )

__all__ = [
    "WORKLOAD_PREFIX",
    "RunCondition",
    "RunOutcome",
    "SensorReading",
    "Sensors",
    "SimulatedBench",
    "SweepBench",
    "Thermal",
    "Workload",
    "build_part",
    "content_digest",
    "count_builds",
    "count_rebuilds",
    "fewest_builds",
    "product_points",
    "program_output",
    "synthetic_run",
    "workload_of",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "outcome": "RunOutcome SimulatedBench SweepBench synthetic_run",
        "sensors": "SensorReading Sensors program_output",
        "thermal": "RunCondition Thermal",
        "workload": (
            "WORKLOAD_PREFIX Workload build_part content_digest count_builds count_rebuilds "
            "fewest_builds product_points workload_of"
        ),
    },
)
