"""Rates by name, as commands and other processes give them.

=====================  =========================================================================
text                   rates
=====================  =========================================================================
``live``               measured now on this machine, and kept on disk (`LiveRates`)
``model``              estimated by the model that comes with Skipjack (`ModelRates`)
``mixed:0.1``          estimated, but a tenth of the schedules measured now (`MixedRates`)
``tables``             a file or folder of tables, replayed; missing times are estimated
``exactly:tables``     the same without estimates: missing schedules have no time
=====================  =========================================================================
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from skipjack.core import Device, Problem
from skipjack.devices import find_device
from skipjack.errors import UsageError
from skipjack.learn.costs import shipped_model
from skipjack.learn.rates.live import LiveRates
from skipjack.learn.rates.rates import MixedRates, ModelRates, Rates, TableRates
from skipjack.learn.rates.table import LoopTable, join_tables, table_files

LIVE, MODEL, MIXED, EXACTLY = "live", "model", "mixed:", "exactly:"


def open_rates(text: str, device: Device) -> Rates:
    """The rates of this name for a device; `UsageError` if the name is invalid."""
    if text == LIVE:
        return LiveRates(device)
    if text == MODEL:
        return ModelRates(shipped_model(), device)
    if text.startswith(MIXED):
        share = text.removeprefix(MIXED)
        try:
            part = float(share)
        except ValueError:
            raise UsageError(
                f"rates {text!r}: {share!r} is not a number; write a share, as in mixed:0.1"
            ) from None
        return MixedRates(ModelRates(shipped_model(), device), LiveRates(device), part)
    exactly = text.startswith(EXACTLY)
    table = table_of(_place(text), device)
    return TableRates(table, None if exactly else shipped_model())


def check_rated(text: str, device: Device, problems: Iterable[Problem]) -> None:
    """Raise `UsageError` if rates without estimates lack the times of a problem."""
    if not text.startswith(EXACTLY):
        return
    table = table_of(_place(text), device)
    missing = [problem.key for problem in problems if table.best_ns(problem) is None]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise UsageError(
            f"rates {text!r} have no times of {missing[0]}{more}; measure them with skipjack loops "
            f"measure, or leave out {EXACTLY!r} to estimate them"
        )


def rated_device(
    rates: Rates | str, device: Device | str | None = None, threads: int | None = None
) -> Device:
    """The named device, or this machine's, or that of the tables if they are of another one."""
    if isinstance(device, Device):
        return device
    here = find_device(device, threads)
    path = _place(rates) if isinstance(rates, str) else None
    if device is not None or path is None or not path.exists():
        return here
    measured = [table.header.device for table in read_tables(path)]
    if here.class_key in {each.class_key for each in measured}:
        return here
    return next((each for each in measured if each.units == here.units), measured[0])


def _place(text: str) -> Path:
    """The path of the tables in a name of rates."""
    if not text.removeprefix(EXACTLY):
        raise UsageError(f"rates {text!r} have no path; give a file or folder of tables")
    return Path(text.removeprefix(EXACTLY))


def table_of(path: Path, device: Device) -> LoopTable:
    """The table of a device in a file or folder."""
    tables = read_tables(path)
    for table in tables:
        if table.header.device.class_key == device.class_key:
            return table
    have = ", ".join(sorted({_described(table.header.device) for table in tables}))
    raise UsageError(f"{path} has no table of {_described(device)}; it has tables of {have}")


def read_tables(path: Path) -> list[LoopTable]:
    """All tables of a file or folder, one for each device and compiler."""
    if not path.exists():
        raise UsageError(
            f"unknown rates {str(path)!r}; give live, model, mixed:SHARE, or a file or folder of "
            "tables"
        )
    files = table_files([path])
    if not files:
        raise UsageError(f"{path} contains no tables; measure them with skipjack loops measure")
    return join_tables(files)


def _described(device: Device) -> str:
    return f"{device.name} ({8 * device.vector_bytes}-bit)"
