"""The trained heuristic of a user directory answers lookups that no bank can answer."""

from pathlib import Path

import numpy as np
import pytest

import skipjack
from modelled_trials import problems, trials_of
from skipjack.bank import system_dir_of
from skipjack.errors import MalformedError
from skipjack.learn.heuristic import (
    HEURISTIC,
    HeuristicOptions,
    fit_heuristic,
    named_configs,
)
from skipjack.learn.ranker import fit_ranker, problem_rows
from skipjack.models import (
    HEURISTIC_FILE,
    ConfigHeuristic,
    SymmetricOptions,
    device_key,
    model_file,
)
from skipjack.native import cpu
from skipjack.operations import parse
from skipjack.runtime.answers import TrainedProposal, trained_proposal
from skipjack.settings import load_settings
from skipjack.solvers import find_solver

SMALL = HeuristicOptions(
    members=8, offered=30, drawn=1, deciding=10, trees=SymmetricOptions(trees=30, depth=4)
)


@pytest.fixture
def model(user_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A heuristic for products on this machine's CPU, and no model of the system's."""
    monkeypatch.setenv("SKIPJACK_SYSTEM_DB_PATH", str(tmp_path / "system"))
    device = cpu.detect()
    trials = [trials_of(problem, device=device) for problem in problems(14)]
    ranker = fit_ranker([part for one in trials for part in problem_rows(one)])
    path = model_file(user_dir, HEURISTIC_FILE, "products", device_key(device))
    path.parent.mkdir(parents=True)
    fit_heuristic(trials, ranker, SMALL).save(path)
    return path


def proposed(key: str) -> TrainedProposal | str:
    return trained_proposal(parse(key), cpu.detect(), load_settings())


def test_it_proposes_a_legal_config_for_a_problem_that_was_never_measured(model: Path) -> None:
    found = proposed("matmul:123x145x167")
    assert isinstance(found, TrainedProposal)
    problem, device = parse("matmul:123x145x167"), cpu.detect()
    assert find_solver(found.solver).space(problem, device).contains(found.config)
    assert 0.0 < found.confidence <= 1.0


def test_an_evaluation_names_what_a_lookup_proposes(model: Path) -> None:
    heuristic = ConfigHeuristic.read(model.read_bytes(), model.name)
    for problem in problems(6, seed=3):
        found = proposed(problem.key)
        named = named_configs(trials_of(problem, device=cpu.detect()), heuristic, ()).picks
        picks = [pick for way, pick in named.items() if way.startswith(HEURISTIC)]
        if isinstance(found, TrainedProposal):
            assert picks == [(found.solver, found.config), *found.others]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("add:4096", "no heuristic was trained"),
        ("matmul:64x64x64:f64", "was not trained for this dtype"),
        ("matmul:8192x8192x8192", "not sure enough"),
    ],
)
def test_it_says_why_it_has_no_answer(model: Path, key: str, reason: str) -> None:
    found = proposed(key)
    assert isinstance(found, str)
    assert reason in found


def test_without_a_file_there_is_none(user_dir: Path) -> None:
    found = trained_proposal(parse("exp:4096"), cpu.detect(), load_settings())
    assert isinstance(found, str)


def test_a_lookup_works_whatever_is_in_the_file(
    model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model.write_bytes(model.read_bytes()[:500])
    with pytest.raises(MalformedError):
        proposed("matmul:50x60x70")
    kernel = skipjack.lookup("matmul:50x60x70")
    assert kernel is not None
    a, b = (np.random.default_rng(0).random(shape, np.float32) for shape in ((50, 70), (70, 60)))
    assert np.allclose(kernel(a, b), a @ b, atol=1e-3)


def test_the_shipped_models_can_be_read_and_know_their_features() -> None:
    for path in sorted((system_dir_of(None) / "models").glob("heuristic-*.npz")):
        found = ConfigHeuristic.read(path.read_bytes(), path.name)
        assert path.name == f"heuristic-{found.group}-{found.device}.npz"
        assert found.card["problems"] >= 10
        assert found.trees.features.max() < len(found.low)
