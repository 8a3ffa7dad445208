"""Sweep files in JSON, Python and TOML; each mistake in one is reported in one sentence."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.sweep.files.reader import parse_json_object, read_sweep_file, read_text
    from skipjack.sweep.files.sweep_file import ALL, Scalar, SweepFile, Synthetic

__all__ = [
    "ALL",
    "Scalar",
    "SweepFile",
    "Synthetic",
    "parse_json_object",
    "read_sweep_file",
    "read_text",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "reader": "parse_json_object read_sweep_file read_text",
        "sweep_file": "ALL Scalar SweepFile Synthetic",
    },
)
