"""Access to databases: connections, transactions, statements, and the database's clock.

A database is supported by a registered `Dialect`, here or in a plug-in.
"""

from skipjack.fleet.store.sql.dialect import Dialect, register
from skipjack.fleet.store.sql.mariadb import MariaDBDialect
from skipjack.fleet.store.sql.postgresql import PostgreSQLDialect
from skipjack.fleet.store.sql.sqlite import SQLiteDialect

__all__ = [
    "Dialect",
    "clock",
    "register",
    "statements",
]

for _dialect in (SQLiteDialect(), PostgreSQLDialect(), MariaDBDialect()):
    register(_dialect)
