"""A bank's file and its index: appended to, found by key, and intact after a kill."""

import os
import random
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.bank import (
    Bank,
    BankEntry,
    BankLayer,
    Changes,
    ReplacementReason,
    forget_banks,
    key_of,
    merge_entries,
    replacing,
)
from skipjack.bank.file import INDEXED_BYTES, BankFile
from skipjack.bank.index import Index, key_hash
from skipjack.bank.strength import MOST_KEPT, ranked
from skipjack.errors import NewerFormatError, StorageError

MakeEntry = Any
DEVICE = "cpu:znver4/1:abc"


def key(number: int) -> str:
    return f"add:{number}:f32"


def gain(low: float) -> dict[str, Any]:
    return {"vendor": {"ratio": 2.0, "low": low, "high": 2.0}}


@pytest.fixture
def large(bank: Bank, entry: MakeEntry) -> Bank:
    """Large enough for an index."""
    bank.add(entry(key(number), config={"tile": number}) for number in range(200))
    assert bank.path.stat().st_size > INDEXED_BYTES
    return bank


def index_of(bank: Bank) -> Path:
    return bank.path.with_suffix(".index")


def is_parsed_whole(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that were parsed as a whole from now on."""
    from skipjack.bank import file

    parsed: list[Path] = []
    whole = file.open_whole

    def noted(path: Path) -> object:
        parsed.append(path)
        return whole(path)

    for module in (file, file):
        monkeypatch.setattr(module, "open_whole", noted)
    return parsed


# Several entries of a key


def test_all_confirmed_entries_of_a_key_are_kept_and_the_strongest_is_given(
    bank: Bank, entry: MakeEntry
) -> None:
    for tile, low in ((1, 1.1), (2, 1.3), (3, 1.2)):
        bank.put(entry(config={"tile": tile}, speedup=gain(low)))
    known = bank.ranked(entry().problem, DEVICE)
    assert [one.config["tile"] for one in known] == [2, 3, 1]
    assert bank.lookup(entry().problem, DEVICE) == known[0]
    assert bank.entries() == [known[0]]
    assert bank.ranked("add:9:f32", DEVICE) == ()


def test_of_one_config_the_strongest_evidence_is_kept(bank: Bank, entry: MakeEntry) -> None:
    for low in (1.1, 1.3, 1.2):
        bank.put(entry(speedup=gain(low)))
    assert [one.speedup["vendor"]["low"] for one in bank.ranked(entry().problem, DEVICE)] == [1.3]
    bank.join({})
    assert len(bank.path.read_bytes().splitlines()) == 1


confirmed = st.builds(
    lambda tile, low, problem: BankEntry(
        f"add:{problem}:f32", DEVICE, "a/1", "nest", 1, {"tile": tile}, 9.0, 9.0, 9.0, "numpy",
        gain(low),
    ),
    st.integers(0, MOST_KEPT + 8),
    st.floats(1.0, 2.0),
    st.integers(1, 2),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(confirmed, max_size=60), st.lists(confirmed, max_size=60))
def test_what_is_kept_does_not_depend_on_order_grouping_or_repetition(
    first: list[BankEntry], second: list[BankEntry]
) -> None:
    both = merge_entries([*first, *second])
    assert merge_entries([*second, *first, *second]) == both
    parts = (merge_entries(first), merge_entries(second))
    assert merge_entries(one for part in parts for kept in part.values() for one in kept) == both
    assert all(len(kept) <= MOST_KEPT for kept in both.values())


# The index


def test_one_key_of_a_large_bank_is_looked_up_without_parsing_the_rest(
    large: Bank, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = is_parsed_whole(monkeypatch)
    reader = Bank.open(large.path.parent)
    for number in (0, 77, 199):
        assert reader.lookup(key(number), DEVICE) == entry(key(number), config={"tile": number})
    assert reader.lookup(key(200), DEVICE) is None
    assert not parsed


def test_all_of_one_problem_is_found_in_a_large_bank_without_parsing_the_rest(
    large: Bank, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    large.add([entry(key(7), device="gpu:sm_90/132:abc"), entry(key(7), kind="find")])
    large.add([entry(key(7), config={"tile": 8}, speedup=gain(9.0))])
    whole = [one for one in large.entries() if one.problem == key(7)]
    parsed = is_parsed_whole(monkeypatch)
    reader = Bank.open(large.path.parent)
    assert reader.entries_of(key(7)) == whole and len(whole) == 3
    assert reader.entries_of(key(200)) == []
    assert not parsed


def test_an_entry_is_added_to_a_large_bank_without_rewriting_or_parsing_it(
    large: Bank, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, inode = large.path.read_bytes(), large.path.stat().st_ino
    parsed = is_parsed_whole(monkeypatch)
    writer = Bank.open(large.path.parent)
    assert writer.put(entry("new:1:f32")) == Changes(new=1)
    assert writer.put(entry(key(3), config={"tile": 9}, speedup=gain(9.0))) == Changes(replaced=1)
    after = large.path.read_bytes()
    assert after.startswith(before) and large.path.stat().st_ino == inode
    for bank in (writer, large, Bank.open(large.path.parent)):
        assert bank.lookup("new:1:f32", DEVICE) == entry("new:1:f32")
        assert [one.config["tile"] for one in bank.ranked(key(3), DEVICE)] == [9, 3]
    assert not parsed


def test_the_index_grows_with_the_bank(large: Bank, entry: MakeEntry) -> None:
    for start in range(1000, 3000, 500):
        large.add(entry(key(number)) for number in range(start, start + 500))
    index = Index.open(index_of(large))
    assert index is not None
    assert index.summary.lines == 2200 and 0.6 * index.summary.slots > 2200
    reader = Bank.open(large.path.parent)
    assert all(reader.lookup(key(number), DEVICE) for number in range(1000, 3000))


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def nonsense(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def sealed(data: bytearray) -> bytes:
    """An index whose blocks have the checksums that they should have."""
    for number, block in enumerate(range(256, len(data), 256)):
        check = zlib.crc32(data[block : block + 240], number)
        data[block + 240 : block + 244] = check.to_bytes(4, "little")
    return bytes(data)


def pointing_elsewhere(path: Path) -> None:
    """Sound as to its header, and wrong in every slot."""
    data = bytearray(path.read_bytes())
    for slot in range(256, len(data), 16):
        if any(data[slot + 8 : slot + 16]):
            data[slot + 8 : slot + 16] = (700).to_bytes(8, "little")
    path.write_bytes(sealed(data))


def far_away(path: Path) -> None:
    data = bytearray(path.read_bytes())
    for slot in range(256, len(data), 16):
        if any(data[slot + 8 : slot + 16]):
            data[slot + 8 : slot + 16] = (2**64 - 2).to_bytes(8, "little")
    path.write_bytes(sealed(data))


def swapped(path: Path) -> None:
    """Each key has the line of another."""
    data = bytearray(path.read_bytes())
    used = [slot for slot in range(256, len(data), 16) if any(data[slot + 8 : slot + 16])]
    places = [data[slot + 8 : slot + 16] for slot in used]
    for slot, place in zip(used, [*places[1:], places[0]], strict=True):
        data[slot + 8 : slot + 16] = place
    path.write_bytes(sealed(data))


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "spoil",
    [Path.unlink, torn, nonsense, pointing_elsewhere, far_away, swapped, a_folder, a_fifo],
)
def test_an_index_is_never_the_truth(
    large: Bank, entry: MakeEntry, spoil: Callable[[Path], None]
) -> None:
    spoil(index_of(large))
    reader = Bank.open(large.path.parent)
    assert reader.lookup(key(7), DEVICE) == entry(key(7), config={"tile": 7})
    assert reader.lookup(key(300), DEVICE) is None
    writer = Bank.open(large.path.parent)
    assert writer.put(entry("new:1:f32")) == Changes(new=1)
    assert writer.put(entry(key(9), config={"tile": 9})) == Changes(same=1)
    assert len(Bank.open(large.path.parent).entries()) == 201


def zeros(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:256] + bytes(len(data) - 256))


def random_bytes(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:256] + random.Random(1).randbytes(len(data) - 256))


def one_block_lost(path: Path) -> None:
    """Each block but the first is the one before it."""
    data = path.read_bytes()
    path.write_bytes(data[:512] + data[256:-256])


def of_version_1(path: Path) -> None:
    """An index of the layout without checksums that says nothing of any key."""
    head = b"SKJBIX01" + path.read_bytes()[8:252]
    path.write_bytes(head + zlib.crc32(head).to_bytes(4, "little") + bytes(960 * 16))


@pytest.mark.parametrize("spoil", [zeros, random_bytes, one_block_lost, of_version_1])
def test_a_damaged_index_hides_nothing_and_is_made_anew(
    large: Bank, spoil: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (7, 300):  # a hit, and a miss, which is not believed either
        spoil(index_of(large))
        reader = Bank.open(large.path.parent)
        assert (reader.lookup(key(number), DEVICE) is not None) == (number < 200)
        with monkeypatch.context() as patched:
            parsed = is_parsed_whole(patched)
            again = Bank.open(large.path.parent)
            assert all(again.lookup(key(known), DEVICE) for known in range(200))
            assert again.lookup(key(300), DEVICE) is None
            assert not parsed, "the first reader left a sound index"


def test_a_damaged_index_is_not_carried_on_by_a_writer(large: Bank, entry: MakeEntry) -> None:
    with large.path.open("a") as file:
        file.write(f"{entry('new:1:f32').line}\n")  # for which the index has to be updated
    zeros(index_of(large))
    Bank.open(large.path.parent).add(entry(key(number)) for number in range(1000, 1600))
    reader = Bank.open(large.path.parent)
    known = [*map(key, range(200)), *map(key, range(1000, 1600)), "new:1:f32"]
    assert all(reader.lookup(problem, DEVICE) for problem in known)


def test_a_file_that_others_changed_is_indexed_anew(
    large: Bank, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = large.path.read_bytes().splitlines(keepends=True)
    changed = [lines[0].replace(b"add:0:", b"sub:0:"), *lines[1:]]
    large.path.write_bytes(b"".join(changed))  # in place, of the same size
    assert Bank.open(large.path.parent).lookup("sub:0:f32", DEVICE) is not None
    parsed = is_parsed_whole(monkeypatch)
    assert Bank.open(large.path.parent).lookup(key(0), DEVICE) is None
    assert not parsed, "the first reader left an index"


def test_lines_that_were_appended_without_the_index_are_found(
    large: Bank, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with large.path.open("a") as file:
        file.write(f"{entry('new:1:f32').line}\n")  # and then the writer was killed
    parsed = is_parsed_whole(monkeypatch)
    assert Bank.open(large.path.parent).lookup("new:1:f32", DEVICE) == entry("new:1:f32")
    assert Bank.open(large.path.parent).lookup(key(5), DEVICE) is not None
    assert not parsed
    large.put(entry("newer:1:f32"))
    for problem in ("new:1:f32", "newer:1:f32", key(5)):
        assert Bank.open(large.path.parent).lookup(problem, DEVICE) is not None


def test_an_index_that_did_not_get_to_the_disk_hides_nothing(
    large: Bank, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(descriptor: int) -> None:
        raise OSError(5, "no power")

    with monkeypatch.context() as patched:
        patched.setattr("os.fdatasync", cut)
        large.put(entry("new:1:f32"))
        large.put(entry(key(3), config={"tile": 3}, speedup=gain(9.0)))
    parsed = is_parsed_whole(monkeypatch)
    for _ in range(2):  # from behind what the index covers, and by the index
        reader = Bank.open(large.path.parent)
        assert reader.lookup("new:1:f32", DEVICE) == entry("new:1:f32")
        (known,) = reader.ranked(key(3), DEVICE)
        assert known.speedup == gain(9.0)
    assert not parsed
    assert len(Bank.open(large.path.parent).entries()) == 201


def test_a_copy_of_a_bank_and_its_index_is_used_as_it_is(
    large: Bank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large.join({})
    copy = tmp_path / "copy"
    shutil.copytree(large.path.parent, copy)
    parsed = is_parsed_whole(monkeypatch)
    assert Bank.open(copy).lookup(key(5), DEVICE) is not None
    assert not parsed


def test_a_bank_in_a_directory_that_cannot_be_written_is_read(
    large: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_of(large).unlink()
    before = sorted(large.path.parent.iterdir())
    monkeypatch.setattr("os.access", lambda path, mode: False)
    reader = Bank.open(large.path.parent)
    assert reader.lookup(key(5), DEVICE) is not None
    parsed = is_parsed_whole(monkeypatch)
    assert reader.lookup(key(6), DEVICE) is not None
    assert not parsed, "it was kept in memory"
    assert sorted(large.path.parent.iterdir()) == before


def test_bad_lines_of_a_large_bank_are_told_and_newer_ones_keep_it_from_being_written(
    large: Bank,
    entry: MakeEntry,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complained: set[Path] = set()
    monkeypatch.setattr("skipjack.bank.file._warned", complained)
    newer = entry("new:1:f32").line.replace('"format":2', '"format":3')
    with large.path.open("a") as file:
        file.write(f"nonsense\n{newer}\n")
    Bank.open(large.path.parent).entries()
    index_of(large).unlink()
    for _ in range(2):  # without an index, and with one
        caplog.clear()
        complained.clear()
        assert Bank.open(large.path.parent).lookup(key(1), DEVICE) is not None
        assert Bank.open(large.path.parent).lookup(key(2), DEVICE) is not None
        (said,) = caplog.messages  # once in a process
        damaged, newer = said.split("; line 202: ")
        assert "line 201: this is not JSON" in damaged
        assert damaged.endswith("restores it from the ledger")
        assert newer == "it has format 3, this Skipjack knows 2; use a newer Skipjack"
        with pytest.raises(NewerFormatError, match="line 202: it has format 3"):
            Bank.open(large.path.parent).put(entry())


def test_a_clock_that_is_set_back_does_not_hide_what_was_added(
    large: Bank, entry: MakeEntry
) -> None:
    reader = Bank.open(large.path.parent)
    assert reader.lookup("new:1:f32", DEVICE) is None
    large.put(entry("new:1:f32"))
    os.utime(large.path, (0, 0))
    assert reader.lookup("new:1:f32", DEVICE) == entry("new:1:f32")
    assert Bank.open(large.path.parent).lookup("new:1:f32", DEVICE) == entry("new:1:f32")


# Writing


@pytest.mark.parametrize("size", [3, 200])
@pytest.mark.parametrize("cut", [1, 40, -1])
def test_a_killed_writer_costs_the_line_that_it_wrote(
    bank: Bank, entry: MakeEntry, size: int, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    bank.add(entry(key(number)) for number in range(size))
    whole = bank.path.read_bytes()
    bank.path.write_bytes(whole + entry("torn:1:f32").line.encode()[:cut])
    reader = Bank.open(bank.path.parent)
    assert len(reader.entries()) == size
    assert reader.lookup(key(0), DEVICE) is not None and not caplog.messages
    Bank.open(bank.path.parent).put(entry("new:1:f32"))
    assert bank.path.read_bytes() == whole + entry("new:1:f32").line.encode() + b"\n"
    assert "was not finished; `skipjack bank rebuild`" in caplog.text
    aside = bank.path.with_name("bank.jsonl.bad-lines").read_bytes()
    assert aside == entry("torn:1:f32").line.encode()[:cut] + b"\n"


@pytest.mark.parametrize(("size", "name"), [(1, "user"), (1, "bank other"), (3, "bank other")])
def test_a_file_that_was_cut_off_is_told_once(
    bank: Bank, entry: MakeEntry, size: int, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    bank.add(entry(key(number)) for number in range(size))
    whole = bank.path.read_bytes()
    bank.path.write_bytes(whole[:-50])
    for _ in range(2):  # again after it has changed, and after `forget_banks`
        assert len(BankLayer(name, bank.path).bank.entries()) == size - 1
        bank.path.write_bytes(whole[:-40])
        forget_banks()
    (said,) = caplog.messages
    assert f"left out of the bank {bank.path}: line {size}: it is cut off before its end" in said
    assert ("skipjack bank rebuild" in said) == (name == "user")
    assert ("get a new copy of the file from its owner" in said) == (name != "user")


def test_a_last_line_without_its_end_is_an_entry_all_the_same(bank: Bank, entry: MakeEntry) -> None:
    bank.path.write_text(entry("a:1:f32").line)
    bank.put(entry("b:1:f32"))
    assert [one.problem for one in Bank.open(bank.path.parent).entries()] == ["a:1:f32", "b:1:f32"]


def test_a_full_disk_leaves_the_file_as_it_was(
    large: Bank, entry: MakeEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write = large.path.read_bytes(), os.write

    def full(descriptor: int, data: Any) -> int:
        write(descriptor, data[:100])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.write", full)
        with pytest.raises(StorageError, match=r"disk full.*nothing was changed"):
            large.put(entry("new:1:f32"))
    assert large.path.read_bytes() == before
    assert large.lookup("new:1:f32", DEVICE) is None
    large.put(entry("new:1:f32"))
    assert Bank.open(large.path.parent).lookup("new:1:f32", DEVICE) == entry("new:1:f32")


def test_displaced_lines_go_before_they_are_most_of_the_file(bank: Bank, entry: MakeEntry) -> None:
    held = entry()
    bank.put(held)
    for _ in range(300):
        held = entry(evidence={"replaced": replacing(held, ReplacementReason.SLOWER)})
        bank.put(held)
    assert bank.lookup(held.problem, DEVICE) == held
    assert bank.path.stat().st_size < 2 * INDEXED_BYTES


def test_a_file_that_has_another_name_too_is_not_changed_under_it(
    large: Bank, entry: MakeEntry, tmp_path: Path
) -> None:
    backup = tmp_path / "backup.jsonl"
    backup.hardlink_to(large.path)
    before = backup.read_bytes()
    large.put(entry("new:1:f32"))
    assert backup.read_bytes() == before
    assert large.lookup("new:1:f32", DEVICE) == entry("new:1:f32")


def test_a_bank_of_format_1_is_read_appended_to_and_merged_to_format_2(
    bank: Bank, entry: MakeEntry
) -> None:
    old = entry("old:1:f32").record()
    for name in ("protocol", "toolchain", "output", "origin", "launch"):
        del old[name]
    import json

    bank.path.write_text(json.dumps({**old, "format": 1}) + "\n")
    assert bank.lookup("old:1:f32", DEVICE) == entry("old:1:f32")
    bank.put(entry("new:1:f32"))
    assert b'"format": 1' in bank.path.read_bytes(), "appending leaves it as it is"
    bank.join({})
    both = [entry("new:1:f32"), entry("old:1:f32")]
    assert bank.path.read_text() == "".join(f"{one.line}\n" for one in both)


WRITE = """
import sys
from dataclasses import replace
from pathlib import Path
from skipjack.bank import Bank, BankEntry
directory, writer, line = sys.argv[1:]
bank, entry = Bank.open(Path(directory)), BankEntry.from_line(line)
for number in range(100000):
    bank.put(replace(entry, problem=f"add:{writer}x{number}:f32"))
    print(number, flush=True)
"""


@pytest.mark.long
def test_writers_that_are_killed_at_any_moment_lose_nothing_that_was_confirmed(
    large: Bank, entry: MakeEntry
) -> None:
    sure: dict[str, int] = {}
    for round_, patience in enumerate((5, 20, 35)):
        names = [f"{round_}x{number}" for number in range(2)]
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITE, str(large.path.parent), name, entry().line],
                stdout=subprocess.PIPE,
                text=True,
            )
            for name in names
        ]
        for name, writer in zip(names, writers, strict=True):
            assert writer.stdout is not None
            for _ in range(patience):
                sure[name] = int(writer.stdout.readline())
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
    bank = Bank.open(large.path.parent)
    bank.put(entry("last:1:f32"))
    known = {one.problem for one in bank.entries()}
    for name, last in sure.items():
        for number in range(last + 1):
            problem = f"add:{name}x{number}:f32"
            assert problem in known and bank.lookup(problem, DEVICE) is not None
            assert Bank.open(large.path.parent).lookup(problem, DEVICE) is not None


def test_a_reader_of_a_bank_that_is_written_all_the_time_sees_whole_entries(
    large: Bank, entry: MakeEntry, caplog: pytest.LogCaptureFixture
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WRITE, str(large.path.parent), "9", entry().line],
        stdout=subprocess.PIPE,
        text=True,
    ) as writer:
        assert writer.stdout is not None
        reader = Bank.open(large.path.parent)
        for number in range(60):
            writer.stdout.readline()
            problem = f"add:9x{number}:f32"
            assert reader.lookup(problem, DEVICE) == replace(entry(), problem=problem)
            assert reader.lookup(key(number), DEVICE) is not None
        writer.kill()
    assert not caplog.messages


def test_the_file_is_told_which_lines_are_displaced(large: Bank, entry: MakeEntry) -> None:
    file = BankFile(large.path)
    (known,) = file.kept(key_of(key(1), DEVICE))
    stronger = replace(known.entry, speedup=gain(9.0))
    large.put(stronger)
    index = Index.open(index_of(large))
    assert index is not None
    assert known.offset not in index.offsets(key_hash(known.entry.key))
    assert index.summary.dead_bytes == known.length
    assert ranked([known.entry, stronger]) == (stronger,)
