"""The workspace behind all requests: when it is opened again, and when it is closed."""

import asyncio
import shutil
import sqlite3
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from web_rig import settings_in, workspace_in

from skipjack.app.views import TableRequest, Workspace, label_table
from skipjack.errors import CorruptFileError, StorageError
from skipjack.web.workspaces import WorkspaceReaders


def run(work: Coroutine[Any, Any, None]) -> None:
    """In a thread of its own: the tests of browsers leave a loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


class Counted(Workspace):
    closed = 0

    def close(self) -> None:
        type(self).closed += 1
        super().close()


def labels(workspace: Workspace) -> int:
    return label_table(workspace, TableRequest()).total


def test_a_store_that_fails_is_closed_and_opened_again(filled: Path, tmp_path: Path) -> None:
    place = tmp_path / "user"
    place.mkdir()
    shutil.copy(filled / "fleet.sqlite", place)
    Counted.closed, opened = 0, 0

    def opening() -> Workspace:
        nonlocal opened
        opened += 1
        return Counted(settings_in(place))

    async def use() -> None:
        known = await readers.run(labels)
        with sqlite3.connect(place / "fleet.sqlite") as connection:
            connection.execute("ALTER TABLE labels RENAME TO elsewhere")
        with pytest.raises(StorageError):
            await readers.run(labels)
        assert Counted.closed == 1
        with sqlite3.connect(place / "fleet.sqlite") as connection:
            connection.execute("ALTER TABLE elsewhere RENAME TO labels")
        assert await readers.run(labels) == known

    readers = WorkspaceReaders(opening)
    run(use())
    readers.close()
    assert (opened, Counted.closed) == (2, 2)


def test_one_damaged_file_does_not_close_the_store(filled: Path) -> None:
    seen = []

    def damaged(workspace: Workspace) -> None:
        seen.append(workspace)
        labels(workspace)
        raise CorruptFileError(f"{workspace.user_dir / 'a.json'} is damaged")

    async def use() -> None:
        for _ in range(2):
            with pytest.raises(CorruptFileError):
                await readers.run(damaged)

    readers = WorkspaceReaders(lambda: workspace_in(filled))
    run(use())
    readers.close()
    assert seen[0] is seen[1]
