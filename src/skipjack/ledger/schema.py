"""The SQL of the ledger's tables, as numbered steps from an empty file to the present format.

A step is never edited once released; a change is a further step. Rows are facts: their `id` is a
digest of their content, so that a union of ledgers is a union of rows.
"""

from __future__ import annotations

_CREATED = "created TEXT NOT NULL CHECK (created GLOB '????-??-??T??:??:??.??????Z')"
_ID = "id TEXT NOT NULL PRIMARY KEY CHECK (id <> '')"
_MEASURED = f"""{_ID},
        candidate TEXT NOT NULL REFERENCES candidates (id),
        source_digest TEXT,
        device_instance TEXT NOT NULL,
        device_class TEXT NOT NULL,
        protocol TEXT NOT NULL REFERENCES protocols (id),
        session TEXT NOT NULL,
        block INTEGER NOT NULL"""
"""The columns of the table of measurements that are the same in all formats."""


def _is_json(column: str, kind: str) -> str:
    # CASE, because json_type raises an error of its own on text that is not JSON.
    return f"CASE json_valid({column}) WHEN 1 THEN json_type({column}) = '{kind}' ELSE 0 END"


def _append_only(table: str) -> tuple[str, ...]:
    return tuple(
        f"CREATE TRIGGER {table}_no_{event.lower()} BEFORE {event} ON {table} "
        f"BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END"
        for event in ("UPDATE", "DELETE")
    )


_TABLES = (
    f"""CREATE TABLE devices (
        {_ID},
        class_key TEXT NOT NULL,
        name TEXT NOT NULL,
        record TEXT NOT NULL CHECK ({_is_json("record", "object")}),
        {_CREATED}
    ) STRICT""",
    f"""CREATE TABLE protocols (
        {_ID},
        text TEXT NOT NULL UNIQUE,
        {_CREATED}
    ) STRICT""",
    f"""CREATE TABLE studies (
        {_ID},
        problem TEXT NOT NULL,
        solver TEXT NOT NULL,
        device TEXT NOT NULL,
        searcher TEXT NOT NULL,
        seed TEXT NOT NULL,
        space TEXT NOT NULL,
        objective TEXT NOT NULL,
        protocol TEXT NOT NULL REFERENCES protocols (id),
        {_CREATED}
    ) STRICT""",
    # A study's log starts over with a new epoch: on request, or when its solver's version rises.
    f"""CREATE TABLE epochs (
        study TEXT NOT NULL REFERENCES studies (id),
        solver_version INTEGER NOT NULL,
        number INTEGER NOT NULL CHECK (number >= 0),
        {_CREATED},
        PRIMARY KEY (study, solver_version, number)
    ) STRICT, WITHOUT ROWID""",
    f"""CREATE TABLE study_log (
        {_ID},
        study TEXT NOT NULL,
        solver_version INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        seq INTEGER NOT NULL CHECK (seq > 0),
        kind TEXT NOT NULL CHECK (kind IN ('ask', 'tell')),
        config TEXT NOT NULL CHECK ({_is_json("config", "object")}),
        status TEXT CHECK ((status IS NULL) = (kind = 'ask')),
        value REAL CHECK (value IS NULL OR status = 'ok'),
        spread REAL,
        reason TEXT,
        metrics TEXT CHECK (metrics IS NULL OR {_is_json("metrics", "object")}),
        {_CREATED},
        FOREIGN KEY (study, solver_version, epoch)
            REFERENCES epochs (study, solver_version, number)
    ) STRICT""",
    f"""CREATE TABLE candidates (
        {_ID},
        problem TEXT NOT NULL,
        solver TEXT NOT NULL,
        solver_version INTEGER NOT NULL,
        config TEXT NOT NULL CHECK ({_is_json("config", "object")}),
        {_CREATED},
        UNIQUE (problem, solver, solver_version, config)
    ) STRICT""",
    f"""CREATE TABLE builds (
        {_ID},
        source_digest TEXT NOT NULL,
        compat TEXT NOT NULL,
        status TEXT NOT NULL,
        artifact_digest TEXT CHECK ((artifact_digest IS NOT NULL) = (status = 'ok')),
        symbol TEXT NOT NULL,
        abi TEXT NOT NULL,
        reason TEXT NOT NULL,
        seconds REAL NOT NULL CHECK (seconds >= 0),
        resources TEXT NOT NULL CHECK ({_is_json("resources", "object")}),
        compiler TEXT NOT NULL,
        target TEXT NOT NULL,
        {_CREATED}
    ) STRICT""",
    # Finds the build of a candidate without lowering it; `created` is when it last held.
    f"""CREATE TABLE candidate_builds (
        candidate TEXT NOT NULL REFERENCES candidates (id),
        compat TEXT NOT NULL,
        source_digest TEXT NOT NULL,
        {_CREATED},
        PRIMARY KEY (candidate, compat, source_digest)
    ) STRICT, WITHOUT ROWID""",
    f"""CREATE TABLE measurements (
        {_MEASURED},
        samples_ns TEXT NOT NULL CHECK ({_is_json("samples_ns", "array")}),
        sentinel_ns REAL,
        disturbed INTEGER NOT NULL CHECK (disturbed >= 0),
        metrics TEXT NOT NULL CHECK ({_is_json("metrics", "object")}),
        verdict TEXT NOT NULL,
        {_CREATED}
    ) STRICT""",
    f"""CREATE TABLE verdicts (
        {_ID},
        study TEXT NOT NULL REFERENCES studies (id),
        problem TEXT NOT NULL,
        device TEXT NOT NULL,
        solver TEXT NOT NULL,
        config TEXT NOT NULL CHECK ({_is_json("config", "object")}),
        status TEXT NOT NULL CHECK (status <> ''),
        record TEXT NOT NULL CHECK ({_is_json("record", "object")}),
        {_CREATED}
    ) STRICT""",
    *_append_only("study_log"),
    *_append_only("builds"),
    *_append_only("measurements"),
    *_append_only("verdicts"),
)

