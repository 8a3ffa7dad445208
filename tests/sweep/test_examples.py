"""The example files of sweeps: all can be read, know their base config, and run."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from skipjack.sweep.configs import check_names, read_base_config, read_config_tree
from skipjack.sweep.files import read_sweep_file
from skipjack.sweep.session.forecast import is_static, make_plan

EXAMPLES = Path(__file__).parents[2] / "examples" / "sweep"
BASE = EXAMPLES / "base.json"
FILES = sorted(
    path for path in EXAMPLES.iterdir() if path.suffix in (".py", ".json", ".toml") and path != BASE
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_example_fits_its_base_config(path: Path) -> None:
    file = read_sweep_file(path)
    base = read_base_config(BASE)
    check_names(file, base)
    if is_static(file):
        assert make_plan(file, base).points
    else:
        assert file.search is not None
        assert set(next(file.search().generate())) <= set(base.config)


def test_the_tree_has_the_names_of_the_base_config() -> None:
    base = read_base_config(BASE)
    for system in ("A10x1", "A10x8", "A30x1"):
        config = read_config_tree(EXAMPLES / "configs", "rnnt", "Server", system).config
        assert set(base.config) <= set(config)


def run(script: str, directory: Path, **changes: int) -> subprocess.CompletedProcess[bytes]:
    config = {**read_base_config(BASE).config, **changes}
    environment = {**os.environ, **{name: str(value) for name, value in config.items()}}
    environment.pop("SKIPJACK_BUILD_DIR", None)
    return subprocess.run(
        [EXAMPLES / script], cwd=directory, env=environment, capture_output=True, check=False
    )


def test_the_stand_ins_build_run_and_fail_as_they_should(tmp_path: Path) -> None:
    assert run("build.sh", tmp_path, gpu_batch_size=256).returncode == 0
    assert run("run.sh", tmp_path, gpu_batch_size=256).returncode == 0
    small = json.loads((tmp_path / "out" / "result.json").read_text())
    assert small["result_validity"] == "VALID"
    assert run("run.sh", tmp_path, gpu_batch_size=256, gpu_inference_streams=2).returncode == 0
    fast = json.loads((tmp_path / "out" / "result.json").read_text())
    assert fast["samples_per_second"] > small["samples_per_second"]
    assert run("run.sh", tmp_path, gpu_batch_size=256, server_target_qps=9000).returncode == 0
    assert (
        json.loads((tmp_path / "out" / "result.json").read_text())["result_validity"] == "INVALID"
    )
    assert b"another batch" in run("run.sh", tmp_path, gpu_batch_size=128).stderr
    assert b"overrun" in run("run.sh", tmp_path, gpu_batch_size=256, audio_batch_size=1024).stderr
