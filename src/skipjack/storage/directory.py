"""The directory that holds everything a user keeps, and whether a file system is shared over a
network.
"""

from __future__ import annotations

import errno
import re
import tempfile
from pathlib import Path

from skipjack.errors import StorageError
from skipjack.settings import Settings
from skipjack.storage.files import disk_full, sweep

# The user directory, which holds everything that is kept for a user.

_ADVICE = "make it writable or choose another one"
_OF_THE_USER = f"{_ADVICE} (SKIPJACK_USER_DB_PATH is the user directory)"


def user_directory(settings: Settings) -> Path:
    """The user directory: created if it does not exist, checked to be writable, and swept."""
    directory = ensure_directory(settings.user_dir)
    sweep(directory)
    return directory


def output_directory(directory: Path) -> Path:
    """As `ensure_directory`, for a directory that the user named for results."""
    return ensure_directory(directory, _ADVICE)


def can_create_in(directory: Path) -> bool:
    """Whether files can be created there; permission bits do not show read-only mounts."""
    try:
        with tempfile.TemporaryFile(dir=directory):
            return True
    except OSError:
        return False


def ensure_directory(directory: Path, advice: str = _OF_THE_USER) -> Path:
    """Create a directory, private to the user, and check that files can be created in it."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Permission bits do not tell about read-only mounts or quotas: try.
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise disk_full(directory) from error
        reason = "it is not a directory" if isinstance(error, FileExistsError) else error.strerror
        raise StorageError(f"cannot use the directory {directory}: {reason}; {advice}") from error
    return directory


# File systems that are shared over a network, where SQLite's shared memory does not work.

_NETWORK = (
    *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "ncpfs", "afs", "coda"),
    *("lustre", "gpfs", "beegfs", "fhgfs", "ceph", "glusterfs", "panfs", "pvfs2", "orangefs"),
    *("gfs2", "ocfs2", "quobyte", "wekafs", "juicefs", "s3fs", "davfs", "sshfs"),
    # Shared between a virtual machine and its host, which do not share memory.
    *("9p", "virtiofs"),
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def is_network_file_system(path: Path, mountinfo: str | None = None) -> str:
    """The name of the network file system that holds `path`; empty if it is not on one.

    `mountinfo` replaces the content of ``/proc/self/mountinfo``; if that does not exist, the answer
    is empty.
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
        # Of two mounts at one path the later hides the earlier, hence `>=`.
        if path.is_relative_to(mount) and len(mount.parts) >= longest:
            longest, kind = len(mount.parts), right.split()[0]
    return kind
