"""``skipjack grid`` with a harness of make and Python that writes logs like LoadGen."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Skipjack = Callable[..., subprocess.CompletedProcess[str]]

MAKEFILE = """\
generate_engines:
\tpython3 harness.py build $(RUN_ARGS)
run_harness:
\tpython3 harness.py run $(LOG_DIR) $(RUN_ARGS)
"""
HARNESS = """\
import json, pathlib, sys
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv if word.startswith("--"))
config = json.load(open(words["configs"]))["A10x1"]
if sys.argv[1] == "build":
    with open("built.txt", "a") as log: log.write(str(config["gpu_batch_size"]) + "\\n")
    pathlib.Path("engine").write_text(str(config["gpu_batch_size"]))
    raise SystemExit
assert words["test_mode"] == "PerformanceOnly" and words["benchmarks"] == "rnnt"
assert pathlib.Path("engine").read_text() == str(config["gpu_batch_size"])
with open("ran.txt", "a") as log: log.write(json.dumps(config) + "\\n")
if config["audio_batch_size"] == 13: raise SystemExit("unlucky")
valid = config["server_target_qps"] <= 1700
said = {"effective_scenario": "Server", "result_validity": "VALID" if valid else "INVALID",
        "result_scheduled_samples_per_sec": config["server_target_qps"],
        "result_perf_constraints_met": valid, "result_min_duration_met": True,
        "result_min_queries_met": True, "early_stopping_met": valid,
        "result_99.00_percentile_latency_ns": 5}
log = pathlib.Path(sys.argv[2], "A10x1", "mlperf_log_detail.txt")
log.parent.mkdir(exist_ok=True)
log.write_text("".join(
    ":::MLLOG " + json.dumps({"key": k, "value": v, "metadata": {}}) + "\\n"
    for k, v in said.items()))
