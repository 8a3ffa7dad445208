"""Which machines are meant: all that are in use, those with a device, or some by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from skipjack.errors import UsageError
from skipjack.fleet.machines.registration import Registration

if TYPE_CHECKING:
    from skipjack.fleet.store import Registrations


def select_machines(
    registrations: Registrations,
    names: Sequence[str] = (),
    device: str | None = None,
    *,
    disabled_too: bool = False,
) -> list[Registration]:
    """Machines by these names, or all; of those the ones with the device. Never none: `UsageError`.

    Who is disabled is left out, and refused if somebody names it, unless `disabled_too`.
    """
    everyone = [registrations.get(name) for name in dict.fromkeys(names)]
    if not names:
        everyone = registrations.all()
        if not everyone:
            raise UsageError("no machine is registered yet; skipjack machine add registers one")
    chosen = [one for one in everyone if device is None or one.device == device]
    if not chosen:
        raise UsageError(f"no machine has {device}; skipjack machine list shows what each has")
    if disabled_too:
        return chosen
    disabled = [one.name for one in chosen if not one.enabled]
    if disabled and (names or len(disabled) == len(chosen)):
        listed = " ".join(disabled)
        verb = "is" if len(disabled) == 1 else "are"
        raise UsageError(
            f"{', '.join(disabled)} {verb} disabled; skipjack machine enable {listed} first"
        )
    return [one for one in chosen if one.enabled]
