"""The peer's database: jobs, configs and results in the kind of tables that Tuna has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    func,
    insert,
    select,
    update,
)

Row = dict[str, Any]

PREFIX = "d_tuna_sess_1_eval-"
"""Of a task's id, as Tuna names them; the job's number follows."""

_DIMENSIONS = (
    *("in_channels", "in_h", "in_w", "out_channels", "fil_h", "fil_w", "pad_h", "pad_w"),
    *("conv_stride_h", "conv_stride_w", "dilation_h", "dilation_w", "batchsize", "group_count"),
)

metadata = MetaData()
configs = Table(
    "conv_config",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("direction", String(8), nullable=False),
    Column("driver", String(255), nullable=False),
    *(Column(name, Integer, nullable=False) for name in _DIMENSIONS),
)
jobs = Table(
    "conv_job",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("session", Integer, nullable=False),
    Column("valid", Integer, nullable=False),
    Column("reason", String(60), nullable=False),
    Column("state", String(16), nullable=False),
    Column("retries", Integer, nullable=False),
    Column("config", Integer, ForeignKey("conv_config.id"), nullable=False),
    Column("solver", String(128), nullable=False),
    Column("fin_step", String(64), nullable=False),
    Column("gpu_id", Integer, nullable=False),
    Index("ix_get_work", "valid", "reason", "fin_step", "retries", "state"),
)
results = Table(
    "conv_find_db",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("session", Integer, nullable=False),
    Column("config", Integer, ForeignKey("conv_config.id"), nullable=False),
    Column("solver", String(128), nullable=False),
    Column("params", String(255), nullable=False),
    Column("kernel_time", Double, nullable=False),
    Column("workspace", Integer, nullable=False),
)


def open_database(url: str) -> Engine:
    """An engine on the database, with the tables in it."""
    engine = create_engine(url, isolation_level="READ COMMITTED")
    metadata.create_all(engine)
    return engine


def load(connection: Connection, count: int) -> str:
    """As many new jobs under a label of their own; the label."""
    first = (connection.execute(select(func.max(jobs.c.id))).scalar() or 0) + 1
    ids = range(first, first + count)
    label = f"bench_{first}"
    sizes = dict.fromkeys(_DIMENSIONS, 1)
    connection.execute(
        insert(configs), [{"id": id, "direction": "F", "driver": "conv", **sizes} for id in ids]
    )
    connection.execute(insert(jobs), [_job(id, label) for id in ids])
    return label


def _job(id: int, label: str) -> Row:
    return {
        "id": id,
        "session": 1,
        "valid": 1,
        "reason": label,
        "state": "compiled",
        "retries": 0,
        "config": id,
        "solver": "ConvHipImplicitGemmV4R1Fwd",
        "fin_step": "miopen_find_eval",
        "gpu_id": -1,
    }


def claim(connection: Connection, label: str, batch: int) -> list[Row]:
    """Jobs that wait, and what a worker has to know of each; one update a row, as Tuna does."""
    job = jobs.c
    waiting = (
        select(jobs, configs)
        .join(configs, configs.c.id == job.config)
        .where(job.session == 1, job.valid == 1, job.reason == label, job.retries < 10)
        .where(job.state == "compiled", job.fin_step.like("%miopen_find_eval%"))
        .order_by(job.retries, job.config)
        .limit(batch)
        .with_for_update(of=jobs, skip_locked=True)
    )
    rows = connection.execute(waiting).all()
    for row in rows:
        taken = update(jobs).where(job.id == row[0]).values(state="eval_start")
        connection.execute(taken)
    width = len(jobs.c)
    return [
        {
            "job": dict(zip(jobs.c.keys(), row[:width], strict=True)),
            "config": dict(zip(configs.c.keys(), row[width:], strict=True)),
            "arch": "gfx908",
            "num_cu": 120,
            "operation": "tuna_eval",
            "env": ["MIOPEN_LOG_LEVEL=4", "MIOPEN_FIND_MODE=1", "HIP_VISIBLE_DEVICES=0"],
        }
        for row in rows
    ]


def keep(connection: Connection, found: Sequence[Row]) -> None:
    """Write what came of jobs."""
    connection.execute(
        insert(results),
        [
            {
                "session": 1,
                "config": one["config"],
                "solver": one["solver"],
                "params": one["params"],
                "kernel_time": one["kernel_time"],
                "workspace": one["workspace"],
            }
            for one in found
        ],
    )
    done = [one["job"] for one in found]
    connection.execute(update(jobs).where(jobs.c.id.in_(done)).values(state="evaluated"))
