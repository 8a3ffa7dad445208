"""Who may read and act: tokens, sessions, forms, hosts, origins, headers."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient
from web_rig import MARKUP, TOKEN, settings_in, workspace_in

from skipjack.app.views import Workspace
from skipjack.errors import MissingFileError, UsageError
from skipjack.fleet.store import open_store
from skipjack.web import WebOptions, check_options, create_app, read_token
from skipjack.web.logins import local_path
from skipjack.web.security import WebSessions, WrongTokens, person_name

HERE = {"Origin": "http://127.0.0.1"}


def log_in(client: TestClient, token: str = TOKEN, **more: str) -> int:
    fields = {"name": "Ann", "token": token, "next": "/jobs", **more}
    return client.post("/login", data=fields, headers=HERE).status_code


def csrf(page: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', page)
    assert found
    return unescape(found[1])


# Reading.


def test_every_answer_has_the_headers(client: TestClient) -> None:
    for path in ("/", "/nowhere", "/api/v1/jobs", "/metrics", "/jobs?csv=jobs"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"


def test_an_internal_error_is_a_sentence_with_the_headers(filled: Path) -> None:
    def broken() -> Workspace:
        raise RuntimeError(f"a secret {MARKUP}")

    app = create_app(WebOptions(), broken)
    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    for path in ("/", "/api/v1/jobs", "/metrics"):
        answer = client.get(path)
        assert answer.status_code == 500
        assert "an internal error (RuntimeError)" in answer.text.replace(
            "An internal", "an internal"
        )
        assert "secret" not in answer.text
        assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "",
        "a@localhost",
        "[",
    ],
)
def test_a_foreign_host_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/jobs", headers={"Host": host})
    assert answer.status_code == 421
    assert "resnet" not in answer.text and "/labels" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8717", "127.0.0.1:9", "[::1]:8717"])
def test_names_of_this_machine_are_answered(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_name_of_a_proxy_is_answered_if_it_is_given(filled: Path) -> None:
    options = WebOptions(token=TOKEN, names=("tuning.example",))
    with TestClient(create_app(options, lambda: workspace_in(filled))) as client:
        assert client.get("/healthz", headers={"Host": "tuning.example"}).status_code == 200
        assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 421


def test_with_a_token_nothing_is_shown_to_strangers(guarded: TestClient) -> None:
    for path in ("/", "/jobs", "/problems/x?search=1"):
        answer = guarded.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login?next=/")
    assert guarded.get("/jobs", headers={"X-Part": "1", "HX-Request": "true"}).status_code == 204
    for path in ("/api/v1/jobs", "/metrics"):
        answer = guarded.get(path)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    assert guarded.get("/login").status_code == 200
    assert guarded.get("/static/skipjack.css").status_code == 200


def test_a_token_in_the_header_reads(guarded: TestClient) -> None:
    for path in ("/api/v1/jobs", "/metrics", "/jobs"):
        answer = guarded.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200
    wrong = guarded.get("/api/v1/jobs", headers={"Authorization": "Bearer wrong"})
    assert wrong.status_code == 401 and wrong.json() == {"error": "the token is wrong"}


# Logging in.


def test_a_login_starts_a_session_whose_cookie_scripts_cannot_read(guarded: TestClient) -> None:
    answer = guarded.post("/login", data={"name": "Ann", "token": TOKEN}, headers=HERE)
    assert answer.status_code == 303 and answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert TOKEN not in cookie
    page = guarded.get("/jobs")
    assert page.status_code == 200 and "Ann" in page.text and TOKEN not in page.text


def test_a_session_ends_with_a_logout(guarded: TestClient) -> None:
    log_in(guarded)
    page = guarded.get("/jobs").text
    assert guarded.post("/logout", data={"csrf": "x"}, headers=HERE).status_code == 403
    assert guarded.post("/logout", data={"csrf": csrf(page)}, headers=HERE).status_code == 303
    assert guarded.get("/jobs").status_code == 303


def test_a_wrong_token_and_a_missing_name_are_sentences(guarded: TestClient) -> None:
    answer = guarded.post("/login", data={"name": "Ann", "token": "x"}, headers=HERE)
    assert answer.status_code == 403 and "The token is wrong" in answer.text
    answer = guarded.post("/login", data={"name": " \n", "token": TOKEN}, headers=HERE)
    assert answer.status_code == 400 and "Write your name" in answer.text


def test_guesses_of_tokens_are_limited(guarded: TestClient) -> None:
    for _ in range(5):
        assert log_in(guarded, "wrong") == 403
    answer = guarded.post("/login", data={"name": "Ann", "token": TOKEN}, headers=HERE)
    assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.get("/api/v1/jobs", headers=bearer).status_code == 429


def test_a_limit_ends_after_a_while_and_is_one_addresss() -> None:
    now = [0.0]
    wrong = WrongTokens(lambda: now[0])
    for _ in range(5):
        assert wrong.wait_s("10.0.0.1") == 0
        wrong.note("10.0.0.1")
    assert wrong.wait_s("10.0.0.1") == 60
    assert wrong.wait_s("10.0.0.2") == 0
    now[0] = 61.0
    assert wrong.wait_s("10.0.0.1") == 0
    for number in range(1000):
        wrong.note(f"10.0.1.{number % 250}")
    assert wrong.wait_s("10.0.0.2") == 0


def test_sessions_end_by_themselves() -> None:
    now = [0.0]
    sessions = WebSessions(lambda: now[0])
    cookie = sessions.start("Ann")
    session = sessions.get(cookie)
    assert session and session.name == "Ann"
    assert session.has_sent(session.csrf) and not session.has_sent("")
    now[0] = 13 * 3600.0
    assert sessions.get(cookie) is None
    assert sessions.get("") is None


@pytest.mark.parametrize(
    "text", ["//evil.example", "https://evil.example", "/\\evil.example", "jobs", "/a\nb", ""]
)
def test_a_login_leads_to_this_server_only(text: str) -> None:
    assert local_path(text) == "/"
    assert local_path("/jobs?state=error") == "/jobs?state=error"


def test_names_of_people_are_short_and_printable() -> None:
    assert person_name("  Ann \t Lee ") == "Ann Lee"
    assert person_name("a" * 65) == "" and person_name("a\x1bb") == ""


# Acting.


@pytest.fixture
def acting(guarded: TestClient) -> TestClient:
    assert log_in(guarded) == 303
    return guarded


def test_without_a_token_there_are_no_actions(client: TestClient) -> None:
    assert "/actions/" not in client.get("/labels/label_01").text
    assert client.get("/actions/label/label_01/abort").status_code == 404
    answer = client.post("/api/v1/labels/label_01/abort", json={"by": "Ann"})
    assert answer.status_code == 403 and "no token" in answer.json()["error"]
    assert client.get("/login").status_code == 404


def test_an_action_asks_first_and_is_recorded(acting: TestClient, acted_on: Path) -> None:
    assert "/actions/label/label_02/abort" in acting.get("/labels/label_02").text
    asked = acting.get("/actions/label/label_02/abort")
    assert asked.status_code == 200 and "Abort label label_02?" in asked.text
    assert "This stops labels of other people" in asked.text
    fields = {"csrf": csrf(asked.text), "reason": "too hot"}
    done = acting.post("/actions/label/label_02/abort", data=fields, headers=HERE)
    assert done.status_code == 303 and done.headers["location"] == "/labels/label_02"
    page = acting.get("/labels/label_02").text
    assert "badge-aborted" in page and "too hot" in page and "Ann" in page
    with open_store(settings=settings_in(acted_on)) as store:
        (action,) = store.jobs.actions(kind="label", target="label_02")
        assert (action.who, action.action, action.reason) == ("Ann", "abort", "too hot")
    resumed = acting.post("/actions/label/label_02/resume", data=fields, headers=HERE)
    assert resumed.status_code == 303
    assert "badge-aborted" not in acting.get("/labels/label_02").text.partition("</h1>")[0]


def test_jobs_are_reset_one_or_many(acting: TestClient, acted_on: Path) -> None:
    asked = acting.get("/actions/label/label_01/reset")
    assert "error (" in asked.text
    fields = {"csrf": csrf(asked.text), "state": "error", "to": "new"}
    done = acting.post("/actions/label/label_01/reset", data=fields, headers=HERE)
    assert done.status_code == 303
    assert "no such" not in acting.get("/jobs?label=label_01&state=error").text
    with open_store(settings=settings_in(acted_on)) as store:
        job = store.jobs.find(label="label_01")[0].id
    fields["to"] = "built"
    refused = acting.post(f"/actions/job/{job}/reset", data=fields, headers=HERE)
    assert refused.status_code == 409 and "left unchanged" in refused.text


def test_a_machine_is_disabled_and_enabled(acting: TestClient) -> None:
    for action, state in (("disable", "disabled"), ("enable", "never seen")):
        asked = acting.get(f"/actions/machine/gpu7/{action}")
        fields = {"csrf": csrf(asked.text), "reason": "new fans"}
        done = acting.post(f"/actions/machine/gpu7/{action}", data=fields, headers=HERE)
        assert done.status_code == 303
        assert state in acting.get("/machines/gpu7").text.partition("</h1>")[0]


@pytest.mark.parametrize(
    "path", ["/actions/label/nix/abort", "/actions/label/label_01/delete", "/actions/x/y/z"]
)
def test_an_action_without_a_target_is_not_found(acting: TestClient, path: str) -> None:
    assert acting.get(path).status_code == 404


def test_an_action_needs_the_forms_secret(acting: TestClient) -> None:
    for fields in ({"a": "b"}, {"csrf": ""}, {"csrf": "guessed"}):
        answer = acting.post("/actions/label/label_01/abort", data=fields, headers=HERE)
        assert answer.status_code == 403, answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "http://127.0.0.1:9"},
        {"Referer": "http://evil.example/"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_request_from_another_site_is_refused(
    acting: TestClient, headers: dict[str, str]
) -> None:
    fields = {"csrf": csrf(acting.get("/actions/label/label_01/abort").text)}
    answer = acting.post("/actions/label/label_01/abort", data=fields, headers=headers)
    assert answer.status_code == 403 and "another site" in answer.text


def test_a_program_acts_by_its_token_and_says_who(guarded: TestClient) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    path = f"/api/v1/labels/{quote(MARKUP, safe='')}"
    done = guarded.post(f"{path}/abort", json={"by": "ci", "reason": "over"}, headers=bearer)
    assert done.status_code == 200 and done.json()["record"]["complete"]
    nobody = guarded.post(f"{path}/resume", json={}, headers=bearer)
    assert nobody.status_code == 400 and "add the field by" in nobody.json()["error"]
    assert guarded.post(f"{path}/resume", json={"by": "ci"}, headers=bearer).status_code == 200
    assert guarded.post(f"{path}/resume", json={"by": "ci"}).status_code == 401


@pytest.mark.parametrize("reason", ["x" * 201, "red \x1b[31m"])
def test_a_reason_is_a_line_of_text(acting: TestClient, reason: str) -> None:
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    fields = {"csrf": csrf(acting.get("/actions/machine/gpu7/disable").text), "reason": reason}
    answer = acting.post("/actions/machine/gpu7/disable", data=fields, headers=HERE)
    assert answer.status_code == 400 and "at most 200" in answer.text
    body = {"by": "ci", "reason": reason}
    answer = acting.post("/api/v1/machines/gpu7/disable", json=body, headers=bearer)
    assert answer.status_code == 400 and "at most 200" in answer.json()["error"]


def test_a_cookie_alone_does_not_act_through_the_api(acting: TestClient) -> None:
    answer = acting.post("/api/v1/labels/label_01/abort", json={"by": "x"}, headers=HERE)
    assert answer.status_code == 401


def test_large_and_odd_bodies_are_refused(guarded: TestClient) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded", **HERE}
    large = guarded.post("/login", content=b"a=" + b"x" * 70_000, headers=form)
    assert large.status_code == 413
    odd = guarded.post("/login", content=b"{}", headers={"Content-Type": "text/plain", **HERE})
    assert odd.status_code == 415


# Options.


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (WebOptions(host="0.0.0.0"), "give a token with --token-file"),
        (WebOptions(host="::"), "give a token with --token-file"),
        (WebOptions(token="short"), "use 16 or more"),
        (WebOptions(token="with a blank in the token"), "other than ASCII"),
        (WebOptions(port=70_000), "port 70000 is out of range"),
        (WebOptions(names=("a.example",)), "need a token"),
        (WebOptions(tls_cert=Path("a.pem")), "go together"),
    ],
)
def test_options_that_cannot_be_are_a_sentence(options: WebOptions, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        check_options(options)


def test_a_token_is_read_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPJACK_WEB_TOKEN", "of-the-environment")
    assert read_token(None) == "of-the-environment"
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(file) == TOKEN
    file.write_text("\n")
    with pytest.raises(UsageError, match="is empty"):
        read_token(file)
    with pytest.raises(MissingFileError, match="does not exist"):
        read_token(tmp_path / "nix")
