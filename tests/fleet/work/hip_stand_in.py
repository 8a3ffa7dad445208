"""A plugin: this machine has two GPUs of AMD's, as far as finding them goes."""

from __future__ import annotations

from dataclasses import replace

from skipjack.core import Device
from skipjack.gpu import register_driver
from skipjack.testing.fake_gpu import FakeDriver

DEVICE = Device("hip", "gfx908", 120, "a fake MI100", serial="fake-a")


class HipStandIn(FakeDriver):
    """Lists them; nothing is run on them but what programs of their own pretend to run."""

    name = "hip"

    def __init__(self) -> None:
        super().__init__([DEVICE, replace(DEVICE, serial="fake-b")])


register_driver(HipStandIn())
