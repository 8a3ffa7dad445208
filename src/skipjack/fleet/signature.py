"""The fleet's key, and the signatures that prove where machine code and bundles come from."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import shlex
import stat
from pathlib import Path

from skipjack.errors import StorageError, UsageError
from skipjack.settings import FLEET_KEY, Settings, expanded
from skipjack.storage import ensure_directory, temporary_name, write_failure

# The fleet's key, and its signatures of machine code in a shared store.
#
# A digest proves that bytes are intact; a signature proves that a holder of the key stored them.
# Machine code without a valid signature is never loaded.

FILE_NAME = "fleet.key"
VARIABLE = FLEET_KEY.name
_KEY_BYTES = 32
_LONGEST_TEXT = 4 * _KEY_BYTES


def fleet_key(settings: Settings) -> bytes:
    """The key of this fleet, from the file that SKIPJACK_FLEET_KEY names, which must exist.

    Without the variable it is ``fleet.key`` in the user directory, created at first use and
    readable by its owner only. Machines that share a store need the same key: copy the file.
    """
    given = FLEET_KEY.text()
    if given:
        return read_key(expanded(given))
    path = ensure_directory(settings.user_dir) / FILE_NAME
    if not path.exists():
        make_key(path)
    return read_key(path)


def sign(key: bytes, digest: str) -> str:
    """The signature of a digest."""
    return hmac.new(key, digest.encode(), hashlib.sha256).hexdigest()


def is_signed(key: bytes, digest: str, text: str) -> bool:
    """Whether `text` is the signature of this digest."""
    return hmac.compare_digest(sign(key, digest).encode(), text.encode())


def fingerprint(key: bytes) -> str:
    """A short text that identifies the key without revealing it."""
    return sign(key, "fingerprint of a fleet's key")[:12]


def make_key(path: Path) -> None:
    """Write a new key, readable by its owner only; a key that exists already is kept."""
    temporary = temporary_name(path)
    try:
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as stream:
            stream.write(secrets.token_bytes(_KEY_BYTES).hex() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        # A link, not a rename: the file appears whole, and never replaces a key that is in use.
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise write_failure(path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_key(path: Path) -> bytes:
    """Read the key in a file; `StorageError` if there is none."""
    try:
        with path.open(encoding="ascii") as file:
            _check_privacy(path, os.fstat(file.fileno()).st_mode)
            text = file.read(_LONGEST_TEXT).strip()
    except OSError as error:
        raise StorageError(
            f"cannot read the fleet's key from {path}: {error.strerror}; copy it from a machine "
            f"of the fleet, or unset {VARIABLE} to use a key of your own"
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
    """Refuse a key that others can read or write: they could sign machine code of their own."""
    command = f"chmod 600 {shlex.quote(str(path))}"
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StorageError(
            f"other users may write to {path}, so it proves nothing: run {command}, and check "
            "that it is still your key"
        )
    if mode & (stat.S_IRGRP | stat.S_IROTH):
        raise StorageError(
            f"other users may read {path}, so it proves nothing: run {command}; if others may "
            "have read it, make a new key (remove the file) and copy it to all machines"
        )


# The key that opens a bundle. It must exist: a new key would fit no bundle.


def existing_key(settings: Settings, file: Path | None = None) -> bytes:
    """The key in `file`, or else the fleet's key on this machine, which is never created here."""
    if file is not None:
        return read_key(expanded(file))
    place = settings.user_dir / FILE_NAME
    if not FLEET_KEY.text() and not place.exists():
        raise UsageError(
            f"this machine has no fleet key, so bundles cannot be checked; copy {FILE_NAME} "
            "from the user directory of the exporting machine (or the file that "
            f"{VARIABLE} names there) to {place}, or name a copy with --key or {VARIABLE}"
        )
    return fleet_key(settings)
