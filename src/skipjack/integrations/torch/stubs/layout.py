"""Numbers that stubs and Python agree on."""

from __future__ import annotations

TORCH, OURS, RAISES, ASKS = range(4)
"""Kinds of entries."""
ENTRY_HEAD = 7
"""Numbers before the words of an entry."""
ARGUMENT, OPTIONAL_ARGUMENT, RESULT, ARENA, MUTABLE_ARGUMENT = range(5)
"""Kinds of places; the last is an optional argument that is written to."""
MOST_RANK = 8
"""Tensors of more dimensions have no sizes among the words, and are left to PyTorch."""
MOST_ITEMS = 16
MOST_WORDS = 256
MOST_SLOTS = 1024
MOST_PLACES = 32
