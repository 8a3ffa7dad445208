"""The run step of the benchmark: one LoadGen test of the network that was built, in one process.

Reads the config from the JSON file that ``$SKIPJACK_CONFIG`` names, the network from
``$SKIPJACK_BUILD_DIR``, and logs to ``$SKIPJACK_RUN_DIR``. LoadGen's settings are fields of the
config; a file that ``$SKIPJACK_USER_CONF`` names is read before them. With ``--user-conf FILE``
they come from that file alone, as in a submission.

The exit code is 0 when the test came to its end, VALID or not; LoadGen's logs say which.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlperf_loadgen as loadgen
from batching import BatchQueue
from loadgen_settings import MODES, log_settings_of, settings_of
from network import MODEL, Network
from samples import Tokens, make_samples
from sut import Classifier, System

EXIT_ERRORS = 3
SUMMARY = "mlperf_log_summary.txt"


def run(
    network: Classifier,
    tokens: Tokens,
    config: Mapping[str, Any],
    settings: loadgen.TestSettings,
    directory: Path,
) -> str:
    """Run one test. What went wrong in the network, or nothing."""
    workers = int(config.get("workers", 1))
    queue = BatchQueue(int(config["batch_size"]), float(config.get("queue_delay_us", 0)))
    system = System(network, tokens, queue, workers, float(config.get("stall_seconds", 20)))
    logs = log_settings_of(directory)
    sut = loadgen.ConstructSUT(system.issue, system.flush)
    qsl = loadgen.ConstructQSL(len(tokens), len(tokens), _nothing, _nothing)
    system.start()
    # A pause of the garbage collector is a late query.
    gc.collect()
    gc.freeze()
    gc.disable()
    loadgen.StartTestWithLogSettings(sut, qsl, settings, logs, "")
    system.stop()
    loadgen.DestroyQSL(qsl)
    loadgen.DestroySUT(sut)
    return system.first_error


def _nothing(_samples: Sequence[int]) -> None:
    """The data set is in memory already."""


def verdict_of(directory: Path) -> str:
    """The line of LoadGen's summary that tells whether the result counts."""
    summary = directory / SUMMARY
    lines = summary.read_text().splitlines() if summary.exists() else []
    said = [line.strip() for line in lines if line.startswith("Result is")]
    return said[0] if said else "LoadGen gives no verdict: this was no performance run"


def main() -> None:
    """Run the test that the environment asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--user-conf", type=Path, help="take LoadGen's settings from this alone")
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    arguments = parser.parse_args()
    try:
        config = json.loads(Path(os.environ["SKIPJACK_CONFIG"]).read_text())
        model = Path(os.environ["SKIPJACK_BUILD_DIR"]) / MODEL
        directory = Path(os.environ["SKIPJACK_RUN_DIR"])
    except KeyError as missing:
        raise SystemExit(f"{missing.args[0]} is not set; see docs/loadgen.md") from None
    if not model.is_file():
        raise SystemExit(f"there is no {model}; run build.py with the same environment first")
    named = arguments.user_conf or os.environ.get("SKIPJACK_USER_CONF")
    settings = settings_of(
        config,
        Path(named) if named else None,
        user_conf_only=arguments.user_conf is not None,
        mode=arguments.mode,
    )
    workers, threads = int(config.get("workers", 1)), int(config.get("threads", 1))
    tokens = make_samples()
    network = Network(model, workers, threads, bool(config.get("spin", False)))
    network.warm_up(tokens, int(config["batch_size"]))
    error = run(network, tokens, config, settings, directory)
    print(verdict_of(directory), flush=True)
    if error:
        print(f"the network failed while it was measured: {error}", file=sys.stderr)
        raise SystemExit(EXIT_ERRORS)


if __name__ == "__main__":
    main()
