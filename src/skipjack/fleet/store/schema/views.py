"""Views for manual queries. They hold no data, and every upgrade creates them again.

================  ================================================================================
view              one row for
================  ================================================================================
`job_list`        each job: label and its owner, problem, device, state, solver, retries (failures
                  and losses of its present stage), reason, machines, trials, best time
`state_counts`    each label, device and state that occurs, with the number of jobs
`results`         each evaluated job: outcome, winning solver and config, its time, its speedup
                  over the baseline (the fastest library, else the default), a library's time
`trials`          each config that a searcher was told about: status, value (what is minimised, in
                  nanoseconds for a time), spread, reason
`measurements`    each block of timings: candidate, session, samples in nanoseconds, all metrics
                  with their units, verdict, reason
`samples`         each sample of each metric of a block, as a number
`job_story`       each event of a job
`problem_list`    each problem: its tags and their details, whether it is retired, when it was last
                  measured, and by which machine, device and solver
`problem_tag_list`  each tag of each problem: recurrent, source, model, calls
`label_list`      each label: owner, ticket, versions, image, toolchain, number of jobs
`job_studies`     each study of a job: `trials.study` is its id
`job_candidates`  each candidate of a job: `measurements.candidate` is its id
================  ================================================================================

Times are timestamps, in UTC if the database has no time zones.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from skipjack.fleet.store.sql.dialect import ViewSyntax, dialect_of

NAMES = (
    "job_list",
    "state_counts",
    "results",
    "job_studies",
    "job_candidates",
    "trials",
    "measurements",
    "samples",
    "job_story",
    "problem_list",
    "problem_tag_list",
    "label_list",
)


def create(connection: Connection) -> None:
    """Create all views again."""
    drop(connection)
    # Without parameters: a colon in a JSON path is not one.
    for name, query in definitions(dialect_of(connection).view_syntax).items():
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")


def drop(connection: Connection) -> None:
    """Remove the views, those that depend on others first."""
    for name in reversed(NAMES):
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))


def definitions(sql: ViewSyntax) -> dict[str, str]:
    """The query of each view, in the order of creation."""
    return {
        "job_list": _job_list(sql),
        "state_counts": _STATE_COUNTS,
        "results": _results(sql),
        "job_studies": _JOB_STUDIES,
        "job_candidates": _JOB_CANDIDATES,
        "trials": _TRIALS,
        "measurements": _measurements(sql),
        "samples": _samples(sql),
        "job_story": _job_story(sql),
        "problem_list": _problem_list(sql),
        "problem_tag_list": _problem_tag_list(sql),
        "label_list": _label_list(sql),
    }


def _job_list(sql: ViewSyntax) -> str:
    return f"""
    SELECT j.id AS job, l.name AS label, l.owner AS label_owner, p.key AS problem, p.operation,
        p.direction, p.dtype, j.device, {sql.before_slash("j.device")} AS arch,
        {sql.integer(sql.after_slash("j.device"))} AS units, j.state, j.stage,
        CASE WHEN j.kind = 'tune' THEN j.solver ELSE j.kind END AS solver,
        CASE WHEN j.driver = '' THEN j.searcher ELSE j.driver END AS searcher,
        j.budget, j.priority, j.epoch, j.round, j.attempt, j.failures + j.losses AS retries,
        j.reason, b.name AS build_machine, e.name AS eval_machine, j.gpu, j.trials,
        j.failed_trials, j.best_ns, j.toolchain, o.host AS coordinator,
        {sql.time("j.created")} AS created, {sql.time("j.updated")} AS updated,
        d.class_key AS device_class, j.kind, j.driver, j.calls, j.device_seconds
    FROM jobs j
    JOIN labels l ON l.id = j.label
    JOIN problems p ON p.id = j.problem
    LEFT JOIN machines b ON b.id = j.build_machine
    LEFT JOIN machines e ON e.id = j.eval_machine
    LEFT JOIN owners o ON o.id = j.owner
    LEFT JOIN label_devices d ON d.label = j.label AND d.device = j.device"""


_STATE_COUNTS = """
    SELECT l.name AS label, j.device, j.state, count(*) AS jobs
    FROM jobs j JOIN labels l ON l.id = j.label
    GROUP BY l.name, j.device, j.state"""


def _results(sql: ViewSyntax) -> str:
    return f"""
    SELECT j.id AS job, l.name AS label, p.key AS problem, p.operation, p.direction, p.dtype,
        j.device, {sql.member("j.result", "status")} AS outcome,
        {sql.member("j.result", "solver")} AS solver, {sql.member("j.result", "config")} AS config,
        {sql.number(sql.member("j.result", "time_ns"))} AS time_ns,
        {sql.number(sql.member("j.result", "speedup"))} AS speedup,
        {sql.member("j.result", "vendor")} AS vendor,
        {sql.number(sql.member("j.result", "vendor_ns"))} AS vendor_ns,
        j.trials, j.failed_trials, j.toolchain, j.result AS record, e.name AS eval_machine, j.gpu,
        {sql.time("j.updated")} AS evaluated
    FROM jobs j
    JOIN labels l ON l.id = j.label
    JOIN problems p ON p.id = j.problem
    LEFT JOIN machines e ON e.id = j.eval_machine
    WHERE j.state = 'evaluated'"""


# A stage that was done in two epochs has equal rows twice.
_JOB_STUDIES = """
    SELECT DISTINCT s.job, s.id AS study, s.problem, s.solver, s.device, s.searcher, s.seed,
        s.objective
    FROM ledger_studies s"""

_JOB_CANDIDATES = """
    SELECT DISTINCT c.job, c.id AS candidate, c.problem, c.solver, c.solver_version, c.config
    FROM ledger_candidates c"""

_OF_A_ROUND = """
    JOIN rounds r ON r.job = f.job AND r.epoch = f.job_epoch AND r.round = f.round
        AND r.stage = f.stage
    JOIN jobs j ON j.id = f.job
    JOIN labels l ON l.id = j.label
    JOIN problems p ON p.id = j.problem
    LEFT JOIN machines m ON m.id = r.machine"""
"""Joins of a ledger table ``f`` with its round, job, label, problem and machine."""

_TRIALS = f"""
    SELECT f.job, l.name AS label, p.key AS problem, j.device, f.job_epoch AS epoch, f.round,
        f.seq, f.study, s.solver, f.config, f.status, f.value, f.spread, f.reason, f.metrics,
        m.name AS machine, f.created
    FROM ledger_study_log f {_OF_A_ROUND}
    LEFT JOIN job_studies s ON s.job = f.job AND s.study = f.study
    WHERE f.kind = 'tell'"""

_OF_A_CANDIDATE = "LEFT JOIN job_candidates c ON c.job = f.job AND c.candidate = f.candidate"


def _measurements(sql: ViewSyntax) -> str:
    return f"""
    SELECT f.job, l.name AS label, p.key AS problem, j.device, f.job_epoch AS epoch, f.round,
        c.solver, c.config, f.candidate, f.source_digest, f.device_instance, f.device_class,
        f.session, f.block, f.sentinel_ns, f.disturbed, f.status AS verdict, f.created, f.reason,
        {sql.inner("f.metrics", "time_ns", "samples")} AS samples_ns, f.metrics,
        m.name AS machine, f.id AS measurement
    FROM ledger_measurements f {_OF_A_ROUND}
    {_OF_A_CANDIDATE}"""


def _samples(sql: ViewSyntax) -> str:
    shown = ", ".join(f"{columns} AS {name}" for name, columns in sql.sample.items())
    return f"""
    SELECT f.job, l.name AS label, p.key AS problem, j.device, f.job_epoch AS epoch, f.round,
        c.solver, c.config, f.device_class, f.id AS measurement, f.session, f.block,
        f.status AS verdict, {shown}
    FROM ledger_measurements f {_OF_A_ROUND}
    {_OF_A_CANDIDATE}
    {sql.each_sample("f.metrics")}"""


def _job_story(sql: ViewSyntax) -> str:
    return f"""
    SELECT s.id AS line, s.job, l.name AS label, p.key AS problem, j.device,
        {sql.time("s.at")} AS happened, s.event, s.before AS state_before, s.after AS state_after,
        s.epoch, s.round, s.attempt, m.name AS machine, s.gpu, s.reason
    FROM story s
    JOIN jobs j ON j.id = s.job
    JOIN labels l ON l.id = j.label
    JOIN problems p ON p.id = j.problem
    LEFT JOIN machines m ON m.id = s.machine"""


def _problem_list(sql: ViewSyntax) -> str:
    columns = {
        name: f"(SELECT {sql.joined(text)} FROM problem_tags t WHERE t.problem = p.id) AS {name}"
        for name, text in (
            ("tags", "t.tag"),
            ("sources", "nullif(t.source, '')"),
            ("models", "nullif(t.model, '')"),
        )
    }
    return f"""
    SELECT p.id, p.key AS problem, p.operation, p.direction, p.dtype, {", ".join(columns.values())},
        CASE WHEN EXISTS (SELECT 1 FROM problem_tags t WHERE t.problem = p.id AND t.recurrent)
        THEN 1 ELSE 0 END AS recurrent,
        CASE WHEN p.retired THEN 1 ELSE 0 END AS retired, {sql.time("p.created")} AS created,
        {sql.time("j.updated")} AS measured, m.name AS machine, j.device,
        coalesce({sql.member("j.result", "solver")},
            CASE WHEN j.kind = 'tune' THEN j.solver ELSE j.kind END) AS solver
    FROM problems p
    LEFT JOIN jobs j ON j.id = (
        SELECT n.id FROM jobs n WHERE n.problem = p.id AND n.state = 'evaluated'
        ORDER BY n.updated DESC, n.id DESC LIMIT 1)
    LEFT JOIN machines m ON m.id = j.eval_machine"""


def _problem_tag_list(sql: ViewSyntax) -> str:
    return f"""
    SELECT p.id, p.key AS problem, t.tag, CASE WHEN t.recurrent THEN 1 ELSE 0 END AS recurrent,
        t.source, t.model, {sql.time("t.created")} AS created, t.calls
    FROM problem_tags t JOIN problems p ON p.id = t.problem"""


def _label_list(sql: ViewSyntax) -> str:
    return f"""
    SELECT l.name AS label, l.owner, l.ticket, l.versions, l.image, l.toolchain,
        CASE WHEN l.aborted THEN 1 ELSE 0 END AS aborted, {sql.time("l.created")} AS created,
        (SELECT count(*) FROM jobs j WHERE j.label = l.id) AS jobs, l.device_seconds
    FROM labels l"""
