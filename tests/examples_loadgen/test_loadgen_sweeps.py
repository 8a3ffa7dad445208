"""The sweep files of the LoadGen example fit their base configs and say what needs a build."""

from __future__ import annotations

import pytest
from loadgen_example import EXAMPLE, base_config

from skipjack.search import Run, Stats
from skipjack.sweep.session import set_up


def test_the_server_sweep_joins_the_load_with_knobs_of_which_one_needs_a_build() -> None:
    setup = set_up(EXAMPLE / "server.toml", {})
    assert setup.load is not None
    assert setup.load.param == "server_target_qps"
    assert setup.load.lower <= base_config("Server")["server_target_qps"] < setup.load.upper
    assert setup.file.no_rebuild is not None
    assert set(setup.file.parameters) - set(setup.file.no_rebuild) == {"precision"}
    assert set(setup.options.screen) <= set(base_config("Server"))


def test_two_cores_are_not_given_more_than_two_threads() -> None:
    is_valid = set_up(EXAMPLE / "server.py", {"base": EXAMPLE / "server-base.json"}).file.is_valid
    assert is_valid is not None
    base = base_config("Server")
    assert is_valid(base | {"workers": 2})
    assert not is_valid(base | {"workers": 2, "threads": 2})


@pytest.mark.parametrize("scenario", ["offline", "single_stream", "multi_stream"])
def test_other_sweeps_have_no_name_that_their_base_lacks(scenario: str) -> None:
    given = {
        "base": EXAMPLE / f"{scenario}-base.json",
        "run_cmd": "python harness.py",
        "result": "loadgen:{run_dir}",
    }
    setup = set_up(EXAMPLE / f"{scenario}.json", given)
    assert "precision" in setup.file.parameters
    assert len(setup.options.objectives) == 1


def test_the_python_sweep_searches_the_load_first_and_knobs_when_it_fails() -> None:
    setup = set_up(EXAMPLE / "server.py", {"base": EXAMPLE / "server-base.json"})
    assert setup.file.search is not None
    points = setup.file.search().generate()
    first = dict(next(points))
    assert (first["precision"], first["workers"], first["batch_size"]) == ("int8", 1, 1)
    higher = dict(points.send(Run(first, Stats({"result_validity": "VALID"}))))
    assert higher["server_target_qps"] > first["server_target_qps"]
    wider = dict(points.send(Run(higher, Stats({"result_validity": "INVALID"}))))
    assert wider == higher | {"workers": 2}
