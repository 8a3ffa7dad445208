"""The peer's enqueuer: claims jobs from the database and sends a Celery task for each.

``celery_enqueue.py URL``, then a line ``LABEL BATCH AHEAD`` on its input for all jobs of a label,
`BATCH` in a transaction, of which `AHEAD` may be under way at once; it is then told in a line each
how many results were stored. `AHEAD` 0: any number may be under way, as Tuna has it. Says when it
began.
"""

from __future__ import annotations

import sys
import time

from celery_app import evaluate
from celery_tables import PREFIX, Row, claim, open_database
from sqlalchemy import Engine


def enqueue(engine: Engine, label: str, batch: int, ahead: int) -> None:
    """Send everything there is."""
    room = ahead
    while contexts := _claimed(engine, label, batch):
        for context in contexts:
            task_id = f"{PREFIX}{context['job']['id']}"
            evaluate.apply_async((context,), task_id=task_id)
        room -= len(contexts)
        while ahead and room < batch:
            room += int(sys.stdin.readline())
    while ahead and room < ahead:
        room += int(sys.stdin.readline())


def _claimed(engine: Engine, label: str, batch: int) -> list[Row]:
    with engine.begin() as connection:
        return claim(connection, label, batch)


def main() -> None:
    """Do what is asked for, one line after the other."""
    engine = open_database(sys.argv[1])
    print("ready", flush=True)
    while line := sys.stdin.readline():
        label, batch, ahead = line.split()
        print(time.perf_counter(), flush=True)
        enqueue(engine, label, int(batch), int(ahead))


if __name__ == "__main__":
    main()
