"""Policies as files: what is written is read, and what is not a policy is refused by name."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipjack.errors import UsageError
from skipjack.learn.loops import GLOBAL_COLUMNS, POLICY_OBSERVATION, ROW_COLUMNS, Preset
from skipjack.learn.policy import network as policy_file
from skipjack.learn.policy import read_policy, write_policy
from skipjack.testing.samples import random_weights


def arrays(preset: Preset = Preset.FULL) -> dict[str, Any]:
    """Random weights of a network for the game."""
    return random_weights(len(ROW_COLUMNS), len(GLOBAL_COLUMNS), len(preset.actions))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "policy.npz"
    write_policy(found, arrays(), Preset.FULL)
    return found


def changed(path: Path, **members: Any) -> Path:
    """The file with other arrays; None takes one out."""
    with np.load(path, allow_pickle=False) as file:
        kept = {name: file[name] for name in file.files} | members
    np.savez(path, **{name: value for name, value in kept.items() if value is not None})
    return path


def test_what_is_written_is_read(path: Path, tmp_path: Path) -> None:
    policy = read_policy(path)
    assert policy.preset is Preset.FULL
    assert policy.network.actions == len(Preset.FULL.actions)
    again = tmp_path / "again.npz"
    write_policy(again, arrays(), Preset.FULL)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        (
            {"observation": np.int64(POLICY_OBSERVATION + 1)},
            rf"observations of version {POLICY_OBSERVATION + 1}, .* uses version "
            rf"{POLICY_OBSERVATION}; train it again",
        ),
        ({"format": np.int64(9)}, "has format 9, but this version of Skipjack reads format 1"),
        ({"preset": np.str_("chess")}, "plays the unknown preset 'chess'"),
        ({"actions": np.array(["up", "down"])}, "has other actions than the preset full"),
        ({"actions": None}, "has no array actions: it is not a policy"),
        ({"worth.bias": None}, "has no array worth.bias"),
        ({"worth.bias": np.zeros(2, np.float32)}, "array worth.bias of the policy is"),
        ({"row_in.weight": np.zeros((4, 4, 4), np.float32)}, "no matrix row_in.weight"),
        ({"worth.bias": np.array([True])}, "is not a file of plain arrays: .* holds bool"),
    ],
)
def test_another_file_is_refused_by_name(
    path: Path, members: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=f"policy .*policy.npz.*{sentence}"):
        read_policy(changed(path, **members))


def test_nothing_is_unpickled(path: Path) -> None:
    data = io.BytesIO()
    np.lib.format.write_array(data, np.array([{}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("extra.npy", data.getvalue())
    with pytest.raises(UsageError, match=r"extra.npy holds object"):
        read_policy(path)


def test_a_header_that_claims_more_than_there_is_allocates_nothing(path: Path) -> None:
    data = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)}
    np.lib.format.write_array_header_1_0(data, header)  # type: ignore[no-untyped-call]
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("extra.npy", data.getvalue())
    with pytest.raises(UsageError, match=r"extra.npy is cut off"):
        read_policy(path)


def test_large_files_and_other_files_are_refused(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_policy(tmp_path / "absent.npz")
    text = tmp_path / "text.npz"
    text.write_text("no archive")
    with pytest.raises(UsageError, match="is not a file of plain arrays"):
        read_policy(text)
    text.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UsageError, match="is not a file of plain arrays"):
        read_policy(text)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("extra.npy", bytes(1 << 20))
    monkeypatch.setattr(policy_file, "MAX_BYTES", 1 << 20)
    with pytest.raises(UsageError, match="unpacks to more than"):
        read_policy(path)
    monkeypatch.setattr(policy_file, "MAX_BYTES", 1000)
    with pytest.raises(UsageError, match="at most 1000 are allowed"):
        read_policy(path)
