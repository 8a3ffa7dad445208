"""Export of find-dbs, perf-dbs and kernel-dbs to files for other programs, with a manifest."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.release.export.export_requests import (
        ExportRequest,
        check_directory_name,
        check_file_or_directory,
        check_one_database,
        check_one_file,
        export_find_db,
        export_kernel_db,
        export_one_file,
        export_perf_db,
        export_user,
    )
    from skipjack.fleet.release.export.manifest import (
        FILE_NAME,
        ExportOrigin,
        FileNote,
        digest_of,
        manifest_reports,
        plain_name,
        read_manifest,
    )
    from skipjack.fleet.release.export.publication import ExportResult, release_directory
    from skipjack.fleet.release.export.user_databases import UserExport, build_name

__all__ = [
    "FILE_NAME",
    "ExportOrigin",
    "ExportRequest",
    "ExportResult",
    "FileNote",
    "UserExport",
    "build_name",
    "check_directory_name",
    "check_file_or_directory",
    "check_one_database",
    "check_one_file",
    "digest_of",
    "export_find_db",
    "export_kernel_db",
    "export_one_file",
    "export_perf_db",
    "export_user",
    "manifest_reports",
    "plain_name",
    "read_manifest",
    "release_directory",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "export_requests": (
            "ExportRequest check_directory_name check_file_or_directory check_one_database "
            "check_one_file export_find_db export_kernel_db export_one_file export_perf_db "
            "export_user"
        ),
        "manifest": (
            "ExportOrigin FILE_NAME FileNote digest_of manifest_reports plain_name read_manifest"
        ),
        "publication": "ExportResult release_directory",
        "user_databases": "UserExport build_name",
    },
)
