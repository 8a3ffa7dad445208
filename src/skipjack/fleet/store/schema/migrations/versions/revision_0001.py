"""The first schema: problems, labels, jobs and their results."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skipjack.fleet.store.sql.column_types import LongBytes, LongText, RowId, ShortText

revision = "0001"
down_revision = None

_STATES = (
    "'new', 'building', 'built', 'evaluating', 'evaluated', 'not_applicable', 'error', 'aborted'"
)


def _name(length: int = 255) -> sa.String:
    return ShortText(length)


_TEXT = LongText()
_BYTES = LongBytes()
_ID = RowId()


def _id() -> sa.Column[int]:
    return sa.Column("id", _ID, autoincrement=True, nullable=False)


def _word(name: str, length: int = 255, default: str | None = None) -> sa.Column[str]:
    return sa.Column(name, _name(length), nullable=False, server_default=default)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean, nullable=False, server_default=sa.false())


def _count(name: str, default: str | None = "0") -> sa.Column[int]:
    value = None if default is None else sa.text(default)
    return sa.Column(name, sa.Integer, nullable=False, server_default=value)


def _time(name: str = "created") -> sa.Column[float]:
    return sa.Column(name, sa.Double, nullable=False)


def _text(name: str, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, _TEXT, nullable=nullable)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")


def _reference(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [target], name=f"fk_{table}_{column}")


def _check(name: str, condition: str) -> sa.CheckConstraint:
    # The name is whole: no convention applies to it.
    return sa.CheckConstraint(condition, name=name)


def upgrade() -> None:
    """From nothing."""
    _problems()
    _labels_and_devices()
    _machines_and_owners()
    _jobs()
    _rounds_and_artifacts()
    _story_and_logs()


def _problems() -> None:
    op.create_table(
        "problems",
        _id(),
        _word("digest", 64),
        _text("key"),
        _word("operation", 64),
        _word("direction", 8, ""),
        _word("dtype", 16, ""),
        _flag("retired"),
        _time(),
        _key("problems", "id"),
        sa.UniqueConstraint("digest", name="uq_problems_digest"),
    )
    op.create_index("ix_problems_operation", "problems", ["operation"])
    op.create_table(
        "problem_tags",
        sa.Column("problem", _ID, nullable=False),
        _word("tag"),
        _flag("recurrent"),
        _word("source", default=""),
        _word("model", default=""),
        _time(),
        _key("problem_tags", "problem", "tag"),
        _reference("problem_tags", "problem", "problems.id"),
    )
    op.create_index("ix_problem_tags_tag", "problem_tags", ["tag"])


def _labels_and_devices() -> None:
    op.create_table(
        "labels",
        _id(),
        _word("name"),
        _word("owner"),
        _word("toolchain", default=""),
        _word("versions", default=""),
        _word("image", default=""),
        _word("ticket", default=""),
        _flag("aborted"),
        _time(),
        _key("labels", "id"),
        sa.UniqueConstraint("name", name="uq_labels_name"),
        _check("ck_labels_has_a_name", "name <> ''"),
    )
    op.create_table(
        "devices",
        _word("name"),
        _text("record", nullable=True),
        _flag("aborted"),
        _time(),
        _key("devices", "name"),
    )


def _machines_and_owners() -> None:
    op.create_table(
        "machines",
        _id(),
        _word("name"),
        _word("engine", 32),
        _count("cores"),
        sa.Column("memory_bytes", sa.BigInteger, nullable=False, server_default=sa.text("0")),
        _text("devices"),
        _flag("aborted"),
        _text("set_aside"),
        _count("failures"),
        sa.Column("failed_job", sa.BigInteger),
        _time("seen"),
        _key("machines", "id"),
        sa.UniqueConstraint("name", name="uq_machines_name"),
        _check("ck_machines_failures_count_up", "failures >= 0"),
    )
    op.create_table(
        "owners",
        _word("id", 32),
        _word("host"),
        _count("pid", None),
        _time("lease_s"),
        _time("expires"),
        _time(),
        _key("owners", "id"),
    )
    op.create_table("agreements", _word("name", 64), _word("value"), _key("agreements", "name"))


def _jobs() -> None:
    op.create_table(
        "jobs",
        _id(),
        sa.Column("label", _ID, nullable=False),
        sa.Column("problem", _ID, nullable=False),
        _word("device"),
        _word("solver"),
        _word("searcher"),
        _count("seed"),
        _count("budget", None),
        _count("round_size", None),
        _count("priority"),
        _word("state", 16, "new"),
        _count("epoch"),
        _count("round"),
        _count("failures"),
        _count("losses"),
        sa.Column("stage", _name(16)),
        _text("reason"),
        sa.Column("resume", _name(16)),
        sa.Column("owner", _name(32)),
        _count("attempt"),
        _text("device_record", nullable=True),
        sa.Column("build_machine", _ID),
        sa.Column("eval_machine", _ID),
        _word("gpu", 64, ""),
        _count("trials"),
        _count("failed_trials"),
        sa.Column("best_ns", sa.Double),
        _text("result", nullable=True),
        _word("toolchain", default=""),
        _time(),
        _time("updated"),
        _key("jobs", "id"),
        *_job_constraints(),
    )
    op.create_index(
        "ix_jobs_waiting",
        "jobs",
        [
            *("state", "label", sa.text("priority DESC")),
            *("failures", "losses", "id", "device"),
        ],
    )
    op.create_index("ix_jobs_owner", "jobs", ["owner"])
    op.create_index("ix_jobs_problem", "jobs", ["problem"])


def _job_constraints() -> list[sa.Constraint]:
    return [
        sa.UniqueConstraint(
            *("label", "problem", "device", "solver"), name="uq_jobs_label_problem_device_solver"
        ),
        _reference("jobs", "label", "labels.id"),
        _reference("jobs", "problem", "problems.id"),
        _reference("jobs", "device", "devices.name"),
        _reference("jobs", "owner", "owners.id"),
        _reference("jobs", "build_machine", "machines.id"),
        _reference("jobs", "eval_machine", "machines.id"),
        _check("ck_jobs_state_is_known", f"state IN ({_STATES})"),
        _check(
            "ck_jobs_claimed_has_an_owner",
            "(owner IS NOT NULL) = (state IN ('building', 'evaluating'))",
        ),
        _check("ck_jobs_error_has_a_stage", "(stage IS NOT NULL) = (state = 'error')"),
        _check("ck_jobs_error_has_a_reason", "state <> 'error' OR reason <> ''"),
        _check("ck_jobs_aborted_can_resume", "(resume IS NOT NULL) = (state = 'aborted')"),
        _check("ck_jobs_evaluated_has_result", "(result IS NOT NULL) OR (state <> 'evaluated')"),
        _check("ck_jobs_budget_is_positive", "budget > 0 AND round_size > 0"),
        _check(
            "ck_jobs_counters_count_up",
            "epoch >= 0 AND round >= 0 AND failures >= 0 AND losses >= 0 AND attempt >= 0",
        ),
    ]


def _rounds_and_artifacts() -> None:
    op.create_table(
        "rounds",
        sa.Column("job", _ID, nullable=False),
        _count("epoch", None),
        _count("round", None),
        _word("stage", 16),
        _text("facts"),
        _text("digests"),
        _count("trials", None),
        _count("failed_trials", None),
        sa.Column("best_ns", sa.Double),
        _count("attempt", None),
        sa.Column("machine", _ID),
        _time(),
        _key("rounds", "job", "epoch", "round", "stage"),
        _reference("rounds", "job", "jobs.id"),
        _reference("rounds", "machine", "machines.id"),
        _check("ck_rounds_stage_is_known", "stage IN ('build', 'evaluate')"),
    )
    op.create_table(
        "artifacts",
        _word("digest", 64),
        sa.Column("size", sa.BigInteger, nullable=False),
        _word("seal", 64),
        sa.Column("data", _BYTES, nullable=False),
        _time(),
        _key("artifacts", "digest"),
    )


def _story_and_logs() -> None:
    op.create_table(
        "story",
        _id(),
        sa.Column("job", _ID, nullable=False),
        _time("at"),
        _word("event", 16),
        _word("before", 16),
        _word("after", 16),
        _count("epoch", None),
        _count("round", None),
        _count("attempt", None),
        sa.Column("machine", _ID),
        _word("gpu", 64, ""),
        _text("reason"),
        _key("story", "id"),
        _reference("story", "job", "jobs.id"),
        _reference("story", "machine", "machines.id"),
    )
    op.create_index("ix_story_job_id", "story", ["job", "id"])
    op.create_table(
        "logs",
        _id(),
        sa.Column("job", _ID, nullable=False),
        _word("stage", 16),
        _count("epoch", None),
        _count("round", None),
        _count("attempt", None),
        sa.Column("machine", _ID),
        _text("text"),
        _time(),
        _key("logs", "id"),
        _reference("logs", "job", "jobs.id"),
        _reference("logs", "machine", "machines.id"),
    )
    op.create_index("ix_logs_job_id", "logs", ["job", "id"])
