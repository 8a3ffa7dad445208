"""What can be wrong with the rows of a kernel-db."""

from __future__ import annotations

from pathlib import Path

from skipjack.core.problem import shown
from skipjack.errors import CorruptFileError
from skipjack.interop.miopen.findings import FileReport
from skipjack.interop.miopen.kernel_db import code_bytes, packed_kernels


def check_kernels(path: Path, report: FileReport) -> None:
    """Each by its size and MD5, and all for names that stand there twice."""
    first: dict[tuple[str, str], int] = {}
    for packed in packed_kernels(path):
        report.records += 1
        where = f"row {packed.row} ({shown(packed.name)})"
        before = first.setdefault((packed.name, packed.args), packed.row)
        if before != packed.row:
            message = f"{where} has the name and the arguments of row {before}"
            report.add("duplicate_kernel", message)
        if packed.md5 != packed.md5.lower():
            report.add("odd_md5", f"{where} has its MD5 in upper case, which MIOpen never writes")
        try:
            code_bytes(packed, path)
        except CorruptFileError as error:
            report.add("damaged_kernel", str(error))
