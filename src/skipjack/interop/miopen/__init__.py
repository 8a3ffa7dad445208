"""MIOpen's databases, read and written without losing a byte: find-db, perf-db and kernel-db."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.interop import parse_find_db
    from skipjack.interop.miopen.conversion import VALUE_FORMATS, ConvertOptions, convert
    from skipjack.interop.miopen.file_access import file_bytes
    from skipjack.interop.miopen.file_checks import check_paths, files_to_check
    from skipjack.interop.miopen.file_formats import (
        SUFFIXES,
        DbName,
        FileKind,
        db_name,
        parse_db_name,
    )
    from skipjack.interop.miopen.find_values import (
        FAMILIES,
        Family,
        FindResultLine,
        FindText,
        algorithm_name,
        current_of,
        find_item,
        find_results,
        find_text,
        legacy_item,
    )
    from skipjack.interop.miopen.json_lines import (
        ENTRIES,
        FIND,
        KEY,
        NS_PER_MS,
        PERF,
        line_of,
        numbered_lines,
        numbered_objects,
        object_of,
        record_of,
    )
    from skipjack.interop.miopen.kernel_db import (
        KernelRow,
        PackedKernel,
        packed_kernels,
        read_kernel_db,
        write_kernel_db,
        write_packed,
    )
    from skipjack.interop.miopen.keys import FindKey, find_key, key_of, parse_find_key, perf_key
    from skipjack.interop.miopen.perf_sqlite import (
        perf_contents,
        read_perf_sqlite,
        write_perf_sqlite,
        write_perf_sqlite_of,
    )
    from skipjack.interop.miopen.record_checks import FINDING_KINDS, MOST_LISTED, FileReport
    from skipjack.interop.miopen.text_db import (
        DatabaseRecord,
        RecordItem,
        TextLine,
        complaint_of,
        read_text,
        read_text_db,
        scan,
        write_text_db,
    )

__all__ = [
    "ENTRIES",
    "FAMILIES",
    "FIND",
    "FINDING_KINDS",
    "KEY",
    "MOST_LISTED",
    "NS_PER_MS",
    "PERF",
    "SUFFIXES",
    "VALUE_FORMATS",
    "ConvertOptions",
    "DatabaseRecord",
    "DbName",
    "Family",
    "FileKind",
    "FileReport",
    "FindKey",
    "FindResultLine",
    "FindText",
    "KernelRow",
    "PackedKernel",
    "RecordItem",
    "TextLine",
    "algorithm_name",
    "check_paths",
    "complaint_of",
    "convert",
    "current_of",
    "db_name",
    "file_bytes",
    "files_to_check",
    "find_item",
    "find_key",
    "find_results",
    "find_text",
    "key_of",
    "legacy_item",
    "line_of",
    "numbered_lines",
    "numbered_objects",
    "object_of",
    "packed_kernels",
    "parse_db_name",
    "parse_find_db",
    "parse_find_key",
    "perf_contents",
    "perf_key",
    "read_kernel_db",
    "read_perf_sqlite",
    "read_text",
    "read_text_db",
    "record_of",
    "scan",
    "write_kernel_db",
    "write_packed",
    "write_perf_sqlite",
    "write_perf_sqlite_of",
    "write_text_db",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "skipjack.interop": "parse_find_db",
        "conversion": "ConvertOptions VALUE_FORMATS convert",
        "file_access": "file_bytes",
        "file_checks": "check_paths files_to_check",
        "file_formats": "DbName FileKind SUFFIXES db_name parse_db_name",
        "find_values": (
            "FAMILIES Family FindResultLine FindText algorithm_name current_of find_item "
            "find_results find_text legacy_item"
        ),
        "json_lines": (
            "ENTRIES FIND KEY NS_PER_MS PERF line_of numbered_lines numbered_objects object_of "
            "record_of"
        ),
        "kernel_db": (
            "KernelRow PackedKernel packed_kernels read_kernel_db write_kernel_db write_packed"
        ),
        "keys": "FindKey find_key key_of parse_find_key perf_key",
        "perf_sqlite": "perf_contents read_perf_sqlite write_perf_sqlite write_perf_sqlite_of",
        "record_checks": "FINDING_KINDS FileReport MOST_LISTED",
        "text_db": (
            "DatabaseRecord RecordItem TextLine complaint_of read_text read_text_db scan "
            "write_text_db"
        ),
    },
)
