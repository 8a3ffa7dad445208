"""The fleet's key, and the seal that it puts on machine code in a shared store.

A digest says that bytes are whole; the seal says that somebody with the key has put them there.
Nothing without it is ever loaded.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shlex
import stat
from pathlib import Path

from skipjack.errors import StorageError
from skipjack.settings import FLEET_KEY, Settings, expanded
from skipjack.storage import ensure_directory
from skipjack.storage.failure import write_failure
from skipjack.storage.litter import temporary_name

FILE_NAME = "fleet.key"
VARIABLE = FLEET_KEY.name
_KEY_BYTES = 32
_LONGEST_TEXT = 4 * _KEY_BYTES


def fleet_key(settings: Settings) -> bytes:
    """The key of this fleet: from the file that SKIPJACK_FLEET_KEY names, which must be there.

    Without the variable it is ``fleet.key`` in the user directory, made at first use, readable by
    its owner alone. Machines that share a store need the same key: copy the file.
    """
    given = FLEET_KEY.text()
    if given:
        return read_key(expanded(given))
    path = ensure_directory(settings.user_dir) / FILE_NAME
    if not path.exists():
        make_key(path)
    return read_key(path)


def seal(key: bytes, digest: str) -> str:
    """What proves that a holder of the key vouches for the artifact with this digest."""
    return hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


def sealed(key: bytes, digest: str, text: str) -> bool:
    """Whether `text` is the seal of this digest."""
    return hmac.compare_digest(seal(key, digest).encode(), text.encode())


def fingerprint(key: bytes) -> str:
    """Tells keys apart and gives nothing away."""
    return seal(key, "fingerprint of a fleet's key")[:12]


def make_key(path: Path) -> None:
    """Write a new key, for its owner's eyes; whoever comes second keeps the first one's."""
    temporary = temporary_name(path)
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as stream:
            stream.write(secrets.token_bytes(_KEY_BYTES).hex() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        # A link, not a rename: it appears whole, and never replaces a key that is in use.
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise write_failure(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_key(path: Path) -> bytes:
    """The key in a file; `StorageError` if there is none."""
    try:
        with path.open(encoding="ascii") as file:
            _check_privacy(path, os.fstat(file.fileno()).st_mode)
            text = file.read(_LONGEST_TEXT).strip()
    except OSError as error:
        raise StorageError(
            f"cannot read the fleet's key from {path}: {error.strerror}; copy it from a machine "
            f"of the fleet, or unset {VARIABLE} for a key of your own"
        ) from error
    except UnicodeDecodeError:
        text = ""
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise StorageError(
            f"{path} is not a fleet key ({2 * _KEY_BYTES} hexadecimal digits); copy it again"
        )
    return key


def _check_privacy(path: Path, mode: int) -> None:
    """A key that others have is no secret: they could vouch for machine code of their own."""
    command = f"chmod 600 {shlex.quote(str(path))}"
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StorageError(
            f"others may write to {path}, so it proves nothing: run {command}, and see "
            "whether it is still yours"
        )
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        raise StorageError(
            f"others may read {path}, so it proves nothing: run {command}; if strangers may "
            "have read it, make a new key (remove the file) and copy it to all machines"
        )