"""


@pytest.fixture
def harness(tmp_path: Path) -> Path:
    """A harness with a tree of base configs."""
    place = tmp_path / "closed"
    configs = place / "configs" / "rnnt" / "Server"
    configs.mkdir(parents=True)
    default = {"audio_batch_size": 128, "gpu_batch_size": 1, "server_target_qps": 1000}
    tree = {"benchmark": "rnnt", "scenario": "Server", "default": default, "A10x1": {}}
    (configs / "config.json").write_text(json.dumps(tree))
    (place / "Makefile").write_text(MAKEFILE)
    (place / "harness.py").write_text(HARNESS)
    (place / "grid.py").write_text(
        "audio_batch_size = [128, 256]\ngpu_batch_size = [1, 2]\n"
        "def META_get_no_rebuild_params(): return ['audio_batch_size']\n"
    )
    return place


def grid(skipjack: Skipjack, place: Path, file: str, *more: str) -> tuple[str, str]:
    done = skipjack(
        *("grid", "rnnt", "Server", file, "--spoof_system_id", "A10x1", "--temp_timeout", "0"),
        *more,
        cwd=place,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_every_point_is_run_and_listed(skipjack: Skipjack, harness: Path) -> None:
    out, err = grid(skipjack, harness, "grid.py")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["audio_batch_size"], row["gpu_batch_size"]) for row in rows] == [
        ("128", "1"),
        ("256", "1"),
        ("128", "2"),
        ("256", "2"),
    ]
    assert all(row["result_validity"] == "VALID" for row in rows)
    assert "builds=2, cached_builds=2, runs=4, cached_runs=0" in err
    assert (harness / "built.txt").read_text() == "1\n2\n"


def test_results_are_kept_as_the_original_keeps_them(skipjack: Skipjack, harness: Path) -> None:
    grid(skipjack, harness, "grid.py")
    kept = sorted((harness / "build" / "logs").iterdir())
    assert len(kept) == 4 and all(path.name.startswith("grid_A10x1_rnnt_Server_") for path in kept)
    meta = json.loads((kept[0] / "autotuneMETAFILE.json").read_text())
    assert set(meta) == {"config", "run_info"}
    _, err = grid(skipjack, harness, "grid.py", "--use_cached")
    assert "builds=0, cached_builds=0, runs=0, cached_runs=4" in err
    out, _ = grid(skipjack, harness, "grid.py", "--norun", "--verbose_stats")
    assert "result_99.00_percentile_latency_ns" in out.splitlines()[0]
    assert len((harness / "ran.txt").read_text().splitlines()) == 4


def test_a_search_is_run_with_invalid_results_in_it(skipjack: Skipjack, harness: Path) -> None:
    (harness / "qps.py").write_text(
        "from scripts.autotune.library import Bisect\n"
        "def META_search_callback():\n"
        "    return Bisect('server_target_qps', 500, 2500, 100,\n"
        "                  lambda r: r.stats['result_validity'] == 'VALID')\n"
        "def META_get_no_rebuild_params(): return ['server_target_qps']\n"
    )
    out, err = grid(skipjack, harness, "qps.py")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [row["server_target_qps"] for row in rows] == ["1500", "2000", "1700", "1800"]
    assert "builds=1, cached_builds=3, runs=4" in err
    assert "best: server_target_qps=1700" in err


def test_the_engine_that_is_there_can_be_used(skipjack: Skipjack, harness: Path) -> None:
    (harness / "engine").write_text("1")
    grid(skipjack, harness, "grid.py", "--use_existing_engine")
    assert (harness / "built.txt").read_text() == "2\n"


def test_a_point_that_fails_does_not_end_the_session(skipjack: Skipjack, harness: Path) -> None:
    (harness / "bad.json").write_text('{"audio_batch_size": [128, 13, 256]}')
    out, err = grid(skipjack, harness, "bad.json")
    assert len(out.splitlines()) == 3
    assert "audio_batch_size=13: crash" in err and "Traceback" not in err


def test_a_makefile_may_hand_its_arguments_on_in_quotes(skipjack: Skipjack, harness: Path) -> None:
    (harness / "Makefile").write_text(
        'generate_engines:\n\t./harness.sh build "$(RUN_ARGS)"\n'
        'run_harness:\n\t./harness.sh run "$(LOG_DIR)" "$(RUN_ARGS)"\n'
    )
    script = harness / "harness.sh"
    script.write_text("#!/bin/sh\nexec python3 harness.py $*\n")  # splits, and takes no quotes away
    script.chmod(0o755)
    (harness / "one.json").write_text('{"audio_batch_size": [128]}')
    _, err = grid(skipjack, harness, "one.json", "--extra_run_args=--fast")
    assert "builds=1, cached_builds=0, runs=1, cached_runs=0" in err


def test_results_as_json_csv_and_a_report(skipjack: Skipjack, harness: Path) -> None:
    """Of a log that does not name its scenario, with an argument that needs its quotes."""
    said = (harness / "harness.py").read_text()
    (harness / "harness.py").write_text(
        said.replace('"effective_scenario": "Server", ', "") + "assert '--name=a b' in sys.argv\n"
    )
    (harness / "qps.json").write_text('{"server_target_qps": [1600, 1800]}')
    out, err = grid(
        *(skipjack, harness, "qps.json", "--extra_run_args=--name='a b'"),
        *("--json", "--csv", "r.csv", "--report", "out"),
    )
    assert "best: server_target_qps=1600 (1600.0)" in err
    told = json.loads(out)
    assert told["best"] == {"server_target_qps": 1600}
    assert told["statistics"] == {"builds": 2, "cached_builds": 0, "runs": 2, "cached_runs": 0}
    rows = list(csv.DictReader(io.StringIO((harness / "r.csv").read_text())))
    assert [row["status"] for row in rows] == ["ok", "invalid"]
    assert json.loads((harness / "out" / "result.json").read_text())["best"] == told["best"]
    assert (harness / "out" / "runs.csv").read_text() == (harness / "r.csv").read_text()
    assert "<html" in (harness / "out" / "report.html").read_text()


def test_a_dry_run_has_no_results_to_write(skipjack: Skipjack, harness: Path) -> None:
    said = ("grid", "rnnt", "Server", "grid.py", "--spoof_system_id", "A10x1", "--dry_run")
    done = skipjack(*said, "--csv", "r.csv", cwd=harness)
    assert done.returncode == 2 and "--dry_run runs nothing" in done.stderr
    assert not (harness / "r.csv").exists()
