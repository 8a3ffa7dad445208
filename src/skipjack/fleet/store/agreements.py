"""What all machines of a fleet must have in common, so that they do not work against each other."""

from __future__ import annotations

from sqlalchemy import Connection, select

from skipjack.errors import StorageError
from skipjack.fleet.seal import FILE_NAME, VARIABLE, fingerprint
from skipjack.fleet.store.bulk import insert_new
from skipjack.fleet.store.tables import agreements


def agree_on_key(connection: Connection, key: bytes) -> None:
    """Refuse a machine with another key: it would take all machine code of the others for lost."""
    mine = fingerprint(key)
    insert_new(connection, agreements, [{"name": "key", "value": mine}])
    query = select(agreements.c.value).where(agreements.c.name == "key")
    found = connection.execute(query).scalar_one()
    if found != mine:
        raise StorageError(
            f"this machine's fleet key ({mine}) is not the one that the store's machine code is "
            f"sealed with ({found}); copy {FILE_NAME} from a machine that has it, or name it by "
            f"{VARIABLE}"
        )
