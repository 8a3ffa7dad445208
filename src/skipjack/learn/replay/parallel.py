"""Many replays, one after the other or in several processes; the results are the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from skipjack.errors import SkipjackError
from skipjack.execute import ForkedWorker, wire
from skipjack.execute.pool import PoolLimits, TaskDone, WorkerPool
from skipjack.learn.replay.run import ReplayRun

_LOOK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class ReplayTask:
    """One replay: a recording by its place, a searcher and a seed."""

    recording: int
    searcher: str
    seed: int


Replay = Callable[[ReplayTask], ReplayRun]


def run_replays(
    tasks: Sequence[ReplayTask],
    replay: Replay,
    jobs: int = 1,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[ReplayTask, ReplayRun]]:
    """Make all replays, in any order; none is begun anymore once `stopped`.

    Processes are forked from this one, so that recordings are in their memory already.
    """
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            if stopped():
                return
            yield task, replay(task)
        return
    pool: WorkerPool[ReplayTask, ReplayRun | str] = WorkerPool(
        [f"replay-{number}" for number in range(1, min(jobs, len(tasks)) + 1)],
        lambda slot: ForkedWorker("replay", lambda *pipes: _serve(replay, *pipes)),
        _Replays(),
        PoolLimits(second_chance=True, on_demand=True),
    )
    with pool:
        pool.submit(tasks)
        while pool.pending:
            if stopped():
                pool.withdraw()
            for done in pool.poll(_LOOK_EVERY_S):
                if not isinstance(done, TaskDone):
                    raise SkipjackError(
                        f"a process that replayed {done.task.searcher} {done.how}; "
                        "fewer --jobs need less memory"
                    )
                if isinstance(done.answer, str):
                    raise SkipjackError(done.answer)
                yield done.task, done.answer


class _Replays:
    """Requests and answers of the processes."""

    def requests(self, tasks: Sequence[ReplayTask]) -> Iterable[wire.Message]:
        return [wire.Message({"replay": [one.recording, one.searcher, one.seed]}) for one in tasks]

    def answers(self, slot: str, message: wire.Message) -> Iterable[tuple[wire.Message, float]]:
        return [(message, message.body["seconds"])] if "seconds" in message.body else []

    def result(self, task: ReplayTask, answer: wire.Message) -> ReplayRun | str:
        """The run, or what the searcher raised as a sentence."""
        if "refused" in answer.body:
            return str(answer.body["refused"])
        curve, asked = answer.body["curve"], answer.body["asked"]
        return ReplayRun(task.searcher, task.seed, tuple(curve), tuple(asked))


def _serve(replay: Replay, requests: BinaryIO, answers: BinaryIO) -> None:
    """In the child: replay what is requested until the parent closes the pipe."""
    wire.send(answers, {"ready": True})
    while (message := wire.receive(requests.read)) is not None:
        recording, searcher, seed = message.body["replay"]
        begun = time.monotonic()
        body: dict[str, object] = {}
        try:
            run = replay(ReplayTask(recording, searcher, seed))
            body |= {"curve": run.curve, "asked": run.asked}
        except SkipjackError as error:
            body["refused"] = str(error)
        wire.send(answers, {**body, "seconds": time.monotonic() - begun})
