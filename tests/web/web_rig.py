"""A user directory with a little of everything, some of it hostile, and a server that shows it."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn

from skipjack.app.views import Workspace, WorkspacePlaces
from skipjack.core import Device
from skipjack.fleet.model import (
    ClaimResult,
    Failed,
    Host,
    JobPlan,
    JobStage,
    Label,
    Registration,
    RunningLog,
    WorkRequest,
)
from skipjack.fleet.store import NewProblem, Store, open_store
from skipjack.processes import ProcessIdentity
from skipjack.settings import Settings
from skipjack.web import WebOptions, create_app
from web_data import DataSize, fill_bank, fill_ledger, fill_store, problem_key

TOKEN = "a-token-for-tests-0123456789"
SAMPLES = Path(__file__).parent / "samples"
MARKUP = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
"""A text that would be markup, and would run."""
FORMULA = '=HYPERLINK("http://evil.example")'
HOSTILE_KEY = f"matmul:{MARKUP}"
KEY = problem_key(0)
SIZE = DataSize(jobs=400, trials=4_000, problems=80, labels=3, machines=6, entries=30)
ODD = Device("cpu", "oddcpu", 1, "an odd one", ("avx2",), 8, 32, (("L1", 1 << 15),), 1 << 30, "s9")
PROGRAM = "tune_result_20261116_101500_pid4242.json"
RUN = "small"


def settings_in(place: Path) -> Settings:
    """Settings with a second bank, and without a system bank."""
    return Settings(place, system_dir=place, banks=(place / "other",))


def fill(place: Path) -> None:
    """A store, a ledger, a bank, a sweep, a training run and a program's result in a directory."""
    place.mkdir(parents=True, exist_ok=True)
    with open_store(settings=settings_in(place)) as store:
        fill_store(store, SIZE, time.time())
        _add_hostile(store)
    fill_ledger(place, SIZE, time.time())
    fill_bank(place, SIZE)
    (place / "other").mkdir()
    fill_bank(place / "other", replace(SIZE, entries=20))
    shutil.copytree(SAMPLES / "sweep", place / "sweep")
    shutil.copytree(SAMPLES / "runs", place / "runs")
    result = json.loads((SAMPLES / PROGRAM).read_text())
    result["operations"][0]["reason"] = MARKUP
    (place / PROGRAM).write_text(json.dumps(result))


def _add_hostile(store: Store) -> None:
    """A job that failed, one that runs, and a machine, all with markup in their texts."""
    keys = [HOSTILE_KEY, f"{HOSTILE_KEY}2"]
    store.problems.add([NewProblem(key, "matmul") for key in keys], "odd", source=MARKUP)
    label = Label(MARKUP, FORMULA, ticket=MARKUP, image=MARKUP)
    store.jobs.add(label, [JobPlan(key, ODD.name) for key in keys])
    store.registrations.add(Registration("gpu7", "10.0.0.7", device=ODD.name, remarks=MARKUP))
    machine = store.queue.register(Host(MARKUP, 8, 1 << 30, (ODD,)), "local")
    owner = store.queue.start_lease(ProcessIdentity("node1", 1), 86_400.0)
    want = WorkRequest(machine.id, "0", (ODD,), 2, gpu=MARKUP[:20], builds_for=(ODD.name,))
    claims = [claim for claim, _ in store.queue.claim(owner, JobStage.BUILD, [want])]
    one, other = sorted(claims, key=lambda claim: claim.job)
    store.queue.finish(owner, [ClaimResult(one, Failed(MARKUP, hopeless=True), log=MARKUP)])
    store.queue.store_logs(owner, [RunningLog(other.job, other.attempt, f"{MARKUP}\nfirst line\n")])


def log_more(place: Path, job: int, text: str) -> None:
    """Replace the log of a running job, as its worker would."""
    with closing(sqlite3.connect(place / "fleet.sqlite")) as connection:
        connection.execute("UPDATE logs SET text = ? WHERE job = ?", (text, job))
        connection.commit()


def workspace_in(place: Path) -> Workspace:
    """What pages show of a directory."""
    places = WorkspacePlaces(sweeps=(place / "sweep",), runs=(place / "runs",), programs=(place,))
    return Workspace(settings_in(place), places)


@contextmanager
def running(place: Path, token: str = "", *, name: str = "") -> Iterator[str]:
    """A server in a thread of this process; its address."""
    options = WebOptions(port=0, token=token, names=(name,) if name else ())
    app = create_app(options, lambda: workspace_in(place))
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
