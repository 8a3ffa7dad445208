"""The program of a tuning server: ``python -m skipjack.tuning.online.server tune PARENT``.

It runs one search after another on the engine of `skipjack tune`. Workers stay warm between
searches; the device is held only while a search runs.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from skipjack import plugins
from skipjack.core import (
    Budget,
    Device,
    Peaks,
    Problem,
    TimingProtocol,
    deployed_protocol,
    protocol_for,
)
from skipjack.errors import CorruptFileError, LockTimeoutError, SkipjackError, StorageError
from skipjack.execute import set_up_worker, wire
from skipjack.interrupt import Interrupt
from skipjack.operations import parse
from skipjack.runtime import select_device
from skipjack.runtime.online import (
    FAILED,
    FIND,
    LATE,
    PROPOSE,
    RegretAccount,
    SearchAnswer,
    SearchRequest,
    TurnTimeoutError,
    one_at_a_time,
)
from skipjack.settings import Settings, load_settings
from skipjack.solvers import vendors_for
from skipjack.tuning.find_run import run_find
from skipjack.tuning.online.searches import (
    RegretGate,
    SearchRecord,
    SearchRecords,
    SearchRounds,
    winning_searcher,
)
from skipjack.tuning.study import DeviceContext, Limits, TuneOptions, unimported
from skipjack.tuning.tuner import run_tune

log = logging.getLogger(__name__)

_SEARCH_SHARE = 0.8
"""The share of the time until a deadline that is a study's budget, after which it finishes."""
_FINISH_SHARE = 0.08
"""The share of the time before a deadline in which a search that still runs is interrupted."""
_LEAST_SHARE = 0.5
"""The share of its seconds that must be left when a search begins. With less its result would be
poor, and would stay in the bank: it then gets all its seconds, while the program continues."""
_ALIVE_S = 5.0


class DeadlineError(SkipjackError):
    """The time ran out before anything was decided."""


class OnlineContext(DeviceContext):
    """A context that starts within a second: it does not measure peaks, which only reports need."""

    def warm_up(self) -> None:
        """Wait until the workers have started."""
        self.pool.warm_up()

    def peaks(self) -> Peaks:
        """The known peaks, or empty ones."""
        return self.known_peaks() or Peaks((), ())


