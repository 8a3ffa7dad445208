"""Whether the status of a tuning on a real machine is what its own numbers say.

Which one it is depends on the machine: `tests/tuning/test_tuning_outcomes.py` pins them on
made-up times.
"""

from collections.abc import Mapping
from typing import Any


def agrees(record: Mapping[str, Any]) -> bool:
    """Of a first tuning, in JSON: with nothing in the bank, nothing is kept."""
    time_ns, reason = record["time_ns"], record["reason"]
    return {
        "banked": bool(record["default_ns"] > 1.01 * time_ns),
        "reserved": reason.startswith("no gain over the default"),
        "vendor": reason.endswith(" is faster") and bool(record["vendor_ns"] < time_ns),
        "noisy": "disturbed" in reason,
    }.get(record["status"], False)
