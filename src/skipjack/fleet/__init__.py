"""The fleet: problems become jobs, which are built anywhere and measured on their device."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.host import detect_host, machine_name
    from skipjack.fleet.signature import existing_key

__all__ = [
    "detect_host",
    "existing_key",
    "machine_name",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "host": "detect_host machine_name",
        "signature": "existing_key",
    },
)
