"""The LoadGen example: real tests of a real network, short ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from loadgen_example import EXAMPLE, base_config, run_script

from skipjack.interop.loadgen import DETAIL_LOG, read_detail_log, user_conf_lines

HARNESS = EXAMPLE / "harness.py"
SHORT: dict[str, dict[str, Any]] = {
    "SingleStream": {"single_stream_expected_latency_ns": 500_000, "min_query_count": 100},
    "MultiStream": {
        "multi_stream_expected_latency_ns": 4_000_000,
        "multi_stream_target_latency_percentile": 0.9,
        "min_query_count": 70,
        "batch_size": 8,
    },
    "Server": {
        "server_target_qps": 100,
        "server_target_latency_ns": 2_000_000_000,
        "server_target_latency_percentile": 0.9,
        "min_query_count": 60,
        "batch_size": 4,
        "workers": 2,
        "queue_delay_us": 1000,
    },
    "Offline": {"offline_expected_qps": 4000, "min_query_count": 1, "batch_size": 16},
}


def short(scenario: str, **changes: Any) -> dict[str, Any]:
    """A config whose test takes a fraction of a second."""
    return base_config(scenario, **{"min_duration_ms": 200, **SHORT[scenario], **changes})


@pytest.mark.parametrize("scenario", SHORT)
def test_every_scenario_runs_to_a_valid_result(
    scenario: str, builds: dict[str, Path], tmp_path: Path
) -> None:
    result = run_script(HARNESS, tmp_path, short(scenario), build_dir=builds["int8"])
    log = read_detail_log(tmp_path / "run" / DETAIL_LOG)
    assert (result.returncode, result.stdout) == (0, "Result is : VALID\n"), result.stderr
    assert log.scenario == scenario
    assert log.valid


def test_a_test_that_misses_its_bound_ends_as_well_but_invalid(
    builds: dict[str, Path], tmp_path: Path
) -> None:
    config = short("Server", server_target_latency_ns=1000)
    result = run_script(HARNESS, tmp_path, config, build_dir=builds["int8"])
    assert (result.returncode, result.stdout) == (0, "Result is : INVALID\n"), result.stderr


def test_a_user_conf_alone_sets_up_the_same_test(builds: dict[str, Path], tmp_path: Path) -> None:
    config = short("Server", server_target_qps=120)
    path = tmp_path / "user.conf"
    path.write_text("\n".join(user_conf_lines(config)) + "\n")
    # What the config says to LoadGen must not be looked at: with these fields it were INVALID.
    misleading = config | {"server_target_latency_ns": 1000, "server_target_qps": 1}
    result = run_script(
        HARNESS, tmp_path, misleading, "--user-conf", str(path), build_dir=builds["int8"]
    )
    values = read_detail_log(tmp_path / "run" / DETAIL_LOG).values
    assert result.stdout == "Result is : VALID\n", result.stderr
    assert values["effective_target_qps"] == 120
    assert values["effective_target_latency_ns"] == config["server_target_latency_ns"]
    assert values["effective_min_duration_ms"] == 200


def test_fields_of_the_config_are_stronger_than_the_user_conf_of_the_environment(
    builds: dict[str, Path], tmp_path: Path
) -> None:
    path = tmp_path / "user.conf"
    path.write_text("*.Server.target_qps = 999\n*.Server.target_latency = 1500\n")
    config = short("Server")
    del config["server_target_latency_ns"]
    result = run_script(
        HARNESS, tmp_path, config, build_dir=builds["int8"], SKIPJACK_USER_CONF=str(path)
    )
    values = read_detail_log(tmp_path / "run" / DETAIL_LOG).values
    assert result.returncode == 0, result.stderr
    assert values["effective_target_qps"] == config["server_target_qps"]
    assert values["effective_target_latency_ns"] == 1_500_000_000


def test_a_missing_user_conf_is_an_error_rather_than_ten_minutes(
    builds: dict[str, Path], tmp_path: Path
) -> None:
    result = run_script(
        HARNESS, tmp_path, short("Server"), "--user-conf", "nowhere.conf", build_dir=builds["int8"]
    )
    assert result.returncode == 1
    assert result.stderr.startswith("there is no nowhere.conf")


FAULTY = """
import json, os, sys, threading
from pathlib import Path
import harness
from loadgen_settings import settings_of
from samples import make_samples

class Faulty:
    calls = 0
    def classify(self, worker, tokens):
        self.calls += 1
        if self.calls > 2:
            {fault}
        return tokens[:, 0].astype("int32")

config = json.loads(Path(os.environ["SKIPJACK_CONFIG"]).read_text())
settings = settings_of(config, None, user_conf_only=False, mode="PerformanceOnly")
out = Path(os.environ["SKIPJACK_RUN_DIR"])
sys.exit(harness.run(Faulty(), make_samples(), config, settings, out) or 0)
"""


@pytest.mark.usefixtures("builds")
@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("threading.Event().wait()", 4, "LoadGen would wait for ever"),
        ("raise RuntimeError('out of luck')", 1, "RuntimeError('out of luck')"),
        ("return tokens[:0, 0].astype('int32')", 1, "samples were answered by"),
    ],
    ids=["lost", "raised", "too few"],
)
def test_a_faulty_network_ends_the_run_with_a_sentence(
    fault: str, code: int, said: str, tmp_path: Path
) -> None:
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY.format(fault=fault))
    result = run_script(script, tmp_path, short("Server", workers=1, stall_seconds=1))
    assert result.returncode == code
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_an_accuracy_run_passes_for_this_network_and_fails_for_another(
    builds: dict[str, Path], tmp_path: Path
) -> None:
    config = short("Offline")
    result = run_script(
        HARNESS, tmp_path, config, "--mode", "AccuracyOnly", build_dir=builds["int8"]
    )
    assert result.returncode == 0, result.stderr
    script, directory = EXAMPLE / "accuracy.py", str(tmp_path / "run")
    few = (directory, "--samples", "100")
    assert run_script(script, tmp_path, config, *few).returncode == 0
    other = run_script(script, tmp_path, config, *few, "--seed", "7")
    assert other.returncode == 1
    assert "the network is wrong" in other.stderr


def test_int8_is_another_network_that_agrees(builds: dict[str, Path]) -> None:
    fp32, int8 = (
        json.loads((builds[name] / "manifest.json").read_text()) for name in ("fp32", "int8")
    )
    assert fp32["agreement"]["top1"] == 1.0
    assert int8["agreement"]["top1"] >= 0.95
    assert 0.999 < int8["agreement"]["cosine"] < 0.999999
    assert int8["bytes"] < 0.3 * fp32["bytes"]


@pytest.mark.usefixtures("builds")
def test_a_network_that_does_not_agree_is_not_built(tmp_path: Path) -> None:
    config = base_config("Offline", min_agreement=1.01)
    result = run_script(EXAMPLE / "build.py", tmp_path, config)
    assert result.returncode == 1
    assert "min_agreement is 101.0%" in result.stderr
    assert not list((tmp_path / "build").iterdir())
