"""Network file systems are recognized by the mount that holds a path."""

from pathlib import Path

import pytest

from skipjack.storage import is_network_file_system

MOUNTS = r"""
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:40 / /home rw - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/me/local rw - xfs /dev/vdb rw
32 27 0:42 / /scratch rw master:2 propagate_from:1 - lustre mgs:/fs rw
33 27 0:43 / /with\040space rw - fuse.sshfs host: rw
34 27 0:44 / /twice rw - ext4 /dev/vdc rw
35 27 0:45 / /twice rw - cifs //server/share rw
nonsense
"""


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/var/lib", ""),
        ("/home", "nfs4"),
        ("/home/me/x", "nfs4"),
        ("/home/me/local/x", ""),
        ("/homeless", ""),
        ("/scratch/a", "lustre"),
        ("/with space/a", "sshfs"),
        ("/twice/a", "cifs"),
    ],
)
def test_the_longest_and_latest_mount_decides(path: str, name: str) -> None:
    assert is_network_file_system(Path(path), MOUNTS) == name


def test_an_unreadable_table_says_nothing() -> None:
    assert is_network_file_system(Path("/home"), "") == ""


def test_kernel_file_systems_are_local() -> None:
    assert is_network_file_system(Path("/proc/self")) == ""
