"""All readers of stored and received data. To fuzz one more, add a `Reader` to one of these."""

import database_readers
import file_readers
import kept_readers
import output_readers
import sqlite_readers
import written_readers

READERS = (
    *written_readers.READERS,
    *file_readers.READERS,
    *output_readers.READERS,
    *kept_readers.READERS,
    *database_readers.READERS,
    *sqlite_readers.READERS,
)
