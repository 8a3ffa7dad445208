"""Views for people who query by hand. They hold no data, and every upgrade makes them anew.

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
`job_story`       each thing that happened to a job
`problem_list`    each problem: its tags and what they say, whether it is retired, when it was last
                  measured, and by which machine, device and solver
`problem_tag_list`  each tag of each problem: recurrent, source, model
`label_list`      each label: owner, ticket, versions, image, toolchain, number of jobs
`job_studies`     each study of a job: `trials.study` is its id
`job_candidates`  each candidate of a job: `measurements.candidate` is its id
================  ================================================================================

Times are timestamps here, in UTC where the database has no time zones.
"""

from __future__ import annotations

from sqlalchemy import Connection, text

from skipjack.fleet.store.sql.dialect import dialect_of
from skipjack.fleet.store.sql.spelling import Cell, Spelling

NAMES = (
    "job_list",
    "state_counts",
    "results",
    "job_studies",
    "job_candidates",
    "trials",
    "measurements",
    "job_story",
    "problem_list",
    "problem_tag_list",
    "label_list",
)

# Where the ledger's tables have the columns that are shown; facts list columns in table order.
_STUDIES = (
    Cell("study", 0),
    Cell("problem", 1),
    Cell("solver", 2),
    Cell("device", 3),
    Cell("searcher", 4),
    Cell("seed", 5),
    Cell("objective", 7),
)
_CANDIDATES = (
    Cell("candidate", 0),
    Cell("problem", 1),
    Cell("solver", 2),
    Cell("solver_version", 3, "integer"),
    Cell("config", 4),
)
_STUDY_LOG = (
    Cell("study", 1),
    Cell("seq", 4, "integer"),
    Cell("kind", 5),
    Cell("config", 6),
    Cell("status", 7),
    Cell("value", 8, "number"),
    Cell("spread", 9, "number"),
    Cell("reason", 10),
    Cell("metrics", 11),
    Cell("created", 12),
)
_MEASUREMENTS = (
    Cell("candidate", 1),
    Cell("source_digest", 2),
    Cell("device_instance", 3),
    Cell("device_class", 4),
    Cell("session", 6),
    Cell("block", 7, "integer"),
    Cell("sentinel_ns", 9, "number"),
    Cell("disturbed", 10, "integer"),
    Cell("verdict", 12),
    Cell("created", 13),
    Cell("reason", 14),
)
_METRICS = Cell("metrics", 8)
"""By name, each with its unit and samples; before format 3 of facts the samples of the time."""
_METRICS_BEFORE_3 = Cell("further_metrics", 11)


def create(connection: Connection) -> None:
    """Make all views that are not there."""
    drop(connection)
    # As they are: a colon in a JSON path is no parameter.
    for name, query in definitions(dialect_of(connection).spelling).items():
        connection.exec_driver_sql(f"CREATE VIEW {name} AS {query}")


def drop(connection: Connection) -> None:
    """Remove the views, those that stand on others first."""
    for name in reversed(NAMES):
        connection.execute(text(f"DROP VIEW IF EXISTS {name}"))


def definitions(sql: Spelling) -> dict[str, str]:
    """What each view selects, in the order of creation."""
    return {
        "job_list": _job_list(sql),
        "state_counts": _STATE_COUNTS,
        "results": _results(sql),
        "job_studies": _unnested(sql, "studies", _STUDIES),
        "job_candidates": _unnested(sql, "candidates", _CANDIDATES),
        "trials": _trials(sql),
        "measurements": _measurements(sql),
        "job_story": _job_story(sql),
        "problem_list": _problem_list(sql),
        "problem_tag_list": _problem_tag_list(sql),
        "label_list": _label_list(sql),
    }


def _job_list(sql: Spelling) -> str:
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
        d.class_key AS device_class, j.kind, j.driver
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


def _results(sql: Spelling) -> str:
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


def _unnested(sql: Spelling, table: str, columns: tuple[Cell, ...]) -> str:
    shown = ", ".join(f"{sql.cell(column)} AS {column.name}" for column in columns)
    # A stage that was done twice, in two epochs, says the same twice.
    return f"""
    SELECT DISTINCT r.job, {shown}
    FROM rounds r {sql.each_row("r.facts", table, columns)}"""


