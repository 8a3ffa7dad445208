"""Warnings for programs that ask again and again: each is given once."""

from __future__ import annotations

import logging
from collections.abc import Hashable

_MOST_SAID = 1000
_said: set[Hashable] = set()
"""What was warned about."""


def warn_once(log: logging.Logger, sentence: str, about: Hashable = None) -> None:
    """Warn, unless there was a warning about the same before: by default, the same sentence."""
    subject = sentence if about is None else about
    if subject not in _said and len(_said) < _MOST_SAID:
        _said.add(subject)
        log.warning("%s", sentence)
