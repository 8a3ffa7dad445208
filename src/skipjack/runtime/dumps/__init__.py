"""Dumps: the problems of a program, each in a folder of its own, to be tuned later and elsewhere.

::

    tune_dump/
        matmul-64x32x48-f32.0c1f6a2b93de/
            problem.json            the key, how often it was called, what a call took, the device
            default.o               what Skipjack runs without tuning; of a GPU its binaries
        passed_through.json         calls for which Skipjack has no operation

Any number of processes write into one dump: counts add up, and every file is whole at any moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.dumps.dump import Dump, PassedCalls, read_passed
    from skipjack.runtime.dumps.problem import (
        DefaultKernel,
        DumpContents,
        DumpedProblem,
        folder_name,
        read_dump,
        read_dumped,
    )
    from skipjack.runtime.dumps.switch import DEFAULT_FOLDER, dump_folder
    from skipjack.runtime.dumps.worth import ValuedProblem, is_tuned, most_valuable_first

__all__ = [
    "DEFAULT_FOLDER",
    "DefaultKernel",
    "Dump",
    "DumpContents",
    "DumpedProblem",
    "PassedCalls",
    "ValuedProblem",
    "dump_folder",
    "folder_name",
    "is_tuned",
    "most_valuable_first",
    "read_dump",
    "read_dumped",
    "read_passed",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "dump": ("Dump", "PassedCalls", "read_passed"),
        "problem": (
            "DefaultKernel",
            "DumpContents",
            "DumpedProblem",
            "folder_name",
            "read_dump",
            "read_dumped",
        ),
        "switch": ("DEFAULT_FOLDER", "dump_folder"),
        "worth": ("ValuedProblem", "is_tuned", "most_valuable_first"),
    },
)
