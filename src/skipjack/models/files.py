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
from skipjack.models.features import FEATURES_VERSION
from skipjack.reading import parse_json
from skipjack.storage import atomic_write

Arrays = Mapping[str, NDArray[Any]]
_ABOUT = "about"
_DAMAGE = (
    *(OSError, KeyError, ValueError, TypeError, EOFError, BadZipFile, zlib.error),
    *(RuntimeError, NotImplementedError),  # headers of an encrypted file, or of a newer zip
)


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
    except _DAMAGE as error:
        raise MalformedError(f"{where} is not a file of a model: {error}") from None
    if not isinstance(about, dict):
        raise MalformedError(f"{where} is not a file of a model: its description is no object")
    return about, found


def model_identity(
    about: Mapping[str, Any], where: str, what: str, form: str
) -> tuple[str, str, dict[str, Any]]:
    """The group, the device and the card that the description of a model has.

    Args:
        what: the kind of model, as ``skipjack learn`` calls it.
        form: the format that it must have.

    Raises `MalformedError` if it has another format or other features, or is damaged.
    """
    known = about.get("format"), about.get("features")
    if known != (form, FEATURES_VERSION):
        raise MalformedError(
            f"{where} is not a {what} of this version of Skipjack (format {known[0]}, "
            f"features {known[1]}); make it anew with skipjack learn {what}"
        )
    try:
        return str(about["group"]), str(about["device"]), dict(about["card"])
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedError(f"{where} is damaged: {error}") from None
