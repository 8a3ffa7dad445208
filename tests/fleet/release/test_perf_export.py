"""A perf-db holds the best config of every solver, in a text that comes back as the config."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_up import CONV, CPU, MATMUL, Verdicts, row, verdict

from skipjack.bank import Bank, BankEntry
from skipjack.fleet.model import JobKind, JobPlan
from skipjack.fleet.release.formats import MIOPEN, SKIPJACK, Contents, PerfOptions, get
from skipjack.fleet.release.results import (
    TunedProblem,
    config_of,
    params_of,
    tuned_in_bank,
    tuned_in_label,
)
from skipjack.interop.miopen import DatabaseRecord, read_perf_sqlite, read_text_db

KEY = "2x16x14x14x1x3x3x1x16x4x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32xF"
STRIDED = "conv2d:n1c8h{}w{}k8y1x1u2v2:f32:NCHW:bwd"


def tuned(solver: str, time_ns: float | None, **config: Any) -> dict[str, Any]:
    return {"solver": solver, "time_ns": time_ns, "config": config, "status": "banked"}


def gathered(*jobs: tuple[JobPlan, dict[str, Any]]) -> list[TunedProblem]:
    return list(tuned_in_label(Verdicts(*(verdict(*job) for job in jobs)), "L"))


def perf_files(tuned: list[TunedProblem], form: str, *, sqlite: bool = False) -> Contents:
    return get(form).perf(tuned, PerfOptions(sqlite))


def records(
    problems: list[TunedProblem], folder: Path, *, sqlite: bool = False
) -> list[DatabaseRecord]:
    (file,) = perf_files(problems, MIOPEN, sqlite=sqlite).files
    path = folder / file.name(file.device)
    file.write(path, file.device)
    return read_perf_sqlite(path) if sqlite else read_text_db(path)


@pytest.mark.parametrize("sqlite", [False, True])
def test_the_best_config_of_each_solver_comes_back(tmp_path: Path, sqlite: bool) -> None:
    ranking = [row("direct", 90.0, config={"rows": 6}), row("mkl", 50.0), row("im2col", None)]
    problems = gathered(
        (JobPlan(CONV, CPU, "auto"), tuned("direct", 80.0, rows=4)),
        (JobPlan(CONV, CPU, "winograd4"), tuned("winograd4", 80.0, order="m:4 n", fused=True)),
        (JobPlan(CONV, CPU, kind=JobKind.FIND), {"solvers": ranking}),
        (JobPlan(CONV, CPU, kind=JobKind.KERNELS), tuned("direct", 1.0, rows=1)),
    )
    (record,) = records(problems, tmp_path, sqlite=sqlite)
    assert record.key == KEY
    assert {item.id: dict(config_of(item.values)) for item in record.items} == {
        "direct": {"rows": 6},
        "winograd4": {"order": "m:4 n", "fused": True},
    }


@pytest.mark.parametrize(("found", "tuned_at", "rows"), [("2", "1", 6), ("1", "2", 4)])
def test_a_find_counts_before_tunings_that_were_done(found: str, tuned_at: str, rows: int) -> None:
    ranking = {"solvers": [row("direct", 100.0, config={"rows": 6})]}
    jobs = [
        replace(verdict(JobPlan(CONV, CPU), tuned("direct", 90.0, rows=4)), updated=tuned_at),
        replace(verdict(JobPlan(CONV, CPU, kind=JobKind.FIND), ranking), updated=found),
    ]
    (problem,) = tuned_in_label(Verdicts(*jobs), "L")
    assert [dict(config.config) for config in problem.configs] == [{"rows": rows}]


def test_problems_that_share_a_key_give_way_to_the_fastest(tmp_path: Path) -> None:
    jobs = [
        (JobPlan(STRIDED.format(size, size), CPU), tuned("direct", float(size), rows=size))
        for size in (15, 16)
    ]
    for order in (jobs, jobs[::-1]):
        problems = gathered(*order)
        (record,) = records(problems, tmp_path)
        assert [item.values for item in record.items] == ["rows~15"]
        contents = perf_files(problems, MIOPEN)
        assert (contents.counts["shared_keys"], contents.counts["sharing_problems"]) == (1, 2)
        assert "2 problems share 1 key" in contents.remarks[0]


def test_parameters_that_were_not_timed_give_way(tmp_path: Path) -> None:
    small, large = (STRIDED.format(size, size) for size in (15, 16))
    (timed,) = gathered((JobPlan(large, CPU), tuned("direct", 5.0, rows=16)))
    lines = {"miopen": {"perf_db": [f"{timed.perf_key}=direct:1,2"]}}
    (harvested,) = gathered((JobPlan(small, CPU, "miopen", driver="miopen"), lines))
    for order in ([timed, harvested], [harvested, timed]):
        (record,) = records(order, tmp_path)
        assert [item.values for item in record.items] == ["rows~16"]


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    problems = gathered(
        (JobPlan(CONV, CPU), tuned("direct", 5.0, rows=1)),
        (JobPlan(CONV, CPU, "winograd2"), tuned("winograd2", 0.0, rows=1)),
        (JobPlan(MATMUL, CPU), tuned("packed", 5.0, tile="4x4")),
        (JobPlan("add:8:f32", CPU), tuned("numpy", 5.0)),
    )
    contents = perf_files(problems, MIOPEN)
    assert contents.counts == {
        "impossible_times": 1,
        "without_settings": 1,
        "shared_keys": 0,
        "sharing_problems": 0,
        "not_in_this_format": 1,
    }
    (file,) = perf_files(problems, SKIPJACK).files
    file.write(tmp_path / "x", file.device)
    lines = [json.loads(line) for line in (tmp_path / "x").read_text().splitlines()]
    assert [line["problem"] for line in lines] == [CONV, MATMUL]
    assert lines[1]["configs"][0]["config"] == {"tile": "4x4"} and lines[1]["perf_key"] is None
    assert file.name("gfx906/60") == "gfx906_60.perf.jsonl"


def test_parameters_of_miopen_pass_through(tmp_path: Path) -> None:
    result = {
        "solvers": [
            row("ConvAsm1x1U", 5.0, config={"params": "1,8,2"}),
            row("ConvCk", 6.0, config={"params": "Device<64, 32>+128"}),
        ],
        "miopen": {"perf_db": [f"{KEY}=ConvAsm1x1U:1, 8,2", "2x16x14"]},
    }
    (record,) = records(gathered((JobPlan(CONV, CPU, "miopen", driver="miopen"), result)), tmp_path)
    assert [item.text for item in record.items] == [
        "ConvAsm1x1U:1, 8,2",
        "ConvCk:Device<64, 32>+128",
    ]


def test_the_bank_has_configs_too(tmp_path: Path) -> None:
    bank = Bank.open(tmp_path)
    bank.put(BankEntry(CONV, "class", CPU, "direct", 3, {"rows": 4}, 9.0, 9.0, None, "", {}))
    (found,) = tuned_in_bank(bank)
    (config,) = found.configs
    assert (config.solver, config.params, config.version) == ("direct", params_of({"rows": 4}), 3)
    assert found.perf_key == KEY and not list(tuned_in_bank(bank, "gfx900/56"))