_INDICES_AND_VIEW = (
    "CREATE INDEX study_log_in_order ON study_log (study, solver_version, epoch, seq)",
    "CREATE INDEX builds_by_source ON builds (source_digest, compat)",
    "CREATE INDEX measurements_by_candidate ON measurements (candidate)",
    "CREATE INDEX verdicts_by_problem ON verdicts (problem, status)",
    """CREATE VIEW current_epochs AS
        SELECT study, solver_version, number FROM epochs AS mine
        WHERE NOT EXISTS (
            SELECT 1 FROM epochs AS later WHERE later.study = mine.study
            AND (later.solver_version, later.number) > (mine.solver_version, mine.number)
        )""",
)

# `identity` identifies what a candidate was built from and for: the content of its operation and
# solver, and the device. Older rows have none, so that no build is found by them.
_BUILD_IDENTITY = (
    "ALTER TABLE candidate_builds RENAME TO candidate_builds_2",
    f"""CREATE TABLE candidate_builds (
        candidate TEXT NOT NULL REFERENCES candidates (id),
        compat TEXT NOT NULL,
        identity TEXT NOT NULL DEFAULT '',
        source_digest TEXT NOT NULL,
        {_CREATED},
        PRIMARY KEY (candidate, compat, identity, source_digest)
    ) STRICT, WITHOUT ROWID""",
    "INSERT INTO candidate_builds (candidate, compat, source_digest, created) "
    "SELECT candidate, compat, source_digest, created FROM candidate_builds_2",
    "DROP TABLE candidate_builds_2",
)

# The last of a candidate's maps is found by the order of writing, which does not depend on clocks:
# SQLite's row numbers, which a table WITHOUT ROWID does not have.
_BUILDS_IN_SEQUENCE = (
    "ALTER TABLE candidate_builds RENAME TO candidate_builds_3",
    f"""CREATE TABLE candidate_builds (
        candidate TEXT NOT NULL REFERENCES candidates (id),
        compat TEXT NOT NULL,
        identity TEXT NOT NULL DEFAULT '',
        source_digest TEXT NOT NULL,
        {_CREATED},
        PRIMARY KEY (candidate, compat, identity, source_digest)
    ) STRICT""",
    "INSERT INTO candidate_builds (candidate, compat, identity, source_digest, created) "
    "SELECT candidate, compat, identity, source_digest, created FROM candidate_builds_3 "
    "ORDER BY created, source_digest",
    "DROP TABLE candidate_builds_3",
)

_FORGET = "solver = 'command' AND protocols.text = 'command:forget'"
_SEARCH_ENDED = "solver = 'triton_autotune' AND verdict = 'no_result' AND samples_ns = '[]'"
_FROM_4 = """FROM measurements_4 AS old
    LEFT JOIN candidates ON candidates.id = old.candidate
    LEFT JOIN protocols ON protocols.id = old.protocol"""
_CONVERTED = "(solver, CAST(samples_ns AS BLOB), CAST(old.metrics AS BLOB))"
_OF_4 = "old.id, device_instance, device_class, session, format_5_seq(old.created), old.created"

