"""Dumps: the problems of a program, each in its own folder, to be tuned later or elsewhere.

::

    tune_dump/
        matmul-64x32x48-f32.0c1f6a2b93de/
            problem.json            the key, number of calls, time of a call, device
            default.o               Skipjack's untuned kernel; for a GPU its binaries
        passed_through.json         calls that no operation of Skipjack computes

Several processes may write to one dump: counts add up, and every file is complete at any moment.
"""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.runtime.dumps.dump import Dump, PassedCalls, read_passed
    from skipjack.runtime.dumps.problem import (
        DEFAULT_FOLDER,
        DefaultKernel,
        DumpContents,
        DumpedProblem,
        dump_folder,
        folder_name,
        read_dump,
        read_dumped,
    )
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
        "dump": "Dump PassedCalls read_passed",
        "problem": (
            "DEFAULT_FOLDER DefaultKernel DumpContents DumpedProblem dump_folder folder_name "
            "read_dump read_dumped"
        ),
        "worth": "ValuedProblem is_tuned most_valuable_first",
    },
)
