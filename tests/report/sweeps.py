"""Results of sweeps, made by hand."""

from typing import Any

from skipjack.core import Config, Objective, Status
from skipjack.sweep.engine import SweepResult, SweepTrial
from skipjack.sweep.engine.result import Gain

RATE = Objective("samples_per_second", "max")
LATENCY = Objective("latency_ms", "min")


def trial(number: int, point: dict[str, Any], value: float | None, **more: Any) -> SweepTrial:
    """A run that measured `value`, or failed."""
    status = more.pop("status", Status.OK if value is not None else Status.CRASH)
    metrics = more.pop("metrics", {} if value is None else {"samples_per_second": value})
    reason = more.pop("reason", "" if value is not None else "it ended with exit code 3")
    more = {"seconds": 2.0, "log": f"runs/{number}.txt", **more}
    return SweepTrial(number, Config.of(point), status, metrics, value, reason, **more)


def sweep(trials: list[SweepTrial], **more: Any) -> SweepResult:
    """All of it; the best is the largest value."""
    good = [t for t in trials if t.value is not None and not t.status.failed]
    top = max(good, key=lambda t: t.value or 0.0, default=None)
    values = {
        "name": "resnet",
        "objectives": (RATE,),
        "best": top.point if top else None,
        "best_value": top.value if top else None,
        **more,
    }
    return SweepResult(trials=tuple(trials), **values)


def grid() -> SweepResult:
    """Three batches and two layouts: a baseline, failures, confirmation, everything set."""
    trials = [
        trial(1, {"batch": 4, "layout": "NCHW"}, 800.0, purpose="baseline", built=True,
              build_seconds=7.0),
        trial(2, {"batch": 4, "layout": "NHWC"}, 900.0, built=True, build_seconds=9.0),
        trial(3, {"batch": 8, "layout": "NCHW"}, 1000.0),
        trial(4, {"batch": 8, "layout": "NHWC"}, 1200.0),
        trial(5, {"batch": 16, "layout": "NCHW"}, None, status=Status.OUT_OF_MEMORY,
              reason="it asked for more memory than there is"),
        trial(6, {"batch": 16, "layout": "NHWC"}, None),
        trial(7, {"batch": 8, "layout": "NHWC"}, 1210.0, purpose="confirm", cached=True),
    ]  # fmt: skip
    return sweep(
        trials,
        best_value=1205.0,
        best_spread=0.004,
        baseline=Config(batch=4, layout="NCHW"),
        baseline_value=800.0,
        gain=Gain(1.506, 1.49, 1.52, 3),
        confirmed="3 of 3 confirming runs held",
        builds=2,
        build_hits=5,
        seconds=125.0,
        full_config={"batch": 8, "layout": "NHWC", "model": {"name": "resnet"}},
        user_conf=("*.Offline.target_qps = 1205", "*.Offline.min_duration = 60000"),
        notes=("no temperature sensor was found",),
    )
