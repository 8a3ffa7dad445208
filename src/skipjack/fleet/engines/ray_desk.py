"""A slot of a Ray cluster as the engine knows it: who sits there, and what is still to be done."""

from __future__ import annotations

import io
import time
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from skipjack.errors import SkipjackError
from skipjack.execute import wire
from skipjack.fleet.engine import Done, RunningLog, Slot
from skipjack.fleet.parcel import pack, unpack
from skipjack.fleet.task import Outcome, Task


@dataclass(slots=True)
class Order:
    """A task that a slot was given."""

    ticket: int
    task: Task


@dataclass(slots=True)
class Desk:
    """A slot, and what it still has to do. What was done and not yet said is among it."""

    slot: Slot
    life: int
    pid: int
    up: bool = True
    orders: deque[Order] = field(default_factory=deque)
    fell: float = 0.0
    """When, if it is not up."""
    careful: bool = False
    """One at a time: somebody among them may have ended the worker before."""
    said: RunningLog | None = None
    """What its worker said last about the task it is at, and nobody has taken yet."""

    def withdraw(self, jobs: Collection[int]) -> tuple[list[int], bool]:
        """Forget these jobs; their tickets, and whether the worker is at one of them."""
        orders = [order for order in self.orders if order.task.job in jobs]
        at_it = bool(orders) and self.orders[0] is orders[0]
        self.orders = deque(order for order in self.orders if order not in orders)
        return [order.ticket for order in orders], at_it

    def fall(self) -> None:
        """Its worker is gone, or about to be."""
        self.up, self.fell = False, time.monotonic()

    def lose_first(self, reason: str) -> Done:
        """The task at which its worker was is lost with it."""
        return self._lost(self.orders.popleft(), reason)

    def give_up(self, reason: str) -> list[Done]:
        """All that it had to do is lost."""
        lost = [self._lost(order, reason) for order in self.orders]
        self.orders.clear()
        return lost

    def answered(self, answers: bytes) -> list[Done]:
        """What its worker says it has done; what was cancelled meanwhile is left out."""
        parcel = wire.receive(io.BytesIO(answers).read)
        if parcel is None:
            return []
        if said := parcel.body.get("said"):
            self.said = RunningLog(**said)
        orders = {order.ticket: order for order in self.orders}
        reports = zip(parcel.body["tickets"], parcel.body["seconds"], unpack(parcel), strict=True)
        done = []
        for ticket, seconds, message in reports:
            order = orders.get(ticket)
            if order is None:
                continue
            self.orders.remove(order)
            done.append(self._done(order, message, seconds))
        return done

    def take_said(self) -> list[RunningLog]:
        """What its worker says about the task it is at, if that grew since the last time."""
        said, self.said = self.said, None
        return [said] if said else []

    def _done(self, order: Order, message: wire.Message, seconds: float) -> Done:
        try:
            outcome = Outcome.of(message)
        except SkipjackError as error:
            return self._lost(order, str(error))
        task = order.task
        return Done(self.slot.name, task.job, outcome, attempt=task.attempt, seconds=seconds)

    def _lost(self, order: Order, reason: str) -> Done:
        task = order.task
        return Done(self.slot.name, task.job, lost=reason, attempt=task.attempt)


def batch_of(orders: Sequence[Order]) -> bytes:
    """Tasks as a worker on a node takes them."""
    parcel = pack([order.task.message() for order in orders])
    return wire.encode(parcel.body, parcel.blobs)
