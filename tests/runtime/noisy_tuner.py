"""The process that tunes, with an engine that takes a moment and finds what noise says.

Who searches when is decided by the real server. Each search is a line of ``searched`` in the user
directory.
"""

import random
import sys
import threading
import time
from typing import Any

from rank_noise import noisy

from skipjack.bank import Bank
from skipjack.execute import set_up_worker
from skipjack.runtime.online import SearchAnswer, SearchRequest
from skipjack.settings import Settings
from skipjack.tuning.online.server import TuningServer


class NoisyServer(TuningServer):
    def _run(self, request: SearchRequest, settings: Settings, *_: Any) -> SearchAnswer:
        with (settings.user_dir / "searched").open("a") as searched:
            searched.write(f"{request.problem}\n")
        time.sleep(random.random() / 100)
        Bank.open(settings.user_dir).put(noisy(request.problem))
        return SearchAnswer("banked", searched=True)


def main() -> None:
    requests, answers = set_up_worker(int(sys.argv[2]))
    server = NoisyServer(answers)
    threading.Thread(target=server.read, args=(requests,), daemon=True).start()
    server.serve()


if __name__ == "__main__":
    main()
