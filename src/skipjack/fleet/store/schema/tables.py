"""The tables of the store, the same on every database.

Times are seconds since 1970 by the database's own clock, so that clocks of machines need not agree.
Identifying texts have at most 255 characters; a problem's key is identified by its digest.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
    false,
    text,
    true,
)

from skipjack.fleet.model import JobKind, JobStage, JobState
from skipjack.fleet.store.sql.column_types import LongBytes, LongText, RowId, ShortText

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _name(length: int = 255) -> ShortText:
    return ShortText(length)


_TEXT = LongText()
_BYTES = LongBytes()
_ID = RowId()


def _one_of(column: str, values: type[JobState] | type[JobStage] | type[JobKind]) -> str:
    return f"{column} IN ({', '.join(repr(str(value)) for value in values)})"


problems = Table(
    "problems",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("digest", _name(64), nullable=False, unique=True),  # SHA-256 of the key
    Column("key", _TEXT, nullable=False),
    Column("operation", _name(64), nullable=False),
    Column("direction", _name(8), nullable=False, server_default=""),
    Column("dtype", _name(16), nullable=False, server_default=""),
    Column("retired", Boolean, nullable=False, server_default=false()),
    Column("created", Double, nullable=False),
    Index(None, "operation"),
)

problem_tags = Table(
    "problem_tags",
    metadata,
    Column("problem", _ID, ForeignKey("problems.id"), primary_key=True),
    Column("tag", _name(), primary_key=True),
    Column("recurrent", Boolean, nullable=False, server_default=false()),
    Column("source", _name(), nullable=False, server_default=""),  # where it came from
    Column("model", _name(), nullable=False, server_default=""),
    Column("created", Double, nullable=False),
    Column("calls", Double),  # how often the program calls it, if that is known
    Index(None, "tag"),
)

labels = Table(
    "labels",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("name", _name(), nullable=False, unique=True),
    Column("owner", _name(), nullable=False),
    Column("toolchain", _name(), nullable=False, server_default=""),
    Column("versions", _name(), nullable=False, server_default=""),
    Column("image", _name(), nullable=False, server_default=""),
    Column("ticket", _name(), nullable=False, server_default=""),
    Column("aborted", Boolean, nullable=False, server_default=false()),
    Column("created", Double, nullable=False),
    Column("device_seconds", Double),  # the budget of all its jobs, if there is one
    CheckConstraint("name <> ''", name="has_a_name"),
)

devices = Table(
    "devices",
    metadata,
    Column("name", _name(), primary_key=True),  # as znver4/1
    Column("aborted", Boolean, nullable=False, server_default=false()),
    Column("created", Double, nullable=False),
)

device_classes = Table(
    "device_classes",
    metadata,
    Column("class_key", _name(160), primary_key=True),
    Column("device", _name(), ForeignKey("devices.name"), nullable=False),
    Column("record", _TEXT, nullable=False),  # JSON of the one that was seen last
    Column("seen", Double, nullable=False),
    Index(None, "device"),
)
"""Real devices. Those with one name may differ, for example if a hypervisor hides features."""

label_devices = Table(
    "label_devices",
    metadata,
    Column("label", _ID, ForeignKey("labels.id"), primary_key=True),
    Column("device", _name(), ForeignKey("devices.name"), primary_key=True),
    Column("class_key", _name(160), ForeignKey("device_classes.class_key")),
)
"""The class of each device name of a label's jobs; NULL until one was seen."""

stopped_architectures = Table(
    "stopped_architectures",
    metadata,
    Column("name", _name(), primary_key=True),  # as gfx900
    Column("created", Double, nullable=False),
)
"""Aborted architectures; their devices that are seen later are aborted, too."""

