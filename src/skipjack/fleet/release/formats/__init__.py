"""Export formats by name: what `export` writes, `compare` reads and `promote` merges."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.release.formats.export_format import (
        AND,
        FIND_DB,
        KERNEL_DB,
        MIOPEN,
        PERF_DB,
        SKIPJACK,
        Alias,
        Contents,
        ExportFormat,
        FindOptions,
        GatheredConfigs,
        GatheredRankings,
        KeyedFile,
        PerfOptions,
        ReleaseFile,
        base_name,
        check_aliases,
    )
    from skipjack.fleet.release.formats.record_merge import MergeCounts, MergeRule, merge
    from skipjack.fleet.release.formats.registry import (
        every,
        get,
        installed,
        keyed_file,
        names,
        of_find_db,
        of_kernel_file,
        register,
    )

__all__ = [
    "AND",
    "FIND_DB",
    "KERNEL_DB",
    "MIOPEN",
    "PERF_DB",
    "SKIPJACK",
    "Alias",
    "Contents",
    "ExportFormat",
    "FindOptions",
    "GatheredConfigs",
    "GatheredRankings",
    "KeyedFile",
    "MergeCounts",
    "MergeRule",
    "PerfOptions",
    "ReleaseFile",
    "base_name",
    "check_aliases",
    "every",
    "get",
    "installed",
    "keyed_file",
    "merge",
    "names",
    "of_find_db",
    "of_kernel_file",
    "register",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "export_format": (
            "AND Alias Contents ExportFormat FIND_DB FindOptions GatheredConfigs "
            "GatheredRankings KERNEL_DB KeyedFile MIOPEN PERF_DB PerfOptions ReleaseFile "
            "SKIPJACK base_name check_aliases"
        ),
        "record_merge": "MergeCounts MergeRule merge",
        "registry": "every get installed keyed_file names of_find_db of_kernel_file register",
    },
)
