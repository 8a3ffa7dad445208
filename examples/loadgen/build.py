"""The build step of the benchmark: optimise the network's graph, in the precision asked for.

Reads the config from the JSON file that ``$SKIPJACK_CONFIG`` names and writes ``model.onnx`` and
``manifest.json`` into ``$SKIPJACK_BUILD_DIR``. Of the config it uses ``seed``, ``precision``
(``fp32`` or ``int8``), ``graph_level`` (``disable_all``, ``enable_basic``, ``enable_extended`` or
``enable_all``) and ``min_agreement``.

What it built is compared with the network as it was drawn: if they name the same class for fewer
than ``min_agreement`` of the samples, the build fails.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from model import make_model
from network import MODEL, open_session, scores_of
from onnxruntime.quantization import QuantType, quantize_dynamic
from samples import make_samples

MANIFEST = "manifest.json"
PRECISIONS = ("fp32", "int8")
LEVELS = ("disable_all", "enable_basic", "enable_extended", "enable_all")
CHECKED = 256
"""Samples on which the built network is compared with the original."""


@dataclass(frozen=True)
class Agreement:
    """How far a built network does what the original does."""

    top1: float
    """The share of samples for which both name the same class."""
    cosine: float
    """The smallest cosine between the scores of both."""


def compare(original: Path, built: Path) -> Agreement:
    """Both networks on the first samples of the data set."""
    tokens = make_samples(CHECKED)
    expected = scores_of(open_session(original), tokens).astype(np.float64)
    found = scores_of(open_session(built), tokens).astype(np.float64)
    lengths = np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
    cosines = (expected * found).sum(axis=1) / lengths
    same = expected.argmax(axis=1) == found.argmax(axis=1)
    return Agreement(round(float(same.mean()), 4), round(float(cosines.min()), 6))


def build(config: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Build the network of a config; the manifest that was written."""
    started = time.perf_counter()
    precision, level = config["precision"], config["graph_level"]
    if precision not in PRECISIONS:
        raise SystemExit(f"precision {precision!r} is none of {', '.join(PRECISIONS)}")
    if level not in LEVELS:
        raise SystemExit(f"graph_level {level!r} is none of {', '.join(LEVELS)}")
    directory.mkdir(parents=True, exist_ok=True)
    built = directory / MODEL
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        original = source = Path(scratch) / "original.onnx"
        onnx.save(make_model(int(config.get("seed", 0))), original)
        if precision == "int8":
            source = Path(scratch) / "int8.onnx"
            quantize_dynamic(original, source, weight_type=QuantType.QInt8, per_channel=True)
        open_session(source, level=level, save_to=built)
        agreement = compare(original, built)
    least = float(config.get("min_agreement", 0.0))
    if agreement.top1 < least:
        built.unlink()
        raise SystemExit(
            f"the {precision} network names the class of the original for {agreement.top1:.1%} "
            f"of the samples, but min_agreement is {least:.1%}"
        )
    manifest = {
        "format": 1,
        "precision": precision,
        "graph_level": level,
        "seed": int(config.get("seed", 0)),
        "agreement": asdict(agreement),
        "sha256": hashlib.sha256(built.read_bytes()).hexdigest(),
        "bytes": built.stat().st_size,
        "onnxruntime": onnxruntime.__version__,
        "seconds": round(time.perf_counter() - started, 3),
    }
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest


def main() -> None:
    """Build what the environment asks for."""
    # The quantiser advises a preparation that this network does not need.
    logging.getLogger().setLevel(logging.ERROR)
    try:
        config = json.loads(Path(os.environ["SKIPJACK_CONFIG"]).read_text())
        directory = Path(os.environ["SKIPJACK_BUILD_DIR"])
    except KeyError as missing:
        raise SystemExit(f"{missing.args[0]} is not set; see docs/loadgen.md") from None
    json.dump(build(config, directory), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