# Measurements have named metrics with units; rows that are not measurements are marks. Rows are
# ordered by `seq`, not by dates. Rows that cannot be read are kept unchanged.
_NAMED_METRICS = (
    "ALTER TABLE measurements RENAME TO measurements_4",
    f"""CREATE TABLE measurements (
        {_MEASURED},
        metrics TEXT NOT NULL CHECK ({_is_json("metrics", "object")}),
        sentinel_ns REAL,
        disturbed INTEGER NOT NULL CHECK (disturbed >= 0),
        details TEXT CHECK (details IS NULL OR {_is_json("details", "object")}),
        status TEXT NOT NULL,
        {_CREATED},
        reason TEXT NOT NULL,
        seq INTEGER NOT NULL
    ) STRICT""",
    f"""CREATE TABLE marks (
        {_ID},
        kind TEXT NOT NULL CHECK (kind <> ''),
        scope TEXT NOT NULL,
        problem TEXT NOT NULL,
        solver TEXT NOT NULL,
        solver_version INTEGER NOT NULL,
        protocol TEXT REFERENCES protocols (id),
        device_instance TEXT NOT NULL,
        device_class TEXT NOT NULL,
        session TEXT NOT NULL,
        seq INTEGER NOT NULL,
        {_CREATED}
    ) STRICT""",
    f"""INSERT INTO marks (kind, scope, problem, solver, solver_version,
        id, device_instance, device_class, session, seq, created)
        SELECT 'forget', verdict, problem, solver, solver_version, {_OF_4} {_FROM_4}
        WHERE {_FORGET}""",
    f"""INSERT INTO marks (kind, scope, problem, solver, solver_version, protocol,
        id, device_instance, device_class, session, seq, created)
        SELECT 'search_ended', config, problem, solver, solver_version, old.protocol, {_OF_4}
        {_FROM_4} WHERE {_SEARCH_ENDED}""",
    f"""INSERT INTO measurements (candidate, source_digest, protocol, block, metrics, sentinel_ns,
        disturbed, details, status, reason,
        id, device_instance, device_class, session, seq, created)
        SELECT candidate, source_digest, old.protocol, block,
        coalesce(format_5_metrics{_CONVERTED},
            json_object('samples_ns', samples_ns, 'metrics', old.metrics)),
        sentinel_ns, disturbed, format_5_details{_CONVERTED}, verdict,
        coalesce(format_5_reason{_CONVERTED}, ''), {_OF_4} {_FROM_4}
        WHERE NOT EXISTS (SELECT 1 FROM marks WHERE marks.id = old.id)
        ORDER BY old.rowid""",
    "DELETE FROM candidates WHERE id IN "
    "(SELECT candidate FROM measurements_4 AS old JOIN marks ON marks.id = old.id) "
    "AND id NOT IN (SELECT candidate FROM measurements) "
    "AND id NOT IN (SELECT candidate FROM candidate_builds)",
    "DELETE FROM protocols WHERE text = 'command:forget' "
    "AND id NOT IN (SELECT protocol FROM measurements) "
    "AND id NOT IN (SELECT protocol FROM studies)",
    "DROP TABLE measurements_4",
    "CREATE INDEX measurements_by_candidate ON measurements (candidate)",
    "CREATE INDEX measurements_in_order ON measurements (seq)",
    "CREATE INDEX marks_by_problem ON marks (problem)",
    "CREATE INDEX marks_in_order ON marks (seq)",
    *_append_only("measurements"),
    *_append_only("marks"),
    """CREATE VIEW trials_view AS
        SELECT measurements.id AS measurement, measurements.seq AS seq, problem, solver,
        solver_version, config, source_digest, device_class, device_instance,
        protocols.text AS protocol, session, block, metric.key AS metric,
        json_extract(metric.value, '$.unit') AS unit,
        json_extract(metric.value, '$.samples') AS samples,
        status, reason, sentinel_ns, disturbed, measurements.created AS created
        FROM measurements
        JOIN candidates ON candidates.id = measurements.candidate
        JOIN protocols ON protocols.id = measurements.protocol
        JOIN json_each(measurements.metrics) AS metric
        WHERE metric.type = 'object'""",
)

# A build records the machine that made it, so that others can say where a known failure is from.
_MACHINES_OF_BUILDS = (
    "ALTER TABLE builds RENAME TO builds_5",
    f"""CREATE TABLE builds (
        {_ID},
        source_digest TEXT NOT NULL,
        compat TEXT NOT NULL,
        status TEXT NOT NULL,
        artifact_digest TEXT CHECK ((artifact_digest IS NOT NULL) = (status = 'ok')),
        symbol TEXT NOT NULL,
        abi TEXT NOT NULL,
        reason TEXT NOT NULL,
        seconds REAL NOT NULL CHECK (seconds >= 0),
        resources TEXT NOT NULL CHECK ({_is_json("resources", "object")}),
        compiler TEXT NOT NULL,
        target TEXT NOT NULL,
        {_CREATED},
        machine TEXT
    ) STRICT""",
    "INSERT INTO builds (id, source_digest, compat, status, artifact_digest, symbol, abi, reason, "
    "seconds, resources, compiler, target, created) "
    "SELECT id, source_digest, compat, status, artifact_digest, symbol, abi, reason, "
    "seconds, resources, compiler, target, created FROM builds_5 ORDER BY rowid",
    "DROP TABLE builds_5",
    "CREATE INDEX builds_by_source ON builds (source_digest, compat)",
    "CREATE INDEX candidate_builds_by_source ON candidate_builds (source_digest, compat)",
    *_append_only("builds"),
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    _TABLES,
    _INDICES_AND_VIEW,
    _BUILD_IDENTITY,
    _BUILDS_IN_SEQUENCE,
    _NAMED_METRICS,
    _MACHINES_OF_BUILDS,
)
"""Step n, counted from 1, leads from ``user_version`` n - 1 to n."""
