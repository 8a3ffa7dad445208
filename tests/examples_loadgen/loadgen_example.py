"""Runs the LoadGen example as its users do: build.py and harness.py with the environment set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from processes import PATIENCE_S

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "loadgen"


def run_script(
    script: Path,
    directory: Path,
    config: Mapping[str, Any],
    *arguments: str,
    build_dir: Path | None = None,
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run a script of the example; its logs go to ``run`` below the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "config.json"
    path.write_text(json.dumps(config))
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        env={
            **{name: value for name, value in os.environ.items() if "SKIPJACK" not in name},
            "SKIPJACK_CONFIG": str(path),
            "SKIPJACK_BUILD_DIR": str(build_dir or directory / "build"),
            "SKIPJACK_RUN_DIR": str(directory / "run"),
            "PYTHONPATH": str(EXAMPLE),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def base_config(scenario: str, **changes: Any) -> dict[str, Any]:
    """The base config of a scenario, as the example ships it."""
    names = {"SingleStream": "single_stream", "MultiStream": "multi_stream"}
    path = EXAMPLE / f"{names.get(scenario, scenario.lower())}-base.json"
    return {**json.loads(path.read_text()), **changes}
