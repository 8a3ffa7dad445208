"""The command: what it prints, how it ends, and what it refuses; its metrics in Prometheus."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from web_rig import TOKEN, running

from needs import lacking

GRAFANA = Path(__file__).parents[2] / "examples" / "grafana"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "skipjack", "web", *arguments]


def environment(place: Path, **more: str) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("SKIPJACK_")}
    return {**kept, "SKIPJACK_USER_DB_PATH": str(place), **more}


@contextmanager
def started(place: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the address that it printed."""
    process = subprocess.Popen(
        command("--port", "0", *arguments),
        env=environment(place),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout
        line = process.stdout.readline()
        found = re.match(r"(https?://\S+/) ", line)
        assert found, (line, process.stderr and process.stderr.read())
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def test_it_prints_its_address_answers_and_ends_quietly(filled: Path) -> None:
    with started(filled) as (process, address):
        with urllib.request.urlopen(address) as answer:
            assert answer.status == 200 and b"label_01" in answer.read()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        assert (process.returncode, err) == (0, "")
        assert "Traceback" not in out


def refusal(place: Path, *arguments: str, **more: str) -> str:
    done = subprocess.run(
        command(*arguments), env=environment(place, **more), capture_output=True, text=True
    )
    assert done.returncode in (1, 2) and not done.stdout
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_port_in_use_is_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refusal(tmp_path, "--port", str(port))
    assert f"cannot listen at 127.0.0.1:{port}: address already in use" in said
    assert "--port" in said


def test_another_address_needs_a_token(tmp_path: Path) -> None:
    assert "give a token with --token-file" in refusal(tmp_path, "--host", "0.0.0.0")


def test_without_the_extra_it_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "uvicorn.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'uvicorn'\", name='uvicorn')"
    )
    said = refusal(tmp_path, PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert "uvicorn is not installed" in said and "pip install 'skipjack[web]'" in said


@pytest.mark.long
def test_it_serves_with_tls(filled: Path, tmp_path: Path) -> None:
    import ssl

    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.create_default_context(cafile=str(cert))
    with started(filled, "--tls-cert", str(cert), "--tls-key", str(key)) as (_, address):
        assert address.startswith("https://")
        with urllib.request.urlopen(f"{address}jobs", context=context) as answer:
            assert answer.status == 200
    assert "are not a certificate" in refusal(
        filled, "--tls-cert", str(key), "--tls-key", str(cert)
    )


# Prometheus and Grafana.


def expressions() -> list[str]:
    """What the panels of the dashboard ask for, for all labels."""
    dashboard = json.loads((GRAFANA / "dashboard.json").read_text())
    asked = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [one.replace("$label", ".*") for one in asked]


def test_the_dashboard_asks_for_metrics_that_there_are(client: Any) -> None:
    text = client.get("/metrics").text
    known = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    for one in expressions():
        names = set(re.findall(r"\bskipjack_\w+", one))
        assert names and names <= known, one


@pytest.mark.long
def test_prometheus_reads_the_metrics(filled: Path, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        lacking("Prometheus", "prometheus is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with running(filled, TOKEN) as address:
        config = yaml.safe_load((GRAFANA / "prometheus.yml").read_text())
        (job,) = config["scrape_configs"]
        (tmp_path / "token").write_text(TOKEN)
        config["global"]["scrape_interval"] = "1s"
        job["static_configs"][0]["targets"] = [address.removeprefix("http://")]
        job["authorization"] = {"credentials_file": str(tmp_path / "token")}
        (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
        process = subprocess.Popen(
            [
                *(program, f"--config.file={tmp_path / 'prometheus.yml'}"),
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            asked = 'sum(skipjack_jobs{state="evaluated"})'
            while not (found := query(port, asked)):
                assert process.poll() is None
                time.sleep(0.5)
            assert float(found[0]["value"][1]) > 100
            for one in expressions():
                assert isinstance(query(port, one), list), one
        finally:
            process.terminate()
            process.wait()


def query(port: int, expression: str) -> list[Any]:
    """The result of a query; empty while Prometheus starts or knows nothing yet."""
    asked = urllib.parse.urlencode({"query": expression})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{asked}") as answer:
            found = json.load(answer)
    except OSError as error:
        assert getattr(error, "code", 503) == 503, error
        return []
    assert found["status"] == "success", found
    result: list[Any] = found["data"]["result"]
    return result


def test_a_database_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    said = refusal(tmp_path, "--port", "0", SKIPJACK_DB="/tmp/not-a-url")
    assert "SKIPJACK_DB is not the URL of a database" in said
    garbage = tmp_path / "garbage.sqlite"
    garbage.write_bytes(b"garbage" * 1000)
    said = refusal(tmp_path, "--port", "0", SKIPJACK_DB=f"sqlite:///{garbage}")
    assert str(garbage) in said


def test_a_token_that_others_can_read_is_warned_of(filled: Path, tmp_path: Path) -> None:
    token = tmp_path / "web.token"
    token.write_text(TOKEN)
    token.chmod(0o644)
    with started(filled, "--token-file", str(token)) as (process, _):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert "other users of this machine can read" in err
