"""Pages about what is in the user directory: ledger, banks, sweeps, training runs, programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from workspaces import KEY, ODD, ZEN, entry, fill_bank, fill_ledger, settings_in, workspace_in

from skipjack.app.views import (
    SourceMissingError,
    TableRequest,
    Workspace,
    bank_difference,
    bank_page,
    config_samples,
    entry_page,
    episode_page,
    fleet_page,
    ledger_page,
    ledger_problem_table,
    overview_page,
    point_table,
    problem_page,
    program_page,
    programs_page,
    search_page,
    searches,
    sweep_page,
    sweep_table,
    training_page,
    training_table,
)
from skipjack.core import Config, Status
from skipjack.errors import UsageError
from skipjack.learn.loops import LoopDataset, loop_game
from skipjack.learn.runs import PlayedEpisode, RunFolder, TrainingSession, TrainOptions
from skipjack.ledger import CandidateKey, Ledger, MarkKind, MarkRecord, MeasurementRecord, single
from skipjack.native import describe
from skipjack.operations import parse
from skipjack.runtime import MissedProblem, MissFile
from skipjack.sweep.engine import SOLVER, SweepResult, SweepTrial
from skipjack.sweep.results import write_json

ALL = TableRequest()


# An empty workspace


def test_an_empty_workspace_says_how_to_get_everything(tmp_path: Path) -> None:
    with workspace_in(tmp_path / "none") as workspace:
        page = overview_page(workspace)
        assert [one.name for one in page.sources if not one.present] == [
            *("store", "ledger", "bank", "sweeps", "training", "programs")
        ]
        assert all(one.said for one in page.sources)
        assert page.fleet is None and page.ledger is None
        assert not any(one.present for one in page.banks)
        with pytest.raises(SourceMissingError, match="set SKIPJACK_DB to the URL"):
            fleet_page(workspace)
        with pytest.raises(SourceMissingError, match="run skipjack tune"):
            ledger_page(workspace)
        for table in (sweep_table(workspace, ALL), training_table(workspace, ALL)):
            assert (table.total, table.pages) == (0, 1)
        assert programs_page(workspace).programs.total == 0
        with pytest.raises(UsageError, match="nothing is known about problem"):
            problem_page(workspace, KEY)
    assert not (tmp_path / "none").exists()


# The ledger


@pytest.fixture
def tuned(tmp_path: Path) -> Workspace:
    fill_ledger(tmp_path)
    fill_bank(tmp_path)
    return workspace_in(tmp_path)


def test_a_ledger_alone_has_problems_and_counts(tuned: Workspace) -> None:
    page = ledger_page(tuned)
    assert (page.counts.studies, page.counts.trials, page.counts.decisions) == (1, 6, 1)
    (row,) = ledger_problem_table(tuned, ALL).rows
    assert (row.key, row.studies, row.trials, row.decisions) == (KEY, 1, 6, 1)
    assert ledger_problem_table(tuned, TableRequest(filters={"key": "9x9"})).total == 0
    for column in ("key", "studies", "solvers", "devices", "newest"):
        assert ledger_problem_table(tuned, TableRequest(sort=column)).total == 1


def test_a_problem_of_the_ledger_has_searches_decisions_and_entries(tuned: Workspace) -> None:
    page = problem_page(tuned, KEY)
    (search,) = page.searches
    assert (search.job, search.trials, search.failed, search.best) == (None, 6, 1, 100.0)
    assert [(one.outcome, one.time_ns) for one in page.decisions] == [("entry stays", 100.0)]
    assert [(one.layer, one.entry.solver) for one in page.entries] == [("user", "loops")]
    assert [(one.step, one.answered) for one in page.steps] == [("user", True)]


def test_a_search_knows_which_parameter_matters(tuned: Workspace) -> None:
    (search,) = problem_page(tuned, KEY).searches
    page = search_page(tuned, KEY, search.id)
    assert [one.best for one in page.trials] == [400.0, 400.0, 400.0, 100.0, 100.0, 100.0]
    assert page.trials[1].reason == ODD
    assert page.best is not None and page.best.number == 4
    assert [one.name for one in page.effects] == ["pack", "tile"]
    assert page.effects[0].best == "true"
    assert [axis.place(page.trials[0].config) for axis in page.axes] == [0, 0]
    with pytest.raises(UsageError, match="has no search 'other'"):
        search_page(tuned, KEY, "other")


def test_a_long_search_keeps_its_last_trials_and_the_best(
    tuned: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (search,) = problem_page(tuned, KEY).searches
    whole = search_page(tuned, KEY, search.id).trials
    monkeypatch.setattr(searches, "MOST_TRIALS", 1)
    assert list(search_page(tuned, KEY, search.id).trials) == [whole[3], whole[5]]
    monkeypatch.setattr(searches, "MOST_TRIALS", 3)
    assert list(search_page(tuned, KEY, search.id).trials)[-3:] == list(whole[3:])


def test_samples_name_ties_and_noise(tuned: Workspace) -> None:
    found = config_samples(tuned, KEY)
    assert [(one.config["tile"], one.tie) for one in found] == [(4, False), (8, True), (16, False)]
    assert found[0].noise == pytest.approx(0.01)
    assert found[0].disturbed == 2
    assert len(config_samples(tuned, KEY, most=1)) == 1


def test_a_ledger_of_a_newer_version_is_a_sentence(tmp_path: Path) -> None:
    import sqlite3

    fill_ledger(tmp_path)
    with sqlite3.connect(tmp_path / "ledger.sqlite") as file:
        file.execute("PRAGMA user_version = 99")
    file.close()
    with workspace_in(tmp_path) as workspace:
        (source,) = [one for one in workspace.sources() if one.name == "ledger"]
        assert not source.present and "99" in source.said
        assert overview_page(workspace).ledger is None


# Banks


def test_a_bank_is_sorted_filtered_and_read_again_when_it_changes(tmp_path: Path) -> None:
    fill_bank(tmp_path, entry(), entry("matmul:9x9x9:f32", time_ns=50.0, vendor=ODD))
    with workspace_in(tmp_path) as workspace:
        table = bank_page(workspace, "user", TableRequest(sort="time_ns")).entries
        assert [row.time_ns for row in table.rows] == [50.0, 100.0]
        assert bank_page(workspace, "user", TableRequest(filters={"problem": "9x9"})).entries.total
        fill_bank(tmp_path, entry("matmul:7x7x7:f32"))
        page = bank_page(workspace)
        assert (page.entries.total, page.banks[0].entries) == (3, 3)
        with pytest.raises(UsageError, match="there is no bank 'other'; choose from user"):
            bank_page(workspace, "other")


def test_an_entry_has_its_evidence(tmp_path: Path) -> None:
    fill_bank(tmp_path)
    with workspace_in(tmp_path) as workspace:
        (known,) = entry_page(workspace, "user", KEY).entries
        assert known.entry.evidence.samples == 20
        with pytest.raises(UsageError, match="the user bank has no entry for 'add:3'"):
            entry_page(workspace, "user", "add:3")


def test_two_banks_differ_by_key_config_and_time(tmp_path: Path) -> None:
    keys = [f"matmul:{size}x8x8:f32" for size in range(1, 6)]
    first = [entry(key) for key in keys[:4]]
    second = [
        entry(keys[0]),
        entry(keys[1], time_ns=80.0),
        entry(keys[2], config={"tile": 16}),
        entry(keys[4]),
    ]
    old, new = fill_bank(tmp_path / "old", *first), fill_bank(tmp_path / "new", *second)
    found = bank_difference(old, new)
    assert found.same == 1
    assert {row.problem: row.difference for row in found.rows.rows} == {
        keys[1]: "other time",
        keys[2]: "other config",
        keys[3]: "only in first",
        keys[4]: "only in second",
    }
    assert found.rows.rows[0].ratio == pytest.approx(1.25)
    one_kind = TableRequest(filters={"difference": "only"})
    assert bank_difference(old, new, one_kind).rows.total == 2


# Sweeps


WORKLOAD = "sweep:serve@0123456789abcdef"


def run(point: Config, value: float | None, **more: object) -> MeasurementRecord:
    status = Status.OK if value is not None else Status.INVALID
    metrics = {"qps": value, "latency_ms": 1000.0 / value} if value is not None else {}
    known: dict[str, object] = {"status": status, "reason": "" if value else "too slow", **more}
    return MeasurementRecord(
        CandidateKey(WORKLOAD, SOLVER, 1, point.key),
        *(None, "i", "c", "command:{}", "s", 0),
        single(metrics),
        **known,  # type: ignore[arg-type]
    )


def swept(place: Path) -> Workspace:
    with Ledger.open(place) as ledger:
        ledger.add_measurements([run(Config(batch=1, load=1), 9999.0)])
        forget = (MarkKind.FORGET, "everything", WORKLOAD, SOLVER, 1, None, "i", "c", "s")
        ledger.add_mark(MarkRecord(*forget))
        ledger.add_measurements(
            [
                run(Config(batch=batch, load=load), 100.0 * batch + load if load < 40 else None)
                for batch in (1, 2)
                for load in (10, 20, 30, 40, 50)
            ]
        )
    return workspace_in(place)


def test_a_sweep_of_the_ledger_is_ranked_by_any_metric(tmp_path: Path) -> None:
    with swept(tmp_path) as workspace:
        (row,) = sweep_table(workspace, ALL).rows
        assert (row.key, row.name, row.points, row.runs, row.failed) == (
            *(WORKLOAD, "serve", 11, 11),
            4,
        )
        page = sweep_page(workspace, WORKLOAD, ["qps:max"])
        assert len(page.result.trials) == 10  # the first was forgotten
        assert page.result.best == Config(batch=2, load=30)
        assert page.points[0].value == 230.0
        assert [one.name for one in page.effects] == ["batch", "load"]
        assert point_table(page, TableRequest(sort="value")).rows[0].value == 110.0
        assert [(one.status, one.runs) for one in page.failures] == [("invalid", 4)]
        both = sweep_page(workspace, WORKLOAD, ["qps:max", "latency_ms:min"])
        assert [one.point for one in both.front] == [Config(batch=2, load=30)]


def test_a_sweep_has_a_heat_map_and_a_search_for_the_load(tmp_path: Path) -> None:
    with swept(tmp_path) as workspace:
        page = sweep_page(workspace, WORKLOAD, ["qps:max"], ("batch", "load"))
        assert page.heat is not None
        assert (page.heat.across.name, page.heat.up.name) == ("load", "batch")
        assert (3, 0, None) in page.heat.cells and (0, 0, 110.0) in page.heat.cells
        assert page.load is not None
        assert (page.load.parameter, page.load.holds, page.load.breaks) == ("load", 30.0, 40.0)
        with pytest.raises(UsageError, match="'x' is not a parameter"):
            sweep_page(workspace, WORKLOAD, ["qps:max"], ("batch", "x"))
        with pytest.raises(UsageError, match="has no direction"):
            sweep_page(workspace, WORKLOAD, ["qps"])
        with pytest.raises(UsageError, match="there is no sweep 'other'"):
            sweep_page(workspace, "other")


def test_a_report_of_a_sweep_is_listed(tmp_path: Path) -> None:
    trial = SweepTrial(1, Config(a=1), Status.OK, {"seconds": 2.0}, 2.0)
    (tmp_path / "report").mkdir()
    result = SweepResult(ODD, (), (trial,), Config(a=1), 2.0)
    write_json(result, tmp_path / "report" / "result.json")
    with workspace_in(tmp_path) as workspace:
        (row,) = sweep_table(workspace, ALL).rows
        assert (row.name, row.source, row.runs) == (ODD, "report", 1)
        assert sweep_page(workspace, row.key).points[0].value == 2.0


# Training runs


def trained(place: Path) -> Workspace:
    problem = "matmul:16x16x16:f32"
    device = describe("haswell/1")
    options = TrainOptions("tiny", eval_size=0, total_steps=40)
    dataset = LoopDataset("tiny", "mm", 0, (problem,), ())
    folder = RunFolder.create(place / "runs" / "first", options, dataset, device)
    folder.sessions.append(
        TrainingSession("2026-01-01T00:00:00.000000Z", "here", 1, {}, 0, 20, 3.0, "interrupted")
    )
    folder.write_record()
    game = loop_game(parse(problem), device, options.preset)
    actions = ("down", "swap_up", "split_4")
    state = game.start()
    for name in actions:
        state = game.apply(state, game.number(name))
    episode = PlayedEpisode(
        problem, actions, (0.0, 0.5, 0.25), (None, 2e-6, 1e-6), str(state.schedule), 1.5
    )
    for iteration in (1, 2):
        curves = {"iteration": iteration, "steps": 10.0 * iteration, "seconds": 1.0 * iteration}
        folder.add({**curves, "speed_up": 1.0 + iteration}, [episode], iteration)
    return workspace_in(place)


def test_a_training_run_has_curves_and_episodes(tmp_path: Path) -> None:
    with trained(tmp_path) as workspace:
        (row,) = training_table(workspace, ALL).rows
        assert (row.name, row.state, row.steps, row.speed_up) == ("first", "interrupted", 20, 3.0)
        assert row.done == 0.5
        page = training_page(workspace, "first")
        assert page.curves["speed_up"] == [2.0, 3.0]
        assert [(one.iteration, one.actions) for one in page.episodes.rows] == [(2, 3), (1, 3)]
        assert page.episodes.rows[0].reward == pytest.approx(0.75)
        with pytest.raises(UsageError, match="there is no training run 'second'"):
            training_page(workspace, "second")


def test_an_episode_is_played_again_step_by_step(tmp_path: Path) -> None:
    with trained(tmp_path) as workspace:
        page = episode_page(workspace, "first", 2, 0)
        assert [step.action for step in page.steps] == ["", "down", "swap_up", "split_4"]
        assert page.steps[0].loops[-1].startswith("out[m,n] = sum(")
        assert len(page.steps[3].loops) == len(page.steps[0].loops) + 1
        assert [step.time_s for step in page.steps] == [None, None, 2e-6, 1e-6]
        assert page.row.speed_up == 1.5
        with pytest.raises(UsageError, match="has no episode 7 in iteration 2"):
            episode_page(workspace, "first", 2, 7)


def test_a_run_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    place = tmp_path / "runs" / "broken"
    place.mkdir(parents=True)
    (place / "run.json").write_text("{}")
    with workspace_in(tmp_path) as workspace:
        (row,) = training_table(workspace, ALL).rows
        assert "is not the record of a training run" in row.error


# Programs


def program(place: Path, name: str = "tune_result_20260101_000000_pid7.json") -> Path:
    times = {"before_tune": 20.0, "after_tune": 10.0}
    row = {
        **{"op": "aten::mm", "description": ODD, "problem": KEY, "device": ZEN.name},
        **{"calls": 100, "kernel": "skipjack", "solver": "loops", "status": "bank_hit"},
        **{"searcher": "", "result_data": times, "ticks_best": [], "reason": "known"},
    }
    left = {**row, "op": "aten::add", "kernel": "torch", "status": "vendor", "reason": "too small"}
    facts = {"command": ["python", ODD], "directory": "/x", "pid": 7, "policy": "db"}
    content = {
        "format": 1,
        "program": {**facts, "auto_tune_mode": ""},
        "has_ended": True,
        "summary": {"total": 2, "bank_hit": 1, "vendor": 1, "with_skipjack_kernel": 1},
        "gain_formula": "before / after",
        "end_to_end": {
            **{"seconds": 2.0, "was_tuned": True, "has_searched": False},
            "before_seconds": 3.0,
        },
        "operations": [row, left],
    }
    (place / name).write_text(json.dumps(content))
    return place / name


def test_programs_have_hits_and_the_time_that_they_saved(tmp_path: Path) -> None:
    program(tmp_path)
    (tmp_path / "tune_result_bad.json").write_text("not JSON")
    missed = MissedProblem("add:5", ZEN.name, ZEN.class_key, lookups=2, calls=9, time_ns=90)
    MissFile(tmp_path).add([missed])
    with workspace_in(tmp_path) as workspace:
        page = programs_page(workspace)
        rows = {row.name: row for row in page.programs.rows}
        assert rows["tune_result_bad.json"].error
        row = rows["tune_result_20260101_000000_pid7.json"]
        assert (row.operations, row.hits, row.ours, row.saved_us, row.gain) == (
            *(2, 1, 1, 1000.0),
            1.5,
        )
        assert [one.problem for one in page.misses.rows] == ["add:5"]
        one = program_page(workspace, row.name)
        assert one.reasons == [("too small", 1)]
        assert one.operations.rows[0].description == ODD
        with pytest.raises(UsageError, match=r"there is no result file '\.\./x'"):
            program_page(workspace, "../x")


def test_settings_without_places_look_below_the_user_directory(tmp_path: Path) -> None:
    with Workspace(settings_in(tmp_path)) as workspace:
        assert workspace.user_dir == tmp_path
        assert not workspace.has_ledger
