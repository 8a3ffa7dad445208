"""Which key a bundle is opened with: one that is there. A new one would fit no bundle at all."""

from __future__ import annotations

from pathlib import Path

from skipjack.errors import UsageError
from skipjack.fleet.seal import FILE_NAME, VARIABLE, fleet_key, read_key
from skipjack.settings import FLEET_KEY, Settings, expanded


def existing_key(settings: Settings, file: Path | None = None) -> bytes:
    """The key in `file`, or else the fleet's key on this machine, which is never made here."""
    if file is not None:
        return read_key(expanded(file))
    place = settings.user_dir / FILE_NAME
    if not FLEET_KEY.text() and not place.exists():
        raise UsageError(
            f"this machine has no fleet key, so that no bundle can be checked: copy {FILE_NAME} "
            "from the user directory of the machine that exports (or the file that "
            f"{VARIABLE} names there) to {place}, or name a copy with --key or {VARIABLE}"
        )
    return fleet_key(settings)
