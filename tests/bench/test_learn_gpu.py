"""Data to learn from on GPUs: lists, plans, builds that are shared, the table on a fake GPU."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import learn_data
import learn_gpu
import nv_matmul
from build_ahead import AheadBuilders
from learn_plan import (
    Listed,
    PlannedConfig,
    PlannedProblem,
    interleaved,
    plan,
    read_list,
    read_plan,
    write_plan,
)
from processes import PATIENCE_S
from skipjack import plugins
from skipjack.core import Candidate, Config, Device, ParameterSpace, Status
from skipjack.devices import describe
from skipjack.gpu.discovery import only_drivers
from skipjack.learn.trials import MeasuredConfig, ProblemTrials, read_trials
from skipjack.ledger import FILE_NAME, Ledger
from skipjack.operations import parse
from skipjack.solvers import BuildingSolver, find_solver, refusal, registry, solvers_for
from skipjack.testing.fake_gpu import DEVICE, FakeDriver

ROOT = Path(__file__).parents[2]
LISTS = ROOT / "bench" / "lists"
PLUGIN = ROOT / "tests" / "tuning" / "fake_gpu_solver.py"
H200 = describe("sm_90/132")


@pytest.mark.parametrize(("name", "least"), [("learn_gpu_products", 100), ("learn_gpu_convs", 60)])
def test_every_problem_of_the_lists_is_in_a_family_and_has_a_solver(name: str, least: int) -> None:
    listed = read_list(LISTS / f"{name}.txt")
    assert len({one.problem for one in listed}) == len(listed) >= least
    assert len({one.family for one in listed}) >= 7
    for one in listed:
        solvers = solvers_for(one.problem, H200)
        assert any(not refusal(solver, one.problem, H200) for solver in solvers), one


def test_a_line_without_a_type_is_a_problem_in_each(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    path.write_text("# squares: all\nmatmul:64x64x64\n# odd\nmatmul:3x5x7/ta=1:bf16\n")
    found = [(one.family, one.problem.key) for one in read_list(path, ("f16", "bf16"))]
    assert found == [
        ("some/squares/f16", "matmul:64x64x64:f16"),
        ("some/squares/bf16", "matmul:64x64x64:bf16"),
        ("some/odd", "matmul:3x5x7/ta=1:bf16"),
    ]


def test_families_take_turns() -> None:
    listed = [Listed("a", parse(f"add:{size}")) for size in range(1, 9)]
    listed += [Listed("b", parse(f"add:{size}")) for size in range(11, 13)]
    order = interleaved(listed, np.random.default_rng(0))
    assert sorted(map(str, order)) == sorted(map(str, listed))
    for half in (order[:5], order[5:]):
        assert [one.family for one in half].count("b") == 1


def test_a_plan_has_first_proposals_picks_and_drawn_configs(tmp_path: Path) -> None:
    problem = parse("matmul:256x256x256:f16")
    solver = find_solver("triton_matmul")
    assert isinstance(solver, BuildingSolver)
    space = solver.space(problem, H200)
    assert isinstance(space, ParameterSpace)
    picked = next(one for one in reversed(list(space.enumerate())) if one["walk"] == "once")
    picks = {problem.key: {"TRITON": [{"config": dict(picked)}]}}
    listed = [Listed("squares", problem)]
    (one,) = plan(listed, H200, picks, 60, {})
    assert len(one.configs) == 60
    of: dict[str, list[Config]] = {}
    for each in one.configs:
        of.setdefault(each.solver, []).append(each.config)
    assert list(of) == ["triton_matmul", "triton_addresses"]
    assert of["triton_matmul"][:16] == list(space.promising(16))
    assert picked in of["triton_matmul"]
    assert all(space.contains(config) for config in of["triton_matmul"])
    assert len(next(plan(listed, H200, {}, 60, {"squares": 40})).configs) < 60
    write_plan(tmp_path / "plan", "sm_90/132", [one])
    assert read_plan(tmp_path / "plan") == [one]


def test_problems_of_a_plan_share_builds() -> None:
    listed = [Listed("gpt", parse(f"matmul:512x{n}x1600:f16")) for n in (4800, 6400)]
    one, other = plan(listed, H200, {}, 50, {})
    shared = {each.build for each in one.configs} & {each.build for each in other.configs}
    assert len(shared) > 10
    for each in (each for each in one.configs if each.build in shared):
        solver = find_solver(each.solver)
        assert isinstance(solver, BuildingSolver)
        source = solver.lower(one.problem, H200, each.config)
        assert source.digest.startswith(each.build)


# On a fake GPU


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Device]:
    monkeypatch.setattr(registry, "_known", dict(registry._known))
    monkeypatch.setenv(plugins.VARIABLE, "")
    plugins.load((str(PLUGIN),))
    monkeypatch.setenv(plugins.VARIABLE, str(PLUGIN))
    monkeypatch.setenv("SKIPJACK_USER_DB_PATH", str(tmp_path / "user"))
    monkeypatch.setenv("SKIPJACK_BUILD_WORKERS", "1")
    with only_drivers(FakeDriver()):
        yield DEVICE


def _planned(size: int, *behaviours: str) -> PlannedProblem:
    configs = [
        PlannedConfig("fake_gpu", Config({"behaviour": behaviour}), f"build of {behaviour}")
        for behaviour in behaviours
    ]
    return PlannedProblem("adds", parse(f"add:{size}"), tuple(configs))


def test_what_problems_share_is_built_once(fake_gpu: Device) -> None:
    one, other = _planned(4096, "right", "slow"), _planned(8192, "right")
    with AheadBuilders(1, fake_gpu, [one, other]) as builders:
        asked = Candidate(other.problem, "fake_gpu", Config({"behaviour": "right"}))
        builders.submit(asked)
        (build,) = builders.poll(PATIENCE_S)
    assert build.candidate == asked and build.artifact
    assert any("8192" in str(slot) for slot in build.slots), "of this problem"
    assert builders.built + builders.left == 2


def test_a_table_is_recorded_and_goes_on(
    fake_gpu: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned = [_planned(4096, "right", "slow", "wrong"), _planned(8192, "right", "slow")]
    write_plan(tmp_path / "plan", fake_gpu.name, planned)
    words = [str(tmp_path / "plan"), "--user", str(tmp_path / "user"), "--device", "gpu"]
    copy = tmp_path / "out" / "ledger.sqlite.gz"
    copy.parent.mkdir()
    assert learn_gpu.main(["table", *words, "--limit", "1"]) == 0
    assert learn_gpu.main(["table", *words, "--copy", str(copy)]) == 0
    assert "2 problems, 1 to time" in capsys.readouterr().out
    found = {one.problem.key: one for one in read_trials([tmp_path / "user"])}
    first = {one.config["behaviour"]: one for one in found["add:4096:f32"].measured}
    assert first["wrong"].status is Status.WRONG
    assert first["slow"].time_ns == pytest.approx(3 * first["right"].time_ns, rel=0.01)
    assert len(found["add:8192:f32"].successful) == 2
    unpacked = tmp_path / "unpacked.sqlite"
    unpacked.write_bytes(gzip.decompress(copy.read_bytes()))
    assert {one.problem.key for one in read_trials([unpacked])} == set(found)
    carried = tmp_path / "carried"
    carried.mkdir()
    (carried / f"{FILE_NAME}.gz").write_bytes(copy.read_bytes())
    words[2] = str(carried)
    assert learn_gpu.main(["table", *words]) == 0
    assert "2 problems, 0 to time" in capsys.readouterr().out


def test_no_problem_is_begun_after_the_end(
    fake_gpu: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(tmp_path / "plan", fake_gpu.name, [_planned(4096, "right")])
    words = ["table", str(tmp_path / "plan"), "--user", str(tmp_path / "user")]
    assert learn_gpu.main([*words, "--at-most", "0"]) == 0
    assert "time is up: 1 problems are left" in capsys.readouterr().out
    with Ledger.open(tmp_path / "user") as ledger:
        assert ledger.studies() == []


def test_a_pool_of_another_machine_is_taken_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = {"pool": [["nest", {"schedule": "m:4 n/v"}], ["packed", {"tile": "8x2"}]]}
    (tmp_path / "pool.json").write_text(json.dumps(pool))
    (tmp_path / "list").write_text("matmul:8x8x8\n")
    words = [str(tmp_path / "list"), "--user", str(tmp_path / "user")]
    words += ["--pool-from", str(tmp_path / "pool.json"), "--pool", "1"]
    options = learn_data.read_options(["table", *words])
    (entry,) = learn_data.chosen_pool(options, [])
    assert entry == learn_data.Entry("nest", Config({"schedule": "m:4 n/v"}))
    assert learn_data.main(["pool", *words]) == 0
    assert json.loads(capsys.readouterr().out) == {"pool": []}, "the ledger has nothing"


# nvMatmulHeuristics


def _given(cta: list[int], warp: list[int], **more: object) -> dict[str, object]:
    usual = {"stages": 4, "splits": 1, "swizzle": 8, "by_columns": False, "cluster": [1, 1]}
    return {"cta": cta, "warp": warp, **usual, **more}


def test_a_config_of_the_library_becomes_the_nearest_of_our_kernel() -> None:
    problem = parse("matmul:4096x4096x4096:f16")
    config, changed = nv_matmul.nearest(problem, _given([256, 128, 64], [64, 64, 64]))
    assert changed == [] and (config["tile_m"], config["tile_n"], config["warps"]) == (256, 128, 8)
    config, changed = nv_matmul.nearest(
        problem, _given([128, 128, 32], [64, 64, 32], stages=8, swizzle=1)
    )
    assert changed == ["tile_k", "group", "stages"]
    assert (config["tile_k"], config["stages"], config["group"]) == (64, 4, 4), "as many in flight"
    config, _ = nv_matmul.nearest(problem, _given([128, 64, 64], [64, 32, 64], splits=2))
    assert config["splits"] == 2 and config["early"]
    thin = parse("matmul:1x4096x4096/tb=1:f16")
    config, changed = nv_matmul.nearest(thin, _given([64, 64, 64], [32, 32, 64]))
    assert config["tile_m"] == 16 and "tile_m" in changed


def _known(key: str, times: dict[Config, float]) -> ProblemTrials:
    measured = [MeasuredConfig("triton_matmul", one, time_ns=ns) for one, ns in times.items()]
    measured.append(MeasuredConfig("cublas", Config(), time_ns=1.0))
    measured.append(MeasuredConfig("triton_addresses", Config({"x": 1}), time_ns=5.0))
    return ProblemTrials(parse(key), H200, tuple(measured))


def test_scores_compare_the_best_of_the_first_few() -> None:
    fast, slow, other = (Config({"tile": tile}) for tile in (1, 2, 3))
    keys = ["matmul:64x64x64:f16", "matmul:128x128x128:f16"]
    known = {key: _known(key, {fast: 10.0, slow: 20.0}) for key in keys}
    ours = nv_matmul.Side("learned", {key: [other, fast] for key in keys})
    theirs = nv_matmul.Side("TRITON", {keys[0]: [slow, fast], keys[1]: [fast]})
    record = nv_matmul.score([ours, theirs], known)
    assert record["products"] == 2 and record["unmeasured"] == {"learned": 2, "TRITON": 0}
    assert record["sides"]["learned"][1]["of_best"] == [1.0, 1.0, 1.0]
    assert record["sides"]["learned"][1]["of_best_of_all_solvers"] == 0.5, "libraries are not ours"
    assert record["sides"]["TRITON"][1]["of_best"][0] == pytest.approx(0.5**0.5, abs=1e-4)
    assert record["sides"]["TRITON"][1]["least"] == 0.5
    assert record["sides"]["TRITON"][4]["of_best"][0] == 1.0
    against = record["against"]["learned over TRITON, first 1"]
    assert (against["won"], against["lost"]) == (1, {})
