"""Every page answers with what it is about, without markup from data, and in parts."""

from html import unescape
from pathlib import Path

import pytest
from page_paths import NAMES, paths
from starlette.testclient import TestClient
from web_rig import FORMULA, KEY, MARKUP, workspace_in

from skipjack.app.views import Unit, Value
from skipjack.web import WebOptions, create_app, tables
from skipjack.web.content import LogSection, NoteSection, PageCall, PageContent
from skipjack.web.rendering import placed, render_page, written

KNOWN = [name for name in NAMES if name != "unknown"]


@pytest.mark.parametrize("name", KNOWN)
def test_a_page_answers_without_markup_from_data(
    client: TestClient, filled: Path, name: str
) -> None:
    answer = client.get(paths(filled)[name])
    assert answer.status_code == 200, answer.text
    assert "<h1>" in answer.text
    assert MARKUP not in answer.text
    assert "<script>" not in answer.text
    assert " style=" not in answer.text and "<style" not in answer.text


@pytest.mark.parametrize("name", KNOWN)
def test_a_page_is_asked_for_again_by_its_tag(client: TestClient, filled: Path, name: str) -> None:
    path = paths(filled)[name]
    part = client.get(path, headers={"X-Part": "1"})
    assert part.status_code == 200 and "<html" not in part.text
    known = {"X-Part": "1", "If-None-Match": part.headers["etag"]}
    again = client.get(path, headers=known)
    # Times of what runs now go on; all else is the same.
    assert again.status_code in (200, 304)
    if name not in ("running job", "overview", "label", "hostile label"):
        assert again.status_code == 304 and not again.content


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/labels/label_0", "label_01"),
        ("/jobs/99999", "there is no job 99999"),
        ("/jobs/one", "is not the number of a job"),
        (f"/jobs/{2**63}", "is not the number of a job"),
        (f"/problems/{KEY}?search={'9' * 4300}.x", "is not the number of a job"),
        ("/machines/gpu8", "gpu7"),
        ("/problems/matmul:9x9x9:f64", "nothing is known about problem"),
        ("/sweeps/none", "there is no sweep 'none'"),
        ("/training/none", "there is no training run 'none'"),
        ("/bank/nowhere", "there is no bank 'nowhere'"),
        ("/bank-difference?first=/etc/passwd", "there is no bank '/etc/passwd'"),
        ("/programs/none.json", "there is no result file"),
        ("/nowhere", "there is no such page"),
    ],
)
def test_an_unknown_name_is_a_page_that_says_so(client: TestClient, path: str, said: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert said.lower() in unescape(answer.text).lower()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sort=nothing", "cannot sort by 'nothing'"),
        ("colour=red", "cannot filter by 'colour'"),
        ("page=0", "the first page is 1"),
        (f"page={10**20}", "the first page is 1"),
        ("page=two", "is not a whole number"),
        ("rows=100000", "a page has 1 to 1000 rows"),
    ],
)
def test_a_wrong_table_request_is_a_sentence(client: TestClient, query: str, said: str) -> None:
    answer = client.get(f"/jobs?{query}")
    assert answer.status_code == 400
    assert said in unescape(answer.text).lower()


def test_a_table_is_sorted_filtered_and_paged_by_links(client: TestClient) -> None:
    page = client.get("/jobs?state=evaluated&sort=best_ns&rows=20").text
    assert 'aria-sort="ascending"' in page
    assert "page=2" in page and "1 to 20 of" in page
    last = client.get("/jobs?state=evaluated&rows=20&page=9999").text
    assert 'rel="next"' not in last and 'rel="prev"' in last
    assert "None match the filter" in client.get("/jobs?label=nix").text


def test_hidden_columns_are_a_link_away(client: TestClient) -> None:
    assert ">searcher<" not in client.get("/jobs").text
    assert ">searcher<" in client.get("/jobs?columns=all").text


def test_a_csv_file_has_all_rows_and_columns(client: TestClient) -> None:
    answer = client.get("/jobs?csv=jobs&rows=10")
    lines = answer.text.splitlines()
    assert lines[0].startswith("id,label,problem,")
    assert len(lines) == 1 + 402
    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]


@pytest.mark.parametrize("path", ["/jobs?sort=best_ns&csv=jobs", "/problems?csv=fleet"])
def test_a_csv_file_has_each_row_once(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    whole = client.get(path).text
    monkeypatch.setattr(tables, "MOST_ROWS", 7)
    assert client.get(path).text == whole
    names = [line.partition(",")[0] for line in whole.splitlines()]
    assert len(set(names)) == len(names) > 70


def test_a_csv_file_of_the_ledger_has_all_problems(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 3)
    rows = client.get("/problems?csv=ledger&ledger.sort=key").text.splitlines()[1:]
    total = client.get("/api/v1/ledger/problems").json()["table"]["total"]
    assert len(rows) == total > 3 and rows == sorted(rows)


def test_a_csv_file_has_no_formulas(client: TestClient) -> None:
    lines = client.get("/?csv=labels").text
    assert f"'{FORMULA[:10]}" in lines.replace('""', '"')
    assert ",=" not in lines and ',"=' not in lines


def test_a_page_has_no_such_file(client: TestClient) -> None:
    answer = client.get("/jobs?csv=machines")
    assert answer.status_code == 404
    assert "it has jobs" in answer.text


def test_an_empty_directory_says_how_to_get_everything(tmp_path: Path) -> None:
    app = create_app(WebOptions(), lambda: workspace_in(tmp_path))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        first = client.get("/")
        assert first.status_code == 200
        assert "skipjack tune" in first.text
        for path in ("/jobs", "/machines", "/problems"):
            answer = client.get(path)
            assert answer.status_code == 404 and "skipjack" in answer.text
        for path in ("/sweeps", "/training", "/bank", "/programs"):
            assert client.get(path).status_code == 200
        assert not list(tmp_path.iterdir())


def test_a_database_of_another_version_is_a_sentence(tmp_path: Path) -> None:
    import sqlite3

    place = tmp_path / "user"
    place.mkdir()
    with sqlite3.connect(place / "fleet.sqlite") as connection:
        connection.execute("CREATE TABLE skipjack_fleet_version (version_num VARCHAR(32))")
        connection.execute("INSERT INTO skipjack_fleet_version VALUES ('9999')")
    app = create_app(WebOptions(), lambda: workspace_in(place))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.get("/jobs")
        assert answer.status_code == 503
        assert "schema of revision 9999" in answer.text
        assert "9999" in client.get("/").text


def test_a_log_has_neither_colours_nor_control_characters() -> None:
    text = "\x1b[31mred\x1b[0m <b>\x1b]0;title\x07"
    page = PageContent("log", [LogSection("log", "Log", text)])
    part = render_page(page, PageCall("/jobs/1", {}, {})).part
    assert "red &lt;b&gt;\\x1b]0;title\\x07" in part


def test_two_halves_stand_beside_each_other_and_a_third_alone() -> None:
    halves = [NoteSection(name, name, "text", half=True) for name in ("a", "b", "c")]
    assert [one.half for one in placed(halves, PageCall("/", {}, {}))] == [True, True, False]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "", "-"),
        (True, "", "yes"),
        (12345, "", "12345"),
        (12345, "count", "12\u202f345"),
        (1234.5, "ns", "1.23 µs"),
        (float("nan"), "ns", "-"),
        (0.5, "share", "50 %"),
        (1e300, "time", "9999-12-31 23:59:59 UTC"),
        ("a\x00b", "", "a\\x00b"),
    ],
)
def test_values_are_written_as_people_read_them(value: Value, unit: Unit, text: str) -> None:
    assert written(value, unit) == text
