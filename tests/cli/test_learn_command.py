"""``skipjack learn``: models from ledgers, by command."""

import json
import subprocess
from pathlib import Path

import pytest

from modelled_trials import fill_ledger
from processes import command


@pytest.fixture(scope="module")
def ledgers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_ledger(tmp_path_factory.mktemp("learnt"), 16)


def learn(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(["learn", *map(str, words)]), capture_output=True, text=True, check=False
    )


def test_a_ranker_is_fitted_and_says_how_good_it_is(
    ledgers: Path, user_dir: Path, tmp_path: Path
) -> None:
    done = learn("ranker", "--from", ledgers, "-o", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = map(json.loads, done.stdout.splitlines())
    assert line["model"] == "ranker" and line["problems"] == 16
    assert Path(line["path"]) == tmp_path / "models" / "ranker-products-cpu-256.npz"
    assert Path(line["path"]).exists()
    assert line["ranking"]["drawn"] < line["ranking"]["first"] <= 1.0


def test_a_heuristic_that_is_not_better_is_not_kept(
    ledgers: Path, user_dir: Path, tmp_path: Path
) -> None:
    # Sixteen problems whose times have little to do with the estimates of solvers.
    done = learn("heuristic", "--from", ledgers, "-o", tmp_path, "--json")
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (done.returncode == 0) == (line["path"] is not None)
    if line["path"] is None:
        assert "not shown to be better" in line["reason"]
        assert not list(tmp_path.glob("models/*"))
    forced = learn("heuristic", "--from", ledgers, "-o", tmp_path, "--force")
    assert forced.returncode == 0, forced.stderr
    assert (tmp_path / "models" / "heuristic-products-cpu-256.npz").exists()
    assert "held out" in forced.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--from", "missing.sqlite"), "there is no ledger at missing.sqlite"),
        (("--device", "sm_90/132"), "no trials to learn from for sm_90/132"),
        (("--operation", "conv2d"), "no trials to learn from"),
    ],
)
def test_nothing_to_learn_from_is_one_sentence(
    ledgers: Path, user_dir: Path, words: tuple[str, ...], says: str
) -> None:
    given = () if "--from" in words else ("--from", ledgers)
    for what in ("ranker", "heuristic"):
        done = learn(what, *given, *words)
        assert done.returncode != 0
        assert says in done.stderr
        assert "Traceback" not in done.stderr


def test_too_few_problems_are_not_learnt_from(user_dir: Path, tmp_path: Path) -> None:
    few = fill_ledger(tmp_path / "few", 3)
    done = learn("heuristic", "--from", few)
    assert done.returncode == 1
    assert "fewer than 10 problems" in done.stdout


def test_a_report_is_one_page_that_loads_nothing(
    ledgers: Path, user_dir: Path, tmp_path: Path
) -> None:
    page = tmp_path / "learned.html"
    done = learn("report", "--from", ledgers, "-o", page, "--json")
    assert done.returncode == 0, done.stderr
    (line,) = map(json.loads, done.stdout.splitlines())
    assert line["path"] == str(page) and line["card"]["problems"] == 16
    assert {one["order"] for one in line["kept"]} >= {"ranker", "random"}
    text = page.read_text(encoding="utf-8")
    assert "What mattered" in text and "What pruning loses" in text
    assert line["card"]["digest"] in text
    assert "<script" not in text and "src=" not in text


def test_a_report_of_few_problems_says_so(user_dir: Path, tmp_path: Path) -> None:
    few = fill_ledger(tmp_path / "few", 3)
    page = tmp_path / "learned.html"
    done = learn("report", "--from", few, "-o", page)
    assert done.returncode == 0, done.stderr
    assert "fewer than 10 problems have times" in page.read_text(encoding="utf-8")
    missing = learn("report", "--from", few, "-o", tmp_path / "no" / "such" / "learned.html")
    assert missing.returncode and "Traceback" not in missing.stderr
