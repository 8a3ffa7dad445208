"""The API: its file describes what it answers, and it answers what the pages show."""

import json
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route
from starlette.testclient import TestClient
from web_rig import HOSTILE_KEY, KEY, MARKUP, PROGRAM, RUN, TOKEN, fill, running, workspace_in

from skipjack.app.views import JOB_COLUMNS
from skipjack.web import WebOptions, create_app
from skipjack.web.api import openapi, routes

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
BEARER = {"Authorization": f"Bearer {TOKEN}"}
schema = schemathesis.openapi.from_dict(openapi())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of its own, as these requests change what it shows."""
    place = tmp_path_factory.mktemp("api") / "user"
    fill(place)
    with running(place, TOKEN) as address:
        yield address


@schema.parametrize()
@hypothesis.settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
    phases=[hypothesis.Phase.generate],
)
def test_answers_are_as_the_file_says(case: schemathesis.Case, address: str) -> None:
    answer = case.call(base_url=address, headers=BEARER)
    case.validate_response(answer, checks=CHECKS)


def test_the_file_is_an_openapi_file(client: TestClient) -> None:
    served = client.get("/api/v1/openapi.json").json()
    assert served == json.loads(json.dumps(openapi()))
    assert served["openapi"] == "3.1.0"
    ids = [one["operationId"] for path in served["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))


def test_every_address_of_the_api_is_in_the_file(filled: Path) -> None:
    application = create_app(WebOptions(token=TOKEN), lambda: workspace_in(filled))
    found = {
        route.path.replace(":path}", "}")
        for route in application.routes
        if isinstance(route, Route) and route.path.startswith("/api/")
    }
    assert found - {"/api/v1/openapi.json"} == set(openapi()["paths"])


@pytest.mark.parametrize(
    "path",
    [
        "/sources",
        "/fleet",
        "/labels/label_01",
        "/jobs/1",
        "/jobs/402/log",
        "/machines/gpu7",
        f"/problem?problem={KEY}",
        "/actions",
        "/devices",
        "/ledger/problems?sort=key&desc=1&rows=5",
        "/bank/entries?bank=bank%20other&rows=3",
        f"/bank/entry?problem={KEY}",
        "/sweeps",
        f"/training/{RUN}",
        f"/training/{RUN}/episodes/1/1",
        f"/curves/training?run={RUN}&curve=speed-up",
        "/programs",
        "/misses",
    ],
)
def test_an_address_answers(client: TestClient, path: str) -> None:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == 200, answer.text
    assert answer.json()["format"] == 1


def test_a_table_has_every_column(client: TestClient) -> None:
    table = client.get("/api/v1/jobs?state=error&rows=5&sort=id").json()["table"]
    assert table["page"] == 1 and table["total"] > 5
    assert len(table["rows"]) == 5
    assert set(table["rows"][0]) == {column.name for column in JOB_COLUMNS}
    assert [row["id"] for row in table["rows"]] == sorted(row["id"] for row in table["rows"])


def test_a_table_is_a_csv_file_too(client: TestClient) -> None:
    answer = client.get("/api/v1/labels?csv=1")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.text.startswith("name,owner")


def test_a_search_has_a_curve(client: TestClient) -> None:
    record = client.get("/api/v1/problem", params={"problem": KEY}).json()["record"]
    search = record["searches"][0]["id"]
    asked = {"problem": KEY, "search": search}
    curve = client.get("/api/v1/curves/search", params=asked).json()["record"]
    points, best = curve["series"]
    assert points["points"] and best["steps"]
    assert len(curve["x"]) == len(points["values"]) == len(best["values"]) > 1
    known = [one for one in best["values"] if one is not None]
    assert known == sorted(known, reverse=True)


def test_a_curve_without_news_is_not_read(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = client.get("/api/v1/problem", params={"problem": KEY}).json()["record"]
    asked = {"problem": KEY, "search": record["searches"][0]["id"]}
    tag = client.get("/api/v1/curves/search", params=asked).headers["etag"]
    monkeypatch.setattr(routes, "search_curve", None)
    again = client.get("/api/v1/curves/search", params=asked, headers={"If-None-Match": tag})
    assert again.status_code == 304 and not again.content


def test_texts_are_as_they_are(client: TestClient) -> None:
    answer = client.get("/api/v1/problem", params={"problem": HOSTILE_KEY})
    assert answer.json()["record"]["key"] == HOSTILE_KEY
    assert answer.headers["content-type"] == "application/json"
    assert MARKUP in client.get("/api/v1/jobs/402/log").json()["record"]["parts"][0]["text"]


def test_a_log_is_read_on_from_its_cursor(client: TestClient) -> None:
    first = client.get("/api/v1/jobs/402/log").json()["record"]
    assert first["running"]
    again = client.get(f"/api/v1/jobs/402/log?cursor={first['cursor']}").json()["record"]
    assert again["parts"] == []


@pytest.mark.parametrize("cursor", ["x", "0.0.build.0~" + "9" * 4300, "0.0.build.0~²"])
def test_a_cursor_that_is_none_reads_the_whole_log(client: TestClient, cursor: str) -> None:
    answer = client.get("/api/v1/jobs/402/log", params={"cursor": cursor})
    assert answer.status_code == 200 and answer.json()["record"]["parts"]


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/labels/nix", 404, "unknown label"),
        ("/jobs/99999/log", 404, "there is no job 99999"),
        ("/jobs?sort=nix", 400, "cannot sort by 'nix'"),
        ("/problem", 400, "add the parameter problem"),
        (f"/jobs?page={10**20}", 400, "the first page is 1"),
        ("/programs/none/operations", 404, "there is no result file"),
        (f"/programs/{PROGRAM}/operations?page=0", 400, "the first page is 1"),
        (f"/programs/{PROGRAM}/operations?sort=x", 400, "cannot sort by"),
        ("/nix", 404, "no such page"),
    ],
)
def test_failures_are_json(client: TestClient, path: str, status: int, said: str) -> None:
    answer = client.get(f"/api/v1{path}")
    assert answer.status_code == status
    assert said in answer.json()["error"]


def test_an_answer_has_a_tag(client: TestClient) -> None:
    first = client.get("/api/v1/labels")
    known = {"If-None-Match": first.headers["etag"]}
    assert client.get("/api/v1/labels", headers=known).status_code == 304


# Metrics.


def test_metrics_count_jobs_machines_and_trials(client: TestClient) -> None:
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
    jobs = [value for name, value in values.items() if name.startswith("skipjack_jobs{")]
    assert sum(jobs) == 402
    assert values["skipjack_machines_alive"] >= 1
    assert values['skipjack_trials{label="label_01",outcome="ok"}'] > 0
    assert values['skipjack_device_seconds_total{label="label_01"}'] > 0
    assert values['skipjack_program_operations{outcome="hit"}'] == 2
    assert "skipjack_missed_lookups" in values


def test_names_in_metrics_are_quoted(client: TestClient) -> None:
    text = client.get("/metrics").text
    quoted = MARKUP.replace("\\", "\\\\").replace('"', '\\"')
    assert f'skipjack_jobs{{label="{quoted}",state="error"}} 1' in text


def test_metrics_of_nothing_are_metrics(tmp_path: Path) -> None:
    app = create_app(WebOptions(), lambda: workspace_in(tmp_path))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        text = client.get("/metrics").text
    assert 'skipjack_source_present{source="store"} 0' in text
