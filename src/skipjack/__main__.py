"""``python -m skipjack`` is the ``skipjack`` command."""

from skipjack.cli.main import run

run()
