"""How long pages of ``skipjack web`` take with a million trials and a hundred thousand jobs.

The fleet's database is SQLite, then PostgreSQL; the ledger is as large, and the bank has 20,000
entries. Each page is asked for over HTTP in this process: once by its first visitor, then again
and again, pages in turns. What is read for it is timed by itself, too.

    python bench/web.py
    python bench/web.py --jobs 2000 --trials 20000 --rounds 3 --out ''   # a quick look
    python bench/web.py --home /tmp/web --databases sqlite               # keeps its files
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from starlette.testclient import TestClient

from machine import RESULTS, header, label, write_result
from skipjack.app import views
from skipjack.app.views import TableRequest, Workspace, WorkspacePlaces
from skipjack.fleet.store import open_store
from skipjack.native import cpu
from skipjack.settings import Settings
from skipjack.testing.servers import NotInstalledError, PostgreSQL
from skipjack.web import WebOptions, create_app
from table_text import table
from web_data import DataSize, fill_bank, fill_ledger, fill_store, problem_key

LIMIT_MS = 300.0
"""What the median of each page should stay below."""
Records = Callable[[Workspace], object]


@dataclass(frozen=True, slots=True)
class Visit:
    """A page as browsers ask for it, and what is read for it."""

    path: str
    records: Records


def visits(size: DataSize) -> dict[str, Visit]:
    """What visitors look at."""
    key, job = problem_key(7), size.jobs // 2
    problem = views.problem_path(key)
    return {
        "overview": Visit("/", views.overview_page),
        "label": Visit("/labels/label_03", lambda w: views.label_page(w, "label_03")),
        "machines": Visit("/machines", views.machines_page),
        "machine": Visit("/machines/node007", lambda w: views.machine_page(w, "node007")),
        "jobs": _jobs(),
        "jobs, last page": _jobs(page=size.jobs // 50),
        "jobs by last change": _jobs(sort="updated", descending=True),
        "jobs by gain": _jobs(sort="gain", descending=True),
        "jobs by problem": _jobs(sort="problem"),
        "jobs of a label": _jobs(filters={"label": "label_03"}),
        "jobs in error": _jobs(filters={"state": "error"}),
        "jobs of a label in error": _jobs(filters={"label": "label_03", "state": "error"}),
        "jobs of a device": _jobs(filters={"device": "gfx942/304"}),
        "jobs of a machine": _jobs(filters={"machine": "node007"}),
        "jobs by a part of the problem": _jobs(filters={"problem": "77x"}),
        "jobs by a part of the reason": _jobs(filters={"reason": "memory"}),
        "job, with its log": Visit(
            f"/jobs/{job}", lambda w: (views.job_page(w, job), views.job_log(w, job))
        ),
        "problems": Visit("/problems", _problems),
        "problems of a tag": Visit(
            "/problems?tag=resnet50&sort=key",
            lambda w: views.problem_table(w, TableRequest(filters={"tag": "resnet50"}, sort="key")),
        ),
        "problem": Visit(problem, lambda w: _problem(w, key)),
        "bank": Visit("/bank", views.bank_page),
        "bank, filtered and sorted": Visit(
            "/bank?sort=gain&problem=7x",
            lambda w: views.bank_page(
                w, "user", TableRequest(sort="gain", filters={"problem": "7x"})
            ),
        ),
        "entry": Visit(views.entry_path("user", key), lambda w: views.entry_page(w, "user", key)),
        "sweeps": Visit("/sweeps", lambda w: views.sweep_table(w, TableRequest())),
        "programs": Visit("/programs", views.programs_page),
        "training": Visit("/training", lambda w: views.training_table(w, TableRequest())),
    }


def _jobs(**options: Any) -> Visit:
    request = TableRequest(**options)
    query = {
        **request.filters,
        **({"sort": request.sort} if request.sort else {}),
        **({"desc": "1"} if request.descending else {}),
        **({"page": str(request.page)} if request.page > 1 else {}),
    }
    return Visit(f"/jobs?{urlencode(query)}", lambda w: views.job_table(w, request))


def _problems(workspace: Workspace) -> object:
    return (
        views.problem_table(workspace, TableRequest()),
        views.ledger_problem_table(workspace, TableRequest()),
    )


def _problem(workspace: Workspace, key: str) -> object:
    page = views.problem_page(workspace, key)
    search = views.search_page(workspace, key, page.searches[0].id)
    return page, search, views.config_samples(workspace, key)


@dataclass(frozen=True, slots=True)
class Database:
    """A database to fill and to read."""

    name: str
    url: str
    filled: bool
    processor_s: Callable[[], float] = lambda: 0.0
    """The CPU time of its server, if it has one."""


def measure(
    workspace: Workspace, size: DataSize, rounds: int, server_s: Callable[[], float]
) -> list[dict[str, Any]]:
    """Milliseconds of each page: the first time, the median, the 95th percentile; the CPU time of
    this process and of the database's server, which does not depend on what else the machine does;
    and the median of what is read for it.
    """
    made = visits(size)

    def used_s() -> float:
        return time.process_time() + server_s()

    with TestClient(create_app(WebOptions(), lambda: workspace), "http://127.0.0.1") as client:
        first = {name: _answered_ms(client, one.path) for name, one in made.items()}
        pages: dict[str, list[float]] = {name: [] for name in made}
        records: dict[str, list[float]] = {name: [] for name in made}
        processor: dict[str, float] = dict.fromkeys(made, 0.0)
        for _ in range(rounds):
            for name, one in made.items():
                began_s = used_s()
                pages[name].append(_answered_ms(client, one.path))
                processor[name] += used_s() - began_s
                records[name].append(_read_ms(one.records, workspace))
    return [
        {
            "page": name,
            "path": made[name].path,
            "first_ms": round(first[name], 1),
            "median_ms": round(float(np.median(of)), 1),
            "p95_ms": round(float(np.quantile(of, 0.95)), 1),
            "processor_ms": round(1e3 * processor[name] / rounds, 1),
            "records_ms": round(float(np.median(records[name])), 1),
        }
        for name, of in pages.items()
    ]


def _answered_ms(client: TestClient, path: str) -> float:
    began = time.perf_counter()
    answer = client.get(path)
    took = 1e3 * (time.perf_counter() - began)
    if answer.status_code != 200:
        raise RuntimeError(f"{path}: {answer.status_code} {answer.text[:500]}")
    return took


def _read_ms(records: Records, workspace: Workspace) -> float:
    began = time.perf_counter()
    records(workspace)
    return 1e3 * (time.perf_counter() - began)


def databases(home: Path, wanted: Sequence[str], stack: ExitStack) -> Iterator[Database]:
    """The databases that can be had here."""
    if "sqlite" in wanted:
        file = home / "fleet.sqlite"
        yield Database("sqlite", f"sqlite:///{file}", file.exists())
    if "postgresql" in wanted:
        try:
            server = PostgreSQL()
        except NotInstalledError as error:
            print(f"postgresql is left out: {error}")
        else:
            stack.callback(server.close)
            yield Database("postgresql", server.fresh(), False, server.processor_s)


def main() -> None:
    options = _options()
    size = DataSize(jobs=options.jobs, trials=options.trials)
    with ExitStack() as stack:
        home = options.home or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        home.mkdir(parents=True, exist_ok=True)
        settings = Settings(home)
        now = time.time()
        if not (home / "ledger.sqlite").exists():
            print("filling the ledger and the bank", flush=True)
            fill_ledger(home, size, now)
            fill_bank(home, size)
        found: dict[str, list[dict[str, Any]]] = {}
        load: dict[str, list[float]] = {}
        for one in databases(home, options.databases, stack):
            if not one.filled:
                print(f"filling {one.name}", flush=True)
                with open_store(one.url, settings=settings) as store:
                    fill_store(store, size, now)
            gc.collect()
            places = WorkspacePlaces(one.url, runs=(), programs=())
            with Workspace(settings, places) as workspace:
                found[one.name] = measure(workspace, size, options.rounds, one.processor_s)
            load[one.name] = [round(of, 1) for of in os.getloadavg()]
    print(report(found))
    device = cpu.detect(1)
    out = options.out if options.out is not None else str(RESULTS / f"web_{label(device)}.json")
    if out:
        facts: dict[str, Any] = {
            "size": asdict(size),
            "rounds": options.rounds,
            "limit_ms": LIMIT_MS,
        }
        facts |= {"limit_ms": LIMIT_MS, "load_average": load, "pages": found}
        write_result(Path(out), {**header("web", device, cpu.usable_cores()), **facts})


_WHAT = {
    "first_ms": "first",
    "median_ms": "median",
    "p95_ms": "p95",
    "processor_ms": "processor",
    "records_ms": "records",
}


def report(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The table of all pages; those above the limit have a star."""
    head = ["page", *(f"{name}, {what}" for name in found for what in _WHAT.values())]
    every = list(found.values())
    rows = [
        [of[0]["page"], *(_cell(one[what]) for one in of for what in _WHAT)]
        for of in zip(*every, strict=True)
    ]
    return table(head, rows)


def _cell(value: float) -> str:
    return f"{value:.1f}{' *' if value > LIMIT_MS else ''}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--home", type=Path, help="where files are kept and found again")
    parser.add_argument("--databases", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--out", help="the result file; empty for none")
    return parser.parse_args()


if __name__ == "__main__":
    main()
