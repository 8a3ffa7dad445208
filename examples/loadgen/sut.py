"""The system under test: what LoadGen sends queries to.

LoadGen is C++ and unforgiving: it waits for ever for an answer that does not come, and crashes
if a callback raises. So callbacks only put samples into a queue, a worker whose network fails
answers all the same (and the run is failed at its end), and a watchdog ends the process when
answers stop coming.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import NoReturn, Protocol

import mlperf_loadgen as loadgen
import numpy as np
from batching import BatchQueue, Waiting
from numpy.typing import NDArray

EXIT_STALLED = 4
EXIT_CALLBACK = 5


class Classifier(Protocol):
    """What a worker needs of a network."""

    def classify(self, worker: int, tokens: NDArray[np.int64]) -> NDArray[np.int32]:
        """The class of each sample."""
        ...


def die(code: int, sentence: str) -> NoReturn:
    """End this process now: LoadGen's threads cannot be stopped in any other way."""
    print(sentence, file=sys.stderr, flush=True)
    os._exit(code)


class System:
    """Worker threads that answer samples in batches."""

    def __init__(
        self,
        network: Classifier,
        tokens: NDArray[np.int64],
        queue: BatchQueue,
        workers: int,
        stall_seconds: float,
    ) -> None:
        self.first_error = ""
        self._network = network
        self._tokens = tokens
        self._queue = queue
        self._stall_seconds = stall_seconds
        self._issued = 0
        self._answered = [0] * workers
        self._threads = [
            threading.Thread(target=self._work, args=(worker,), daemon=True)
            for worker in range(workers)
        ]
        self._ended = threading.Event()
        self._watchdog = threading.Thread(target=self._watch, daemon=True)

    def start(self) -> None:
        """Start workers and the watchdog."""
        for thread in (*self._threads, self._watchdog):
            thread.start()

    def stop(self) -> None:
        """Let workers end."""
        self._ended.set()
        self._queue.close()
        for thread in (*self._threads, self._watchdog):
            thread.join(self._stall_seconds)

    def issue(self, samples: Sequence[loadgen.QuerySample]) -> None:
        """LoadGen's callback for a query."""
        try:
            self._issued += len(samples)
            self._queue.put([Waiting(sample.id, sample.index) for sample in samples])
        except BaseException as error:
            die(EXIT_CALLBACK, f"a query could not be taken: {error!r}")

    def flush(self) -> None:
        """LoadGen's callback: no query follows for now."""
        try:
            self._queue.flush()
        except BaseException as error:
            die(EXIT_CALLBACK, f"the queue could not be flushed: {error!r}")

    def _work(self, worker: int) -> None:
        while batch := self._queue.take():
            try:
                rows = np.fromiter((sample.row for sample in batch), np.int64, len(batch))
                answers = self._network.classify(worker, self._tokens[rows])
                if answers.shape != (len(batch),) or answers.dtype != np.int32:
                    raise ValueError(f"{len(batch)} samples were answered by {answers!r}")
                self._respond(batch, np.ascontiguousarray(answers))
            except Exception as error:
                self.first_error = self.first_error or repr(error)
                self._respond(batch, None)
            self._answered[worker] += len(batch)

    @staticmethod
    def _respond(batch: Sequence[Waiting], answers: NDArray[np.int32] | None) -> None:
        """Tell LoadGen. It copies answers while it is called, so they may go afterwards."""
        start = answers.ctypes.data if answers is not None else 0
        size = answers.itemsize if answers is not None else 0
        loadgen.QuerySamplesComplete(
            [
                loadgen.QuerySampleResponse(sample.id, start + size * place, size)
                for place, sample in enumerate(batch)
            ]
        )

    def _watch(self) -> None:
        """End the process when samples wait and none was answered for long."""
        last, since = -1, time.monotonic()
        while not self._ended.wait(min(0.5, self._stall_seconds / 4)):
            answered = sum(self._answered)
            if answered != last or answered >= self._issued:
                last, since = answered, time.monotonic()
            elif time.monotonic() - since > self._stall_seconds:
                die(
                    EXIT_STALLED,
                    f"no answer for {self._stall_seconds:g} s while "
                    f"{self._issued - answered} samples wait; LoadGen would wait for ever",
                )
