"""The built network, loaded: one ONNX Runtime session per worker."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from samples import Tokens

MODEL = "model.onnx"
"""The file that the build writes."""

Classes = NDArray[np.int32]
Scores = NDArray[np.float32]


def open_session(
    path: Path,
    threads: int = 1,
    level: str = "disable_all",
    spin: bool = False,
    save_to: Path | None = None,
) -> onnxruntime.InferenceSession:
    """A session on the CPU. A built network is not optimised again: what was built is what runs."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "1" if spin else "0")
    options.graph_optimization_level = getattr(
        onnxruntime.GraphOptimizationLevel, f"ORT_{level.upper()}"
    )
    if save_to is not None:
        options.optimized_model_filepath = str(save_to)
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def scores_of(session: onnxruntime.InferenceSession, tokens: Tokens) -> Scores:
    """What the network says of some samples."""
    scores: Scores = session.run(["scores"], {"tokens": tokens})[0]
    return scores


class Network:
    """Answers batches of samples; every worker has a session of its own."""

    def __init__(self, path: Path, workers: int, threads: int, spin: bool) -> None:
        self._sessions = [open_session(path, threads, spin=spin) for _ in range(workers)]

    def classify(self, worker: int, tokens: Tokens) -> Classes:
        """The class of each sample."""
        scores = scores_of(self._sessions[worker], tokens)
        return np.asarray(scores.argmax(axis=1), np.int32)

    def warm_up(self, tokens: Tokens, batch_size: int) -> None:
        """Touch all memory that batches up to this size need, before anything is measured."""
        for worker in range(len(self._sessions)):
            for size in (1, batch_size, batch_size):
                self.classify(worker, tokens[:size])
