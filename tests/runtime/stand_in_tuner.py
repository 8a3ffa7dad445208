"""Stands in for the process that tunes: answers at once, or does what the problem's name says."""

import os
import sys
import time

from skipjack.execute import set_up_worker, wire


def main() -> None:
    requests, answers = set_up_worker(int(sys.argv[2]))
    wire.send(answers, {"ready": True})
    served = 0
    while (message := wire.receive(requests.read)) is not None:
        if message.body["verb"] == "stop":
            continue
        request = message.body["request"]
        served += 1
        if request["problem"] == "dies":
            os._exit(3)
        if request["problem"] == "hangs":
            time.sleep(600)
        if request["problem"] == "stopped":
            stop = wire.receive(requests.read)
            assert stop is not None and stop.body["verb"] == "stop"
        answer = {"id": request["id"], "status": "banked", "reason": f"{os.getpid()} {served}"}
        wire.send(answers, {**answer, "searched": True})


if __name__ == "__main__":
    main()
