"""Devices with one name are distinguished by their class: model, vectors, caches."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import LongText, RowId, ShortText, parse_stored

revision = "0007"
down_revision = "0006"

_TEXT = LongText()
_ID = RowId()
_BY_NAME = ", by name"
"""The end of the model of a device that was described by its name."""


_devices = sa.table("devices", *map(sa.column, ("name", "record", "created")))
_jobs = sa.table("jobs", *map(sa.column, ("id", "label", "device", "device_record", "created")))
_classes = sa.table("device_classes", *map(sa.column, ("class_key", "device", "record", "seen")))
_of_labels = sa.table("label_devices", *map(sa.column, ("label", "device", "class_key")))


def _name(length: int) -> sa.String:
    return ShortText(length)


def upgrade() -> None:
    """From 0006."""
    # Some databases cannot undo: a process may have died after any of these.
    there = sa.inspect(op.get_bind())
    if not there.has_table("device_classes"):
        op.create_table(
            "device_classes",
            sa.Column("class_key", _name(160), nullable=False),
            sa.Column("device", _name(255), nullable=False),
            sa.Column("record", _TEXT, nullable=False),
            sa.Column("seen", sa.Double, nullable=False),
            sa.PrimaryKeyConstraint("class_key", name="pk_device_classes"),
            sa.ForeignKeyConstraint(["device"], ["devices.name"], name="fk_device_classes_device"),
            sa.Index("ix_device_classes_device", "device"),
        )
    if not there.has_table("label_devices"):
        op.create_table(
            "label_devices",
            sa.Column("label", _ID, nullable=False),
            sa.Column("device", _name(255), nullable=False),
            sa.Column("class_key", _name(160)),
            sa.PrimaryKeyConstraint("label", "device", name="pk_label_devices"),
            sa.ForeignKeyConstraint(["label"], ["labels.id"], name="fk_label_devices_label"),
            sa.ForeignKeyConstraint(["device"], ["devices.name"], name="fk_label_devices_device"),
            sa.ForeignKeyConstraint(
                ["class_key"], ["device_classes.class_key"], name="fk_label_devices_class_key"
            ),
        )
    if "classes" not in {column["name"] for column in there.get_columns("machines")}:
        op.add_column("machines", sa.Column("classes", _TEXT))
    if "record" in {column["name"] for column in there.get_columns("devices")}:
        _fill(op.get_bind())
        op.drop_column("devices", "record")


def _fill(connection: sa.Connection) -> None:
    """Bind a label to the class that its newest job was built for, else to the one seen last."""
    known = sa.select(_devices).where(_devices.c.record.is_not(None))
    seen = {name: (record, at) for name, record, at in connection.execute(known).all()}
    for name, (record, at) in seen.items():
        _keep(connection, name, parse_stored(record), at)
    job = _jobs.c
    newest = sa.select(sa.func.max(job.id)).where(job.device_record.is_not(None))
    newest = newest.group_by(job.label, job.device)
    rows = connection.execute(sa.select(_jobs).where(job.id.in_(newest)))
    built = {(row.label, row.device): (row.device_record, row.created) for row in rows}
    of = _of_labels.c
    done = {(row.label, row.device) for row in connection.execute(sa.select(of.label, of.device))}
    found = connection.execute(sa.select(job.label, job.device).distinct())
    for label, device in sorted({(row.label, row.device) for row in found} - done):
        text, at = built.get((label, device)) or seen.get(device) or ("", 0.0)
        record = parse_stored(text) if text else {}
        if record and record["model"].endswith(_BY_NAME):
            text, at = seen.get(device, ("", 0.0))
            record = parse_stored(text) if text else {}
        class_key = _keep(connection, device, record, at) if record else None
        connection.execute(
            _of_labels.insert().values(label=label, device=device, class_key=class_key)
        )


def _keep(connection: sa.Connection, name: str, record: dict[str, Any], seen: float) -> str:
    class_key = _class_key(record)
    there = sa.select(_classes.c.device).where(_classes.c.class_key == class_key)
    if connection.execute(there).first() is None:
        text = json.dumps(record, sort_keys=True)
        row = {"class_key": class_key, "device": name, "record": text, "seen": seen}
        connection.execute(_classes.insert().values(row))
    return class_key


def _class_key(record: dict[str, Any]) -> str:
    """`Device.class_key` as it was when this revision was written."""
    caches = ",".join(f"{level}={size}" for level, size in record["caches"])
    text = f"{record['model']}|{record['vector_bytes']}|{caches}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{record['kind']}:{record['arch']}/{record['units']}:{digest}"
