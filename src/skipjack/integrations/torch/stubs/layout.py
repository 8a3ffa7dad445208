"""Numbers that stubs and Python agree on."""

from __future__ import annotations

TORCH, OURS, RAISES, ASKS = range(4)
"""Kinds of entries."""
ENTRY_HEAD = 7
"""Numbers before the words of an entry."""
ARGUMENT, OPTIONAL_ARGUMENT, RESULT, ARENA = range(4)
"""Kinds of places."""
MOST_RANK = 8
"""Tensors of more dimensions have no sizes among the words, and are left to PyTorch."""
MOST_ITEMS = 16
MOST_WORDS = 256
MOST_SLOTS = 1024
MOST_PLACES = 32
