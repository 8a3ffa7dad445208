"""Files of models: arrays of NumPy's, and a description as JSON. Nothing in them is unpickled."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from skipjack.errors import MalformedError
from skipjack.reading import parse_json
from skipjack.storage import atomic_write

Arrays = Mapping[str, NDArray[Any]]
_ABOUT = "about"


def write_model(path: Path, about: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a model as a whole or not at all."""
    text = np.frombuffer(json.dumps(about, sort_keys=True).encode(), np.uint8)
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **{_ABOUT: text, **arrays})
    atomic_write(path, file.getvalue())


def read_model(data: bytes, where: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The description and the arrays; `MalformedError`, which names `where`, if it is damaged."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        about = parse_json(found.pop(_ABOUT).tobytes(), where)
    except (OSError, KeyError, ValueError, TypeError, EOFError, BadZipFile, zlib.error) as error:
        raise MalformedError(f"{where} is not a file of a model: {error}") from None
    if not isinstance(about, dict):
        raise MalformedError(f"{where} is not a file of a model: its description is no object")
    return about, found
