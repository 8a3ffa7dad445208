"""A program that asks for problems until all of them are tuned, and prints what it got.

``python asking_program.py TUNER SECONDS PROBLEM...``
"""

import json
import sys
import time

import skipjack
from processes import PATIENCE_S
from skipjack.runtime.online import client


def main() -> None:
    client.MODULE, seconds, problems = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
    deadline = time.monotonic() + PATIENCE_S
    first = {}
    with skipjack.tuning_policy("incremental", seconds=seconds):
        for problem in problems:
            while True:
                kernel = skipjack.lookup(problem)
                assert kernel is not None
                if kernel.source == "user":
                    break
                assert time.monotonic() < deadline, problem
                time.sleep(0.1)
            first[problem] = [kernel.solver, repr(kernel)]
    print(json.dumps(first, sort_keys=True))


if __name__ == "__main__":
    main()
