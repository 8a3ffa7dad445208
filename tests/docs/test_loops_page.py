"""The page on loop nests has every action, observation, option, search and column."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from skipjack.learn.loops import LOOP_COLUMNS, OBSERVATIONS, Preset
from skipjack.learn.tree import METHODS
from skipjack.report.loops import COLUMNS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "loops.md"


def names_in(heading: str, table: int = 0) -> list[str]:
    """What is in backticks in the first column of a table below a heading."""
    sections = re.split(r"^#+ ", PAGE.read_text(), flags=re.MULTILINE)
    (section,) = (each for each in sections if each.startswith(f"{heading}\n"))
    tables = re.findall(r"^\|---.*\n((?:\|.*\n)+)", section, re.MULTILINE)
    cells = [row.split("|")[1] for row in tables[table].splitlines()]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_action_and_both_presets() -> None:
    documented = {name for name in names_in("The game") if name != "split_F"}
    assert documented == {name for name in Preset.FULL.actions if not name.startswith("split_")}
    assert names_in("The game", 1) == list(Preset)
    assert all(f"`{action}`" in PAGE.read_text() for action in Preset.LOOPTUNE.actions)


def test_every_observation_and_every_column_of_loops() -> None:
    assert names_in("Observations") == list(OBSERVATIONS)
    single = [name for name in LOOP_COLUMNS if not name.startswith("stride_bin_")]
    assert names_in("Observations", 1) == [*single, "stride_bin_0", LOOP_COLUMNS[-1]]


def test_every_option_and_reward_of_the_environment_and_three_masks() -> None:
    pytest.importorskip("gymnasium")
    from skipjack.learn.environment import GameReward, LoopNestEnv

    options = list(inspect.signature(LoopNestEnv).parameters)
    assert names_in("The environment") == options
    assert names_in("The environment", 1) == list(GameReward)
    text = PAGE.read_text()
    assert all(
        mask in text for mask in ("`action_masks()`", '`info["action_mask"]`', "`action_mask=True`")
    )


def test_every_search_and_every_column_of_its_steps() -> None:
    assert sorted(names_in("Searches")) == sorted(METHODS)
    assert names_in("Reports of searches", 1) == list(COLUMNS)
