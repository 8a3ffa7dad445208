"""The fleet: problems become jobs, which are built anywhere and measured on their device."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.host import detect_host
    from skipjack.fleet.signature import existing_key
    from skipjack.settings import machine_name

__all__ = [
    "detect_host",
    "existing_key",
    "machine_name",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.settings": "machine_name",
        "host": "detect_host",
        "signature": "existing_key",
    },
)
