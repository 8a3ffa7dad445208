"""The machine code of the stubs, kept from process to process: compiling it takes 0.1 s.

It lies in the kernel cache, by its digest, and a small file in the user directory says which it is.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from skipjack.core.digest import digest_of
from skipjack.errors import SkipjackError
from skipjack.native import llvm
from skipjack.settings import load_settings
from skipjack.storage import ArtifactStore, atomic_write, ensure_directory

log = logging.getLogger(__name__)

_FOLDER = "torch/stubs"


def stub_code(text: str, target: str) -> bytes:
    """The object of the stubs: the one that an earlier process made, or a new one."""
    settings = load_settings()
    store = ArtifactStore(*settings.kernel_dirs)
    folder = settings.user_dir / _FOLDER
    named = folder / digest_of([text, target, llvm.compiler_release()])
    with suppress(SkipjackError, OSError, UnicodeDecodeError):
        return store.get(named.read_text("ascii"))
    code = llvm.compile_object(text, target)
    try:
        digest = store.put(code)
        ensure_directory(folder)
        atomic_write(named, digest.encode(), durable=False)
    except (SkipjackError, OSError) as error:
        log.info("the code of the hook is compiled again in the next program: %s", error)
    return code
