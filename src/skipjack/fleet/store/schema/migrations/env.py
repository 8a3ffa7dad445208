"""Run by Alembic: applies revisions on the connection it was given."""

from alembic import context

from skipjack.fleet.store.schema.migrations import VERSION_TABLE

context.configure(connection=context.config.attributes["connection"], version_table=VERSION_TABLE)
with context.begin_transaction():
    context.run_migrations()
