"""The Celery application of the peer: one task, which has nothing to do, and its settings.

The worker and the enqueuer import it; it knows nothing of the rest of the project. Broker and
results are where ``BENCH_REDIS`` says.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery

QUEUE = "eval_q_tuna_sess_1"

_REDIS = os.environ["BENCH_REDIS"]

app = Celery("tuna", broker=f"{_REDIS}/0", backend=f"{_REDIS}/15")
app.conf.update(
    task_default_queue=QUEUE,
    task_acks_late=False,
    worker_prefetch_multiplier=64,
    worker_send_task_events=False,
    result_expires=None,
)


@app.task(name="evaluate")  # type: ignore[untyped-decorator]
def evaluate(context: dict[str, Any]) -> dict[str, Any]:
    """An empty kernel: what a real one would have found out, without finding it out."""
    job = context["job"]
    return {
        "job": job["id"],
        "config": job["config"],
        "solver": job["solver"],
        "kernel_time": 1.0,
        "workspace": 0,
        "params": "",
        "evaluated": True,
        "reason": "Success",
    }
