"""Views: what people ask by hand gets the same answer from every database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, text

from skipjack.fleet.store import Store, open_store
from skipjack.fleet.store.jobs import facts
from skipjack.fleet.store.schema import tables, views
from skipjack.fleet.store.sql.dialect import dialects
from skipjack.ledger import Facts
from skipjack.settings import Settings

CREATED = "2026-01-01T00:00:00.000000Z"
LOGGED = {"study": "s1", "solver_version": 3, "epoch": 0, "created": CREATED}
BUILT: Facts = {
    "studies": [
        {
            **{"id": "s1", "problem": "matmul:8x8x8", "solver": "loops", "device": "znver4/1"},
            **{
                "searcher": "random",
                "seed": "7",
                "space": "",
                "objective": "time",
                "protocol": "p",
                "created": CREATED,
            },
        }
    ],
    "candidates": [
        {
            **{"id": "c1", "problem": "matmul:8x8x8", "solver": "loops", "solver_version": 3},
            **{"config": '{"tile":8}', "created": CREATED},
        }
    ],
    "study_log": [LOGGED | {"id": "l1", "seq": 1, "kind": "ask", "config": '{"tile":8}'}],
}
METRICS = json.dumps(
    {
        "calls": {"samples": [5.0], "unit": "1"},
        "clock": {"samples": ["inf", 0.5], "unit": ""},
        "none": {"samples": [], "unit": "ns"},
        "time_ns": {"samples": [1.0, 2.0], "unit": "ns"},
    }
)
TOLD: Facts = {
    "study_log": [
        {
            **LOGGED | {"id": "l2", "seq": 2, "kind": "tell", "config": '{"tile":8}'},
            **{"status": "ok", "value": 1234.5, "spread": 0.25, "reason": "", "metrics": "{}"},
        },
        {
            **LOGGED | {"id": "l3", "seq": 3, "kind": "tell", "config": '{"tile":16}'},
            **{"status": "crash", "reason": 'it\'s 100 % broken: "ü😀"', "metrics": "{}"},
        },
    ],
    "measurements": [
        {
            **{"id": "m1", "candidate": "c1", "session": "x", "block": 0, "disturbed": 1},
            **{"metrics": METRICS, "status": "ok", "reason": "", "sentinel_ns": 2.5, "seq": 7},
            **{"protocol": "p", "device_instance": "i", "device_class": "c", "created": CREATED},
        }
    ],
}
OTHER = {"id": 2, "digest": "e", "key": "relu:8", "operation": "relu", "retired": True}


@pytest.fixture(scope="module", params=("sqlite", "postgresql", "mariadb"))
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """A store with one job that is evaluated, in two stages, and one that is new."""
    place = tmp_path_factory.mktemp("views")
    if request.param == "sqlite":
        url = f"sqlite:///{place / 'fleet.sqlite'}"
    else:
        url = request.getfixturevalue(request.param).fresh()
    with open_store(url, settings=Settings(place)) as store:
        _fill(store)
        yield store


def _fill(store: Store) -> None:
    result = {"status": "won", "solver": "loops", "config": {"tile": 8}, "time_ns": 1234.5}
    job = {
        **{"label": 1, "problem": 1, "device": "znver4/1", "searcher": "auto", "budget": 32},
        **{"round_size": 8, "reason": "", "created": 86400.0, "updated": 86400.5},
    }
    done = {
        **{"id": 1, "solver": "auto", "state": "evaluated", "result": json.dumps(result)},
        **{"trials": 2, "failed_trials": 1, "best_ns": 1234.5, "failures": 0, "losses": 0},
        **{"build_machine": 1, "eval_machine": 1, "gpu": "0"},
    }
    rounds = {
        **{"job": 1, "epoch": 0, "round": 0, "digests": "[]", "trials": 2, "failed_trials": 1},
        **{"attempt": 1, "machine": 1, "created": 0.0},
    }
    history = {
        **{"job": 1, "at": 86400.25, "event": "built", "before": "building", "after": "built"},
        **{"epoch": 0, "round": 0, "attempt": 1, "machine": 1, "reason": ""},
    }
    machine = {
        "id": 1,
        "name": "m1",
        "engine": "local",
        "devices": "[]",
        "set_aside": "",
        "seen": 0,
    }
    problem = {"id": 1, "digest": "d", "key": "matmul:8x8x8", "operation": "matmul", "created": 0}
    with store.database.engine.begin() as connection:
        connection.execute(insert(tables.problems).values(problem))
        for tag in ({"tag": "b", "recurrent": True, "source": "s"}, {"tag": "a", "source": "s"}):
            connection.execute(insert(tables.problem_tags).values(problem=1, created=0, **tag))
        connection.execute(insert(tables.problems).values(problem | OTHER))
        label = {"name": "L", "owner": "me", "ticket": "MLO-1", "image": "rocm"}
        connection.execute(insert(tables.labels).values(id=1, created=0, **label))
        connection.execute(insert(tables.devices).values(name="znver4/1", created=0))
        connection.execute(insert(tables.machines).values(machine))
        connection.execute(insert(tables.jobs).values(job | done))
        waiting = {"id": 2, "solver": "mkl", "failures": 1, "losses": 2}
        connection.execute(insert(tables.jobs).values(job | waiting))
        for stage, content in (("build", BUILT), ("evaluate", TOLD)):
            row = rounds | {"stage": stage, "ledger_rows": facts.counted(content)}
            connection.execute(insert(tables.rounds).values(row))
            facts.write(connection, [(row, content)])
        # A stage that found out nothing.
        empty = rounds | {"round": 1, "stage": "build"}
        connection.execute(insert(tables.rounds).values(empty))
        connection.execute(insert(tables.history).values(history))


def ask(store: Store, query: str) -> list[dict[str, Any]]:
    with store.database.engine.connect() as connection:
        return [dict(row) for row in connection.execute(text(query)).mappings()]


def test_a_job_is_one_row_with_its_names(filled: Store) -> None:
    done, waiting = ask(filled, "SELECT * FROM job_list ORDER BY job")
    assert (done["label"], done["label_owner"], done["problem"]) == ("L", "me", "matmul:8x8x8")
    assert (done["arch"], done["units"]) == ("znver4", 1)
    assert (done["state"], done["best_ns"], done["trials"]) == ("evaluated", 1234.5, 2)
    assert (done["build_machine"], done["eval_machine"], done["gpu"]) == ("m1", "m1", "0")
    assert str(done["created"]).startswith("1970-01-02 00:00:00")
    assert (waiting["retries"], waiting["eval_machine"], waiting["state"]) == (3, None, "new")


def test_a_problem_is_one_row_with_its_tags_and_its_last_measurement(filled: Store) -> None:
    known, other = ask(filled, "SELECT * FROM problem_list ORDER BY id")
    assert (known["problem"], known["tags"], known["sources"]) == ("matmul:8x8x8", "a,b", "s")
    assert (known["models"], known["recurrent"], known["retired"]) == (None, 1, 0)
    assert str(known["measured"]).startswith("1970-01-02 00:00:00")
    assert (known["machine"], known["device"], known["solver"]) == ("m1", "znver4/1", "loops")
    assert (other["tags"], other["recurrent"], other["retired"]) == (None, 0, 1)
    assert (other["measured"], other["solver"]) == (None, None)
    tags = ask(filled, "SELECT tag, recurrent, source, model FROM problem_tag_list ORDER BY tag")
    assert [tuple(row.values()) for row in tags] == [("a", 0, "s", ""), ("b", 1, "s", "")]


def test_a_label_is_one_row_with_what_people_wrote_about_it(filled: Store) -> None:
    (row,) = ask(filled, "SELECT * FROM label_list")
    assert (row["label"], row["owner"], row["ticket"], row["image"]) == ("L", "me", "MLO-1", "rocm")
    assert (row["versions"], row["aborted"], row["jobs"]) == ("", 0, 2)


def test_states_are_counted_by_label_and_device(filled: Store) -> None:
    rows = ask(filled, "SELECT * FROM state_counts ORDER BY state")
    assert [tuple(row.values()) for row in rows] == [
        ("L", "znver4/1", "evaluated", 1),
        ("L", "znver4/1", "new", 1),
    ]


def test_results_are_taken_out_of_their_record(filled: Store) -> None:
    (row,) = ask(filled, "SELECT * FROM results")
    assert (row["outcome"], row["solver"], row["time_ns"]) == ("won", "loops", 1234.5)
    assert json.loads(row["config"]) == {"tile": 8}
    assert (row["speedup"], row["vendor_ns"]) == (None, None)


def test_trials_are_what_was_told_with_the_studys_solver(filled: Store) -> None:
    ok, crashed = ask(filled, "SELECT * FROM trials ORDER BY seq")
    assert (ok["job"], ok["label"], ok["problem"]) == (1, "L", "matmul:8x8x8")
    assert (ok["solver"], ok["config"], ok["status"]) == ("loops", '{"tile":8}', "ok")
    assert (ok["value"], ok["spread"], ok["machine"]) == (1234.5, 0.25, "m1")
    assert (crashed["status"], crashed["value"]) == ("crash", None)
    assert crashed["reason"] == 'it\'s 100 % broken: "ü😀"'


def test_measurements_come_with_their_candidate(filled: Store) -> None:
    (row,) = ask(filled, "SELECT * FROM measurements WHERE session = 'x'")
    assert (row["solver"], row["config"]) == ("loops", '{"tile":8}')
    assert (json.loads(row["samples_ns"]), row["sentinel_ns"]) == ([1.0, 2.0], 2.5)
    assert json.loads(row["metrics"]) == json.loads(METRICS)
    assert (row["block"], row["disturbed"], row["verdict"], row["reason"]) == (0, 1, "ok", "")


def test_every_sample_is_a_row_with_a_number(filled: Store) -> None:
    query = "SELECT * FROM samples ORDER BY metric, number"
    shown = ("metric", "unit", "number", "value", "word")
    found = ask(filled, query)
    assert [tuple(row[name] for name in shown) for row in found] == [
        ("calls", "1", 0, 5.0, None),
        ("clock", "", 0, None, "inf"),
        ("clock", "", 1, 0.5, None),
        ("time_ns", "ns", 0, 1.0, None),
        ("time_ns", "ns", 1, 2.0, None),
    ]
    assert {(row["label"], row["solver"], row["measurement"], row["verdict"]) for row in found} == {
        ("L", "loops", "m1", "ok")
    }


def test_the_story_names_its_machine(filled: Store) -> None:
    (row,) = ask(filled, "SELECT * FROM job_story")
    assert (row["event"], row["state_before"], row["state_after"]) == ("built", "building", "built")
    assert (row["machine"], row["problem"]) == ("m1", "matmul:8x8x8")


def test_the_queries_of_the_documentation_run(filled: Store) -> None:
    page = (Path(__file__).parents[3] / "docs" / "fleet-store.md").read_text(encoding="utf-8")
    queries = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    assert len(queries) >= 4
    for query in queries:
        assert ask(filled, query.strip().rstrip(";")), query


def test_every_view_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "fleet-store.md").read_text(encoding="utf-8")
    assert [name for name in views.NAMES if f"| `{name}` |" not in page] == []


def test_the_same_columns_everywhere() -> None:
    names = [list(views.definitions(dialect.view_syntax)) for dialect in dialects()]
    assert names == [list(views.NAMES)] * len(dialects())
