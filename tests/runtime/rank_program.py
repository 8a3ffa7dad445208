"""A rank of a program: asks for problems while all ranks tune them with noise, and prints what it
got. ``python rank_program.py FOLDER ROUNDS PROBLEM...``"""

import json
import os
import random
import sys
import time
from pathlib import Path

from rank_noise import noisy

import skipjack
from processes import PATIENCE_S
from skipjack.bank import Bank
from skipjack.runtime import bank_lookup
from skipjack.runtime.local_kernels import KernelCode, TunedKernel
from skipjack.runtime.online import SearchAnswer, SearchRequest, searches
from skipjack.runtime.online.client import PendingSearch
from skipjack.settings import load_settings

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


class NoisyTuner:
    """In the place of the process that tunes."""

    def search(self, request: SearchRequest) -> PendingSearch:
        time.sleep(random.random() / 50)
        Bank(Path(request.user_dir) / "bank.jsonl").put(noisy(request.problem))
        pending = PendingSearch(request)
        pending.finish(SearchAnswer("banked", searched=True))
        return pending


def meet(folder: Path, name: str) -> None:
    """Wait for all ranks."""
    (folder / f"{name}-{RANK}").touch()
    deadline = time.monotonic() + PATIENCE_S
    while len(list(folder.glob(f"{name}-*"))) < RANKS:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def main() -> None:
    folder, rounds, problems = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    random.seed(RANK)
    digests: dict[int, str] = {}
    made = TunedKernel.__init__

    def remember(self: TunedKernel, problem: object, code: KernelCode, *more: object) -> None:
        digests[id(self)] = code.digest
        made(self, problem, code, *more)  # type: ignore[arg-type]

    TunedKernel.__init__ = remember  # type: ignore[method-assign, assignment]
    searches.tuning_process = NoisyTuner  # type: ignore[assignment]
    bank_lookup._INTERVAL_S = 0.0
    bank = Bank(load_settings().user_dir / "bank.jsonl")
    kept, seen = [], []
    for number in range(rounds):
        meet(folder, f"round-{number}")
        skipjack.reload()
        for problem in random.sample(problems * 2, 2 * len(problems)):
            with skipjack.tuning_policy("incremental", seconds=PATIENCE_S):
                kernel = skipjack.lookup(problem)
            assert kernel is not None
            kept.append(kernel)  # an id is given again otherwise
            what = [kernel.source, kernel.solver, digests.get(id(kernel), "")]
            seen.append([number, problem, what])
            bank.put(noisy(random.choice(problems)))
    meet(folder, "end")
    print(json.dumps(sorted(seen)))


if __name__ == "__main__":
    main()