machines = Table(
    "machines",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("name", _name(), nullable=False, unique=True),
    Column("engine", _name(32), nullable=False),
    Column("cores", Integer, nullable=False, server_default=text("0")),
    Column("memory_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("devices", _TEXT, nullable=False),  # JSON list of names
    Column("aborted", Boolean, nullable=False, server_default=false()),
    Column("set_aside", _TEXT, nullable=False),  # why, or empty
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("failed_job", BigInteger),  # the last one that counted
    Column("seen", Double, nullable=False),
    Column("losses", Integer, nullable=False, server_default=text("0")),  # workers, in a row
    Column("paused_until", Double, nullable=False, server_default=text("0")),
    Column("paused_why", _name(), nullable=False, server_default=""),
    Column("classes", _TEXT),  # JSON list of the classes of its devices
    CheckConstraint("failures >= 0", name="failures_count_up"),
)

registrations = Table(
    "registrations",
    metadata,
    Column("name", _name(), primary_key=True),  # that of the machine
    Column("host", _name(), nullable=False),
    Column("port", Integer, nullable=False, server_default=text("0")),  # 0: as ssh decides
    Column("login", _name(), nullable=False, server_default=""),  # or as ssh decides
    Column("device", _name(), nullable=False, server_default=""),
    Column("gpus", Integer, nullable=False, server_default=text("0")),
    Column("enabled", Boolean, nullable=False, server_default=true()),
    Column("disabled_why", _name(), nullable=False, server_default=""),
    Column("remarks", _TEXT, nullable=False),
    Column("python", _name(), nullable=False, server_default=""),
    Column("created", Double, nullable=False),
    Column("aborted", Boolean, nullable=False, server_default=false()),  # also if never seen
    CheckConstraint("port >= 0 AND port < 65536", name="port_is_one"),
    CheckConstraint("gpus >= 0", name="gpus_count_up"),
)
"""How to reach machines. `machines` has those that have worked, registered or not."""

owners = Table(
    "owners",
    metadata,
    Column("id", _name(32), primary_key=True),  # random
    Column("host", _name(), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("lease_s", Double, nullable=False),
    Column("expires", Double, nullable=False),
    Column("created", Double, nullable=False),
    Column("boot", _name(32), nullable=False, server_default=""),  # see `skipjack.processes`
    Column("began", _name(32), nullable=False, server_default=""),
)
"""Coordinators that are alive. The lease of an owner covers all of its jobs."""

agreements = Table(
    "agreements",
    metadata,
    Column("name", _name(64), primary_key=True),
    Column("value", _name(), nullable=False),
)
"""Settings of the fleet that all machines share: ``key`` is the fingerprint of its key."""

jobs = Table(
    "jobs",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("label", _ID, ForeignKey("labels.id"), nullable=False),
    Column("problem", _ID, ForeignKey("problems.id"), nullable=False),
    Column("device", _name(), ForeignKey("devices.name"), nullable=False),
    Column("solver", _name(), nullable=False),
    Column("searcher", _name(), nullable=False),
    Column("seed", Integer, nullable=False, server_default=text("0")),
    Column("budget", Integer, nullable=False),
    Column("round_size", Integer, nullable=False),
    Column("priority", Integer, nullable=False, server_default=text("0")),
    Column("state", _name(16), nullable=False, server_default=str(JobState.NEW)),
    Column("epoch", Integer, nullable=False, server_default=text("0")),
    Column("round", Integer, nullable=False, server_default=text("0")),
    Column("failures", Integer, nullable=False, server_default=text("0")),
    Column("losses", Integer, nullable=False, server_default=text("0")),
    Column("stage", _name(16)),  # of an error
    Column("reason", _TEXT, nullable=False),
    Column("resume", _name(16)),  # where an aborted job goes on
    Column("owner", _name(32), ForeignKey("owners.id")),
    Column("attempt", Integer, nullable=False, server_default=text("0")),  # counts claims: a fence
    Column("device_record", _TEXT),  # JSON, what it is built for: fixed with its first round
    Column("build_machine", _ID, ForeignKey("machines.id")),
    Column("eval_machine", _ID, ForeignKey("machines.id")),
    Column("gpu", _name(64), nullable=False, server_default=""),
    Column("trials", Integer, nullable=False, server_default=text("0")),
    Column("failed_trials", Integer, nullable=False, server_default=text("0")),
    Column("best_ns", Double),
    Column("result", _TEXT),  # JSON, once it is evaluated
    Column("toolchain", _name(), nullable=False, server_default=""),  # that evaluated it
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
    Column("kind", _name(16), nullable=False, server_default=str(JobKind.TUNE)),
    Column("driver", _name(16), nullable=False, server_default=""),  # miopen; else our workers
    Column("calls", Double),  # of the problem by programs, if that is known
    Column("device_seconds", Double, nullable=False, server_default=text("0")),  # used, all epochs
    Column("first_ns", Double),  # the time of its first config that ran
    Column("trial_limit", Integer),  # where it ends before its budget; NULL: at its budget
    UniqueConstraint("label", "problem", "device", "kind", "solver"),
    # The order of claims, so that they read only what they take.
    Index(
        "ix_jobs_waiting",
        "state",
        "label",
        text("priority DESC"),
        *("failures", "losses", "id", "device", "kind", "driver"),
    ),
    Index(None, "owner"),
    Index(None, "problem"),
    CheckConstraint(_one_of("state", JobState), name="state_is_known"),
    CheckConstraint(_one_of("kind", JobKind), name="kind_is_known"),
    CheckConstraint(
        "(owner IS NOT NULL) = (state IN ('building', 'evaluating'))", name="claimed_has_an_owner"
    ),
    CheckConstraint("(stage IS NOT NULL) = (state = 'error')", name="error_has_a_stage"),
    CheckConstraint("state <> 'error' OR reason <> ''", name="error_has_a_reason"),
    CheckConstraint("(resume IS NOT NULL) = (state = 'aborted')", name="aborted_can_resume"),
    CheckConstraint("(result IS NOT NULL) OR (state <> 'evaluated')", name="evaluated_has_result"),
    CheckConstraint("budget > 0 AND round_size > 0", name="budget_is_positive"),
    CheckConstraint(
        "epoch >= 0 AND round >= 0 AND failures >= 0 AND losses >= 0 AND attempt >= 0",
        name="counters_count_up",
    ),
)

rounds = Table(
    "rounds",
    metadata,
    Column("job", _ID, ForeignKey("jobs.id"), primary_key=True),
    Column("epoch", Integer, primary_key=True),
    Column("round", Integer, primary_key=True),
    Column("stage", _name(16), primary_key=True),
    Column("digests", _TEXT, nullable=False),  # JSON list
    Column("trials", Integer, nullable=False),
    Column("failed_trials", Integer, nullable=False),
    Column("best_ns", Double),
    Column("attempt", Integer, nullable=False),
    Column("machine", _ID, ForeignKey("machines.id")),
    Column("created", Double, nullable=False),
    Column("ledger_rows", _name(), nullable=False, server_default="{}"),  # JSON: table to number
    Column("device_seconds", Double, nullable=False, server_default=text("0")),
    Index(None, "stage", "created"),  # the newest builds are read for their failures
    CheckConstraint(_one_of("stage", JobStage), name="stage_is_known"),
)
"""The result of each stage of a round, exactly once: the primary key refuses a second one.

Its facts are in the tables of `schema.ledger_tables`.
"""

artifacts = Table(
    "artifacts",
    metadata,
    Column("digest", _name(64), primary_key=True),  # SHA-256 of the data
    Column("size", BigInteger, nullable=False),
    Column("seal", _name(64), nullable=False),  # HMAC-SHA256 of the digest with the fleet's key
    Column("data", _BYTES, nullable=False),
    Column("created", Double, nullable=False),
)

history = Table(
    "story",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("job", _ID, ForeignKey("jobs.id"), nullable=False),
    Column("at", Double, nullable=False),
    Column("event", _name(16), nullable=False),
    Column("before", _name(16), nullable=False),
    Column("after", _name(16), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("machine", _ID, ForeignKey("machines.id")),
    Column("gpu", _name(64), nullable=False, server_default=""),
    Column("reason", _TEXT, nullable=False),
    Index(None, "job", "id"),
)
"""The history of every job: its events in order. Rows are added, never changed."""

actions = Table(
    "actions",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("at", Double, nullable=False),
    Column("who", _name(), nullable=False),
    Column("action", _name(16), nullable=False),  # as abort
    Column("kind", _name(16), nullable=False),  # of the target, as label
    Column("target", _name(), nullable=False),
    Column("jobs", Integer, nullable=False, server_default=text("0")),  # that it concerned
    Column("reason", _TEXT, nullable=False),
    Index(None, "target"),
)
"""What people did to labels, devices and machines. Rows are added, never changed."""

logs = Table(
    "logs",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("job", _ID, ForeignKey("jobs.id"), nullable=False),
    Column("stage", _name(16), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("round", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("machine", _ID, ForeignKey("machines.id")),
    Column("text", _TEXT, nullable=False),
    Column("created", Double, nullable=False),
    Index(None, "job", "id"),
)
"""Logs of workers about jobs; the newest of each job are kept."""
