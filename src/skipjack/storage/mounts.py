"""Which file systems are shared over a network, where SQLite's shared memory does not work."""

from __future__ import annotations

import re
from pathlib import Path

_NETWORK = (
    *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda"),
    *("lustre", "gpfs", "beegfs", "fhgfs", "ceph", "glusterfs", "panfs", "pvfs2", "orangefs"),
    *("gfs2", "ocfs2", "quobyte", "wekafs", "juicefs", "s3fs", "davfs", "sshfs"),
    # Shared between a virtual machine and its host, who do not see each other's shared memory.
    *("9p", "virtiofs"),
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def is_network_file_system(path: Path, mountinfo: str | None = None) -> str:
    """The name of the network file system that holds `path`, or an empty text.

    `mountinfo` replaces ``/proc/self/mountinfo``; where there is none, nothing is known and the
    answer is empty.
    """
    if mountinfo is None:
        try:
            mountinfo = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return ""
    kind = _kind_of_mount(path.resolve(), mountinfo).removeprefix("fuse.")
    return kind if kind in _NETWORK else ""


def _kind_of_mount(path: Path, mountinfo: str) -> str:
    longest, kind = -1, ""
    for line in mountinfo.splitlines():
        left, separator, right = line.partition(" - ")
        fields = left.split()
        if not separator or len(fields) < 5 or not right.split():
            continue
        mount = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # Of two mounts at one place the later hides the earlier, hence `>=`.
        if path.is_relative_to(mount) and len(mount.parts) >= longest:
            longest, kind = len(mount.parts), right.split()[0]
    return kind
