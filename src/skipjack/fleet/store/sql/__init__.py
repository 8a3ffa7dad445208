"""How a database is reached and spoken to: connections, transactions, statements, its clock.

A further database is a `Dialect` that is registered, here or by a plug-in.
"""

from skipjack.fleet.store.sql.dialect import Dialect, register
from skipjack.fleet.store.sql.mariadb import MariaDBDialect
from skipjack.fleet.store.sql.postgresql import PostgreSQLDialect
from skipjack.fleet.store.sql.sqlite import SQLiteDialect

__all__ = ["Dialect", "register"]

for _dialect in (SQLiteDialect(), PostgreSQLDialect(), MariaDBDialect()):
    register(_dialect)
