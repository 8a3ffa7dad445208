"""``python -m skipjack`` is the ``skipjack`` command."""

from skipjack.cli import run

run()
