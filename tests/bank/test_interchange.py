"""Files of several banks become one, the same in any order; unrelated banks are refused."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skipjack.bank import (
    BASELINE,
    REMOVED,
    Bank,
    BankEntry,
    merged,
    on_device,
    read_bank,
    write_bank,
)
from skipjack.errors import UsageError

MakeEntry = Any
WIDE, NARROW, GPU = "cpu:znver4/1:aaa", "cpu:znver4/1:bbb", "cuda:sm_90/132:ccc"


def write(path: Path, *entries: BankEntry) -> Path:
    path.write_text("".join(f"{one.line}\n" for one in entries))
    return path


def made(tile: int, low: float, size: int, device: str, protocol: str) -> BankEntry:
    gain = {"ratio": low, "low": low, "high": low}
    evidence = {BASELINE: {"name": "default", **gain}, "samples": tile, "spread": 0.02}
    return BankEntry(
        f"add:{size}:f32", device, "znver4/1", "nest", 1, {"tile": tile}, 1.0, 2.0, None, "",
        {"default": gain}, evidence, protocol=protocol,
    )  # fmt: skip


drawn = st.builds(
    made,
    st.integers(0, 20),
    st.sampled_from([1.0, 1.5, 1.51, 2.0]),
    st.integers(1, 2),
    st.just(WIDE),
    st.sampled_from(["", "eager/hot"]),
)
quick = settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@quick
@given(st.lists(st.lists(drawn, min_size=1, max_size=25), min_size=2, max_size=3))
def test_any_order_grouping_and_repetition_of_files_gives_the_same_bytes(
    tmp_path: Path, parts: list[list[BankEntry]]
) -> None:
    files = [write(tmp_path / f"{number}.jsonl", *part) for number, part in enumerate(parts)]
    found = set()
    for order in permutations(files):
        target, grouped = tmp_path / "merged.jsonl", tmp_path / "grouped.jsonl"
        write_bank(target, merged({path: read_bank(path) for path in order}))
        found.add(target.read_bytes())
        write_bank(grouped, merged({path: read_bank(path) for path in order[:2]}))
        write_bank(target, merged({path: read_bank(path) for path in (grouped, *order)}))
        found.add(target.read_bytes())
    own = Bank.open(tmp_path / "own")
    for path in (*files, *files[:1]):
        own.merge(path)
    found.add(own.path.read_bytes())
    own.path.unlink()
    assert len(found) == 1


def test_banks_that_share_no_class_of_devices_are_refused_by_name(
    tmp_path: Path, entry: MakeEntry
) -> None:
    cpu = write(tmp_path / "cpu.jsonl", entry(device=WIDE))
    gpu = write(tmp_path / "gpu.jsonl", entry(device=GPU, device_name="sm_90/132"))
    both = write(tmp_path / "both.jsonl", entry(device=WIDE), entry(device=GPU))
    with pytest.raises(UsageError) as error:
        merged({path: read_bank(path) for path in (cpu, gpu)})
    assert f"{cpu} (znver4/1) shares no class of devices with {gpu} (sm_90/132)" in str(error.value)
    assert len(merged({path: read_bank(path) for path in (cpu, gpu, both)})) == 2


def test_one_class_of_devices_is_taken_by_its_name_or_its_key(
    tmp_path: Path, entry: MakeEntry
) -> None:
    wide, narrow = entry(device=WIDE), entry(device=NARROW)
    path = write(tmp_path / "b.jsonl", wide, narrow, entry(device=GPU, device_name="sm_90/132"))
    known = read_bank(path)
    assert {key[1] for key in on_device(known, NARROW, path)} == {NARROW}
    assert {key[1] for key in on_device(known, "sm_90/132", path)} == {GPU}
    with pytest.raises(UsageError, match=f"give one of {WIDE} or {NARROW}"):
        on_device(known, "znver4/1", path)
    with pytest.raises(UsageError, match="has no entry for haswell/1; it has sm_90/132, znver4/1"):
        on_device(known, "haswell/1", path)


def test_entries_that_are_removed_lie_beside_the_bank_and_can_be_merged_again(
    bank: Bank, entry: MakeEntry
) -> None:
    known = [entry("add:1:f32"), entry("add:1:f32", config={"tile": 1}), entry("add:2:f32")]
    bank.add(known)
    bank.join({})
    before = bank.path.read_bytes()
    gone = bank.clean(lambda one: one.problem == "add:1:f32")
    assert len(gone) == 2 and bank.entries() == [known[2]]
    assert bank.clean(lambda one: one.problem == "add:1:f32") == []
    assert bank.merge(bank.path.with_name(REMOVED)).new == 1
    assert bank.path.read_bytes() == before
