"""Digests of values that JSON can hold: equal values, equal digest, on every machine."""

from __future__ import annotations

import hashlib
import json


def digest_of(parts: object) -> str:
    """SHA-256 in hexadecimal digits; the order of fields counts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
