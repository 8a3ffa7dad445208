"""The plan that ``skipjack plan init`` writes."""

from __future__ import annotations

from pathlib import Path

from skipjack.errors import UsageError
from skipjack.storage import atomic_write

EXAMPLE = """\
# A cycle of commands: skipjack plan check FILE, then skipjack plan run FILE.
# Running again continues after the last finished step. Paths are relative to this file's folder.
format: 1
name: nightly

# Options for every step that accepts them and does not set them. Values are kept as written:
# 6.20 stays 6.20, and no stays no.
defaults:
  label: nightly

# A step is a command with its options by their long names; see skipjack COMMAND --help.
steps:
  - import: {list: resnet50, tag: nets, batch: "1", direction: fwd}

  - load:
      tag: nets
      operation: conv2d
      budget: 8
    name: jobs

  - run:
      wait: true # a switch is true or false

  - status:

  - bank build:

  - export kernel-db:
      output: nightly.skk
    enabled: false # skips it
"""


def write_example(path: Path) -> None:
    """Write the example; `UsageError` if the file exists."""
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no directory {path.absolute().parent}")
    atomic_write(path, EXAMPLE.encode())
