"""How long pages of ``skipjack web`` take with a million trials and a hundred thousand jobs.

The fleet's database is SQLite, then PostgreSQL; the ledger is as large, and the bank has 20,000
entries. Every page is made once for its first visitor, then again and again, pages in turns.

    python bench/web.py
    python bench/web.py --jobs 2000 --trials 20000 --rounds 3 --out ''   # a quick look
    python bench/web.py --home /tmp/web --databases sqlite               # keeps its files
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from machine import RESULTS, header, label, write_result
from skipjack.app import views
from skipjack.app.views import TableRequest, Workspace, WorkspacePlaces
from skipjack.fleet.store import open_store
from skipjack.native import cpu
from skipjack.settings import Settings
from skipjack.testing.servers import NotInstalledError, PostgreSQL
from table_text import table
from web_data import DataSize, fill_bank, fill_ledger, fill_store, problem_key

LIMIT_MS = 300.0
"""What the median of each page should stay below."""
Page = Callable[[Workspace], object]


def pages(size: DataSize) -> dict[str, Page]:
    """What visitors look at."""
    key, job = problem_key(7), size.jobs // 2
    every: dict[str, Page] = {
        "overview": views.overview_page,
        "fleet": views.fleet_page,
        "labels": lambda w: views.label_table(w, TableRequest()),
        "label": lambda w: views.label_page(w, "label_03"),
        "machines": views.machines_page,
        "machine": lambda w: views.machine_page(w, "node007"),
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
        "job": lambda w: views.job_page(w, job),
        "log": lambda w: views.job_log(w, job),
        "problems": lambda w: views.problem_table(w, TableRequest()),
        "problems of a tag": lambda w: views.problem_table(
            w, TableRequest(filters={"tag": "resnet50"}, sort="key")
        ),
        "problems of the ledger": lambda w: views.ledger_problem_table(w, TableRequest()),
        "problems of the ledger by name": lambda w: views.ledger_problem_table(
            w, TableRequest(sort="key", filters={"key": "7x"})
        ),
        "problem": lambda w: views.problem_page(w, key),
        "search": lambda w: _first_search(w, key),
        "samples": lambda w: views.config_samples(w, key),
        "ledger": views.ledger_page,
        "bank": views.bank_page,
        "bank, filtered and sorted": lambda w: views.bank_page(
            w, "user", TableRequest(sort="gain", filters={"problem": "7x"})
        ),
        "entry": lambda w: views.entry_page(w, "user", key),
        "sweeps": lambda w: views.sweep_table(w, TableRequest()),
        "programs": views.programs_page,
        "training": lambda w: views.training_table(w, TableRequest()),
    }
    return every


def _jobs(**request: Any) -> Page:
    return lambda w: views.job_table(w, TableRequest(**request))


def _first_search(workspace: Workspace, key: str) -> object:
    """The searches of a problem are known from its page."""
    page = views.problem_page(workspace, key)
    return views.search_page(workspace, key, page.searches[0].id)


def measure(workspace: Workspace, size: DataSize, rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of each page: the first time, the median, and the 95th percentile."""
    made = pages(size)
    first = {name: _timed_ms(page, workspace) for name, page in made.items()}
    times: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(rounds):
        for name, page in made.items():
            times[name].append(_timed_ms(page, workspace))
    return {
        name: {
            "first_ms": round(first[name], 1),
            "median_ms": round(float(np.median(of)), 1),
            "p95_ms": round(float(np.quantile(of, 0.95)), 1),
        }
        for name, of in times.items()
    }


def _timed_ms(page: Page, workspace: Workspace) -> float:
    began = time.perf_counter()
    page(workspace)
    return 1e3 * (time.perf_counter() - began)


def databases(
    home: Path, wanted: Sequence[str], stack: ExitStack
) -> Iterator[tuple[str, str, bool]]:
    """The name and the URL of each database, and whether it is already filled."""
    if "sqlite" in wanted:
        file = home / "fleet.sqlite"
        yield "sqlite", f"sqlite:///{file}", file.exists()
    if "postgresql" in wanted:
        try:
            server = PostgreSQL()
        except NotInstalledError as error:
            print(f"postgresql is left out: {error}")
        else:
            stack.callback(server.close)
            yield "postgresql", server.fresh(), False


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
        found: dict[str, Mapping[str, Mapping[str, float]]] = {}
        for name, url, filled in databases(home, options.databases, stack):
            if not filled:
                print(f"filling {name}", flush=True)
                with open_store(url, settings=settings) as store:
                    fill_store(store, size, now)
            gc.collect()
            places = WorkspacePlaces(url, runs=(), programs=())
            with Workspace(settings, places) as workspace:
                found[name] = measure(workspace, size, options.rounds)
    print(report(found))
    device = cpu.detect(1)
    out = options.out if options.out is not None else str(RESULTS / f"web_{label(device)}.json")
    if out:
        facts = {"size": asdict(size), "rounds": options.rounds, "limit_ms": LIMIT_MS}
        write_result(
            Path(out), {**header("web", device, cpu.usable_cores()), **facts, "pages": found}
        )


def report(found: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The table of all pages; those above the limit have a star."""
    head = ["page", *(f"{name}, {what}" for name in found for what in ("first", "median", "p95"))]
    names = dict.fromkeys(page for of in found.values() for page in of)
    rows = [
        [page, *(_cell(of[page][what]) for of in found.values() for what in _WHAT)]
        for page in names
    ]
    return table(head, rows)


_WHAT = ("first_ms", "median_ms", "p95_ms")


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
