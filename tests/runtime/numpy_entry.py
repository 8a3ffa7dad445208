"""An entry of a bank that needs no compiler."""

from skipjack.bank import BankEntry
from skipjack.native import cpu
from skipjack.operations import parse


def entry(key: str) -> BankEntry:
    """NumPy is what a bank recommends."""
    device = cpu.detect()
    return BankEntry(
        problem=parse(key).key,
        device=device.class_key,
        device_name=device.name,
        solver="numpy",
        solver_version=1,
        config={},
        time_ns=100.0,
        default_ns=200.0,
        vendor_ns=None,
        vendor="",
        speedup={"default": {"ratio": 2.0, "low": 1.9, "high": 2.1}},
    )