def _trials(sql: Spelling) -> str:
    cell = {column.name: sql.cell(column) for column in _STUDY_LOG}
    return f"""
    SELECT r.job, l.name AS label, p.key AS problem, j.device, r.epoch, r.round,
        {cell["seq"]} AS seq, {cell["study"]} AS study,
        s.solver, {cell["config"]} AS config, {cell["status"]} AS status,
        {cell["value"]} AS value, {cell["spread"]} AS spread, {cell["reason"]} AS reason,
        {cell["metrics"]} AS metrics, m.name AS machine, {cell["created"]} AS created
    FROM rounds r
    JOIN jobs j ON j.id = r.job
    JOIN labels l ON l.id = j.label
    JOIN problems p ON p.id = j.problem
    LEFT JOIN machines m ON m.id = r.machine
    {sql.each_row("r.facts", "study_log", _STUDY_LOG)}
    LEFT JOIN job_studies s ON s.job = r.job AND s.study = {cell["study"]}
    WHERE {cell["kind"]} = 'tell'"""


def _measurements(sql: Spelling) -> str:
    shown = ", ".join(f"{sql.cell(column)} AS {column.name}" for column in _MEASUREMENTS)
    metrics, before = sql.cell(_METRICS), sql.cell(_METRICS_BEFORE_3)
    named = f"substr({metrics}, 1, 1) = '{{'"
    columns = (*_MEASUREMENTS, _METRICS, _METRICS_BEFORE_3)
    return f"""
    SELECT r.job, l.name AS label, p.key AS problem, j.device, r.epoch, r.round, c.solver, c.config,
        {shown},
        CASE WHEN {named} THEN {sql.inner(metrics, "time_ns", "samples")} ELSE {metrics} END
        AS samples_ns,
        CASE WHEN {named} THEN {metrics} ELSE {before} END AS metrics, m.name AS machine
    FROM rounds r
    JOIN jobs j ON j.id = r.job
    JOIN labels l ON l.id = j.label
    JOIN problems p ON p.id = j.problem
    LEFT JOIN machines m ON m.id = r.machine
    {sql.each_row("r.facts", "measurements", columns)}
    LEFT JOIN job_candidates c ON c.job = r.job AND c.candidate = {sql.cell(_MEASUREMENTS[0])}"""


def _job_story(sql: Spelling) -> str:
    return f"""
    SELECT s.id AS line, s.job, l.name AS label, p.key AS problem, j.device,
        {sql.time("s.at")} AS happened, s.event, s.before AS state_before, s.after AS state_after,
        s.epoch, s.round, s.attempt, m.name AS machine, s.gpu, s.reason
    FROM story s
    JOIN jobs j ON j.id = s.job
    JOIN labels l ON l.id = j.label
    JOIN problems p ON p.id = j.problem
    LEFT JOIN machines m ON m.id = s.machine"""


def _problem_list(sql: Spelling) -> str:
    said = {
        name: f"(SELECT {sql.joined(text)} FROM problem_tags t WHERE t.problem = p.id) AS {name}"
        for name, text in (
            ("tags", "t.tag"),
            ("sources", "nullif(t.source, '')"),
            ("models", "nullif(t.model, '')"),
        )
    }
    return f"""
    SELECT p.id, p.key AS problem, p.operation, p.direction, p.dtype, {", ".join(said.values())},
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


def _problem_tag_list(sql: Spelling) -> str:
    return f"""
    SELECT p.id, p.key AS problem, t.tag, CASE WHEN t.recurrent THEN 1 ELSE 0 END AS recurrent,
        t.source, t.model, {sql.time("t.created")} AS created
    FROM problem_tags t JOIN problems p ON p.id = t.problem"""


def _label_list(sql: Spelling) -> str:
    return f"""
    SELECT l.name AS label, l.owner, l.ticket, l.versions, l.image, l.toolchain,
        CASE WHEN l.aborted THEN 1 ELSE 0 END AS aborted, {sql.time("l.created")} AS created,
        (SELECT count(*) FROM jobs j WHERE j.label = l.id) AS jobs
    FROM labels l"""
