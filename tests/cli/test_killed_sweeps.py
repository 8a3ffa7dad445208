"""Sweeps that are killed repeatedly lose only the run in progress, each time."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from processes import command

Skipjack = Callable[..., subprocess.CompletedProcess[str]]

RUN = """\
import json, os, time
time.sleep(0.05)
with open("runs.txt", "a") as log:
    log.write(os.environ["batch"] + " " + os.environ["streams"] + "\\n")
assert open("engine.txt").read() == os.environ["batch"]
speed = int(os.environ["batch"]) * 10 + int(os.environ["streams"])
json.dump({"speed": speed}, open("r.json", "w"))
"""
BUILD = """\
import os, time
time.sleep(0.05)
open("engine.txt", "w").write(os.environ["batch"])
"""
FILES = {
    "grid.json": json.dumps({"batch": list(range(6)), "streams": list(range(10))}),
    "search.py": (
        "from library import GreedyStepper, Step\n"
        "def META_search_callback():\n"
        "    return GreedyStepper([Step('batch', 0, 6, lambda x: x + 1),\n"
        "                          Step('streams', 0, 10, lambda x: x + 1)],\n"
        "                         lambda old, new: new['speed'] > old['speed'])\n"
        "def META_get_no_rebuild_params(): return ['streams']\n"
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_every_kill_costs_one_run_at_most(
    skipjack: Skipjack, user_dir: Path, tmp_path: Path, name: str
) -> None:
    place = tmp_path / "bench"
    place.mkdir()
    (place / "run.py").write_text(RUN)
    (place / "build.py").write_text(BUILD)
    (place / name).write_text(FILES[name])
    arguments = [
        *("sweep", name, "--build-cmd", "python build.py", "--run-cmd", "python run.py"),
        *("--result", "json:r.json", "--metric", "speed:max", "--confirm", "1"),
        *(("--no-rebuild", "streams") if name.endswith(".json") else ()),
    ]
    rng = np.random.default_rng(0)
    kills = 0
    for _ in range(20):
        process = subprocess.Popen(
            command([*arguments, "--json"]), cwd=place, stdout=subprocess.DEVNULL
        )
        try:
            process.wait(float(rng.uniform(0.8, 2.0)))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            kills += 1
            time.sleep(0.05)
    done = skipjack(*arguments, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["best"] == {"batch": 5, "streams": 9}
    assert kills >= 2, "the sweep was over too soon to be killed"
    ran = Counter((place / "runs.txt").read_text().splitlines())
    recorded = Counter(f"{t['point']['batch']} {t['point']['streams']}" for t in result["trials"])
    assert all(trial["status"] == "ok" for trial in result["trials"])
    assert set(ran) == set(recorded), "nothing that was run is missing"
    assert sum((ran - recorded).values()) <= kills