class TuningServer:
    """Serves one request after another in the main thread; another thread reads requests."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._sending = threading.Lock()
        self._requests: queue.SimpleQueue[SearchRequest] = queue.SimpleQueue()
        self._interrupts: dict[int, Interrupt] = {}
        """The interrupts of requests that were read and not answered, by the requests' ids."""
        self._beside: Interrupt | None = None
        """The interrupt of a running search whose result no program waits for."""
        self._context: OnlineContext | None = None
        self._opened_for: tuple[object, ...] = ()

    def read(self, requests: BinaryIO) -> None:
        """Read requests until the program closes the pipe."""
        while (message := wire.receive(requests.read)) is not None:
            body = message.body
            if body["verb"] == "stop":
                if interrupt := self._interrupts.get(body["id"]):
                    interrupt.requested = True
                continue
            request = SearchRequest.of(body["request"])
            self._interrupts[request.id] = Interrupt()
            self._requests.put(request)
            beside = self._beside
            if beside is not None:  # the program waits for this request
                beside.requested = True

    def serve(self) -> None:
        """Answer requests forever."""
        self.send({"ready": True})
        while True:
            request = self._requests.get()
            with self._signs_of_life():
                answer = self._answer(request)
            del self._interrupts[request.id]
            self.send({"id": request.id, **answer.body()})

    def send(self, body: dict[str, Any]) -> None:
        """Write to the program, from any thread."""
        with self._sending:
            wire.send(self._answers, body)

    @contextlib.contextmanager
    def _signs_of_life(self) -> Iterator[None]:
        done = threading.Event()

        def tell() -> None:
            while not done.wait(_ALIVE_S):
                self.send({"alive": True})

        threading.Thread(target=tell, daemon=True).start()
        try:
            yield
        finally:
            done.set()

    def _answer(self, request: SearchRequest) -> SearchAnswer:
        try:
            try:
                return self._search(request)
            except CorruptFileError as error:
                log.warning("%s", error)  # the file was quarantined; the second time it is new
                self._close()
                return self._search(request)
        except (DeadlineError, TurnTimeoutError) as error:
            return SearchAnswer(LATE, str(error))
        except SkipjackError as error:
            self._close()
            return SearchAnswer(FAILED, str(error))
        except Exception as error:  # a plug-in may raise anything
            self._close()
            return SearchAnswer(FAILED, f"{type(error).__name__}: {error}")

    def _search(self, request: SearchRequest) -> SearchAnswer:
        settings = _settings(request)
        plugins.load(settings.plugins)
        asked = parse(request.problem)
        device = select_device([asked], request.device)
        protocol = protocol_for(device)
        if request.protocol is not None:
            protocol = deployed_protocol(device, *request.protocol.split("/"))
        where = f"{device.class_key}|{protocol.deployed}"
        turn = f"{request.user_dir}|{asked.key}|{where}"
        records = SearchRecords(settings.user_dir)
        with one_at_a_time(turn, _left_s(request)):
            last = records.last(asked.key, where)
            if last is not None and last.answers(request):
                return SearchAnswer(last.status, last.reason, searcher=last.searcher)
            answer = self._run(request, settings, asked, device, protocol)
            ended = time.time(), answer.status, answer.reason, request.verb, request.seconds
            with contextlib.suppress(StorageError, OSError):  # others search again then
                records.put(SearchRecord(asked.key, where, *ended, answer.searcher))
        return answer

    def _run(
        self,
        request: SearchRequest,
        settings: Settings,
        asked: Problem,
        device: Device,
        protocol: TimingProtocol,
    ) -> SearchAnswer:
        interrupt = self._interrupts[request.id]
        context = self._context_of(settings, device, protocol)

        @contextlib.contextmanager
        def hold() -> Iterator[None]:
            with contextlib.ExitStack() as held:
                try:
                    held.enter_context(context.hold_device(_left_s(request)))
                except LockTimeoutError as error:
                    raise DeadlineError(str(error)) from error
                yield

        gate = None
        if request.account is not None:
            account = RegretAccount(Path(request.account))
            gate = RegretGate(account, request.regret, interrupt, hold)
        with gate or hold():
            if not context.opened:
                context.__enter__()
                context.warm_up()
            for package in unimported(context, vendors_for(asked, device)):
                context.session.import_package(package)
            context.clock = gate.clock if gate else time.monotonic
            limits = Limits.of(settings)
            with self._time(request, interrupt) as seconds:
                budget = Budget(1 if request.verb == PROPOSE else None, seconds)
                rounds = SearchRounds(gate.observe if gate else None)
                options = TuneOptions(
                    budget=budget,
                    searcher=request.searcher,
                    retune=request.retune,
                    limits=limits,
                    observer=rounds.observe,
                )
                if request.verb in (FIND, PROPOSE):
                    found = run_find(context, asked, options, (), interrupt)
                    status, reason, searcher = str(found.status), found.reason, ""
                else:
                    result = run_tune(context, asked, options, interrupt)
                    status, reason = str(result.status), result.reason
                    searcher = winning_searcher(result)
            if status == FAILED and interrupt.requested:
                raise DeadlineError(f"the time ran out before anything was decided: {reason}")
            return SearchAnswer(status, reason, True, searcher, rounds.history())

    @contextlib.contextmanager
    def _time(self, request: SearchRequest, interrupt: Interrupt) -> Iterator[float]:
        """The seconds of the search, now that all is started; then it is interrupted.

        If starting took most of them, the program will not wait for the result: then the search
        gets all its seconds, or runs until the program waits for another request.
        """
        if request.deadline is None:
            yield request.seconds
            return
        left = min(request.seconds, request.deadline - time.monotonic())
        if left < _LEAST_SHARE * request.seconds:
            left, self._beside = request.seconds, interrupt
            if not self._requests.empty():
                interrupt.requested = True

        def ring() -> None:
            interrupt.requested = True

        timer = threading.Timer((1.0 - _FINISH_SHARE) * left, ring)
        timer.daemon = True
        timer.start()
        try:
            yield _SEARCH_SHARE * left
        finally:
            timer.cancel()
            self._beside = None

    def _context_of(
        self, settings: Settings, device: Device, protocol: TimingProtocol
    ) -> OnlineContext:
        """The present context with its warm workers, or a new one for another device."""
        wanted = settings, device, protocol
        if self._context is None or self._opened_for != wanted:
            self._close()
            self._context = OnlineContext(settings, device, protocol, holds_device=False)
            self._opened_for = wanted
        return self._context

    def _close(self) -> None:
        if self._context is not None:
            context, self._context = self._context, None
            with contextlib.suppress(SkipjackError, OSError):
                context.close()


def _settings(request: SearchRequest) -> Settings:
    settings = load_settings(user_dir=request.user_dir, plugins=request.plugins or None)
    return replace(settings, build_workers=request.build_workers, core=request.core)


def _left_s(request: SearchRequest) -> float | None:
    if request.deadline is None:
        return None
    return max(0.001, request.deadline - time.monotonic())


def main() -> None:
    """Serve the program that started this process."""
    requests, answers = set_up_worker(int(sys.argv[2]))
    server = TuningServer(answers)

    def read() -> None:
        server.read(requests)
        os._exit(0)  # the program has ended

    threading.Thread(target=read, daemon=True).start()
    server.serve()


if __name__ == "__main__":
    main()
