"""Whether answers that LoadGen logged in an accuracy run are those of the original network.

``harness.py --mode AccuracyOnly`` sends every sample once and logs the answers; this compares
them with what the network says as it was drawn, in fp32 and without any optimisation. ::

    python examples/loadgen/accuracy.py RUN_DIR --min-agreement 0.95

The exit code is 1 if fewer samples agree, or if samples were not answered.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import onnx
from model import make_model
from network import Classes, open_session, scores_of
from samples import COUNT, make_samples

ACCURACY_LOG = "mlperf_log_accuracy.json"


def expected_classes(seed: int, count: int) -> Classes:
    """What the original network says of the first samples."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "original.onnx"
        onnx.save(make_model(seed), path)
        scores = scores_of(open_session(path), make_samples(count))
    return np.asarray(scores.argmax(axis=1), np.int32)


def logged_classes(path: Path) -> dict[int, int]:
    """The answer to each sample of LoadGen's log, which has the bytes in hexadecimal."""
    return {
        int(entry["qsl_idx"]): int(np.frombuffer(bytes.fromhex(entry["data"]), np.int32)[0])
        for entry in json.loads(path.read_text())
    }


def agreement(answers: dict[int, int], expected: Classes) -> float:
    """The share of samples that was answered as expected; a missing answer is a wrong one."""
    found = np.array([answers.get(row, -1) for row in range(len(expected))], np.int32)
    return float((found == expected).mean())


def main() -> None:
    """Compare, print, and fail if too few agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run_dir", type=Path, help="where the accuracy run logged to")
    parser.add_argument("--seed", type=int, default=0, help="of the network's weights")
    parser.add_argument("--samples", type=int, default=COUNT, help="compare the first so many")
    parser.add_argument("--min-agreement", type=float, default=0.95)
    arguments = parser.parse_args()
    log = arguments.run_dir / ACCURACY_LOG
    if not log.is_file():
        raise SystemExit(f"there is no {log}; run harness.py --mode AccuracyOnly first")
    found = agreement(logged_classes(log), expected_classes(arguments.seed, arguments.samples))
    print(f"{found:.2%} of the samples have the class of the original network")
    if found < arguments.min_agreement:
        raise SystemExit(f"that is below {arguments.min_agreement:.2%}: the network is wrong")


if __name__ == "__main__":
    main()
