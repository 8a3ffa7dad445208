"""Perf-dbs in SQLite are the records of the text form."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skipjack.errors import CorruptFileError, StorageError, UsageError
from skipjack.interop.miopen import (
    DatabaseRecord,
    RecordItem,
    check_paths,
    perf_contents,
    read_perf_sqlite,
    read_text_db,
    write_perf_sqlite,
    write_perf_sqlite_of,
)
from skipjack.interop.miopen.perf_sqlite import PerfContents, perf_devices

_BESIDE = Path(__file__).parents[4] / "shared" / "data" / "miopen"
FOLDER = os.environ.get("FIND_DBS", str(_BESIDE) if _BESIDE.is_dir() else "")

KEY = "2x128x28x28x1x3x3x1x256x64x1x1x0x1x1x0x1x1x0x0x1xNCHWxFP32x"
FORWARD = DatabaseRecord(f"{KEY}F", [RecordItem("ConvA", "8,8<64, 32>+1"), RecordItem("ConvB", "")])
BACKWARD = DatabaseRecord(f"{KEY}B", [RecordItem("ConvA", "1")])


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "gfx906_60.db"
    write_perf_sqlite(path, [FORWARD, BACKWARD])
    return path


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def test_records_come_back_sorted(database: Path) -> None:
    assert read_perf_sqlite(database) == [BACKWARD, FORWARD]


def test_the_tables_are_those_of_miopen(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        tables = [text for (text,) in connection.execute("SELECT sql FROM sqlite_master")]
    assert tables[1] == (
        "CREATE TABLE `perf_db` (`id` INTEGER PRIMARY KEY ASC,`solver` TEXT NOT NULL,"
        "`config` INTEGER NOT NULL, `params` TEXT NOT NULL)"
    )
    assert tables[0].startswith(
        "CREATE TABLE `config` (`id` INTEGER PRIMARY KEY ASC,`layout` TEXT NOT NULL,"
    )
    assert "`out_channels` INT NOT NULL, `batchsize` INT NOT NULL,`pad_h`" in tables[0]
    assert tables[2].startswith("CREATE UNIQUE INDEX `idx_config` ON config( layout,data_type,")


@pytest.mark.skipif(not FOLDER, reason="no databases are here; name a folder in FIND_DBS")
def test_a_real_file_has_the_same_tables_and_records(tmp_path: Path) -> None:
    import bz2

    for packed in Path(FOLDER).glob("*.db.bz2"):
        text = packed.with_name(packed.name.replace(".bz2", ".txt"))
        records = read_perf_sqlite(packed)
        if text.exists():
            assert records == read_text_db(text)
        real, ours = tmp_path / "real.db", tmp_path / "ours.db"
        real.write_bytes(bz2.decompress(packed.read_bytes()))
        write_perf_sqlite(ours, records)
        schemas = []
        for path in (real, ours):
            with closing(sqlite3.connect(path)) as connection:
                schemas.append(connection.execute("SELECT sql FROM sqlite_master").fetchall())
        assert schemas[0] == schemas[1]


def test_what_is_no_record_is_counted(database: Path) -> None:
    execute(
        database,
        "DELETE FROM perf_db WHERE config = 2",
        "INSERT INTO perf_db (solver, config, params) VALUES ('S', 77, '1')",
    )
    assert perf_contents(database) == PerfContents([FORWARD], (BACKWARD.key,), 1)


def test_the_first_of_equal_keys_and_solvers_counts(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    twice = DatabaseRecord(FORWARD.key, [RecordItem("A", "1"), RecordItem("A", "2")])
    write_perf_sqlite(path, [twice, FORWARD])
    assert read_perf_sqlite(path) == [DatabaseRecord(FORWARD.key, [RecordItem("A", "1")])]


def test_what_a_writer_left_in_its_log_counts_and_nothing_is_left_beside(
    database: Path, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE perf_db SET params = 'new' WHERE solver = 'ConvB'")
        writer.commit()
        before = sorted(tmp_path.iterdir())
        assert database.with_name(f"{database.name}-wal") in before
        assert read_perf_sqlite(database)[1].items[1] == RecordItem("ConvB", "new")
        assert sorted(tmp_path.iterdir()) == before


def test_a_file_whose_log_holds_changes_is_not_replaced(database: Path) -> None:
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE perf_db SET params = 'new'")
        writer.commit()
        with pytest.raises(StorageError, match=r"gfx906_60.db-wal contains changes"):
            write_perf_sqlite(database, [FORWARD])
    write_perf_sqlite(database, [FORWARD])
    assert read_perf_sqlite(database) == [FORWARD]


def test_where_nothing_can_be_written_one_sentence_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"cannot write .*x.db: No such file or directory"):
        write_perf_sqlite(tmp_path / "none" / "x.db", [FORWARD])


def test_a_file_in_wal_mode_is_read_where_nothing_can_be_written(
    database: Path, tmp_path: Path
) -> None:
    execute(database, "PRAGMA journal_mode = WAL")
    tmp_path.chmod(0o500)
    try:
        assert len(read_perf_sqlite(database)) == 2
        assert list(tmp_path.iterdir()) == [database]
    finally:
        tmp_path.chmod(0o700)


def test_one_device_of_an_old_file_is_chosen(database: Path) -> None:
    execute(
        database,
        "ALTER TABLE perf_db ADD COLUMN arch TEXT",
        "ALTER TABLE perf_db ADD COLUMN num_cu INT",
        "UPDATE perf_db SET arch = 'gfx900', num_cu = 56",
    )
    assert len(read_perf_sqlite(database)) == 2
    execute(database, "UPDATE perf_db SET arch = 'gfx906', num_cu = 60 WHERE config = 2")
    with pytest.raises(UsageError, match=r"2 devices \(gfx900/56, gfx906/60\); choose one"):
        read_perf_sqlite(database)
    assert perf_contents(database, "gfx906/60") == PerfContents(
        [BACKWARD], other_devices=2, devices=("gfx900/56", "gfx906/60")
    )
    with pytest.raises(UsageError, match="nothing for gfx908/120; it has gfx900/56"):
        read_perf_sqlite(database, "gfx908/120")


def test_one_file_holds_several_devices(tmp_path: Path) -> None:
    path = tmp_path / "miopen.db"
    other = DatabaseRecord(FORWARD.key, [RecordItem("A", "9,9")])
    write_perf_sqlite_of(path, {"gfx900/56": [FORWARD, BACKWARD], "gfx908/120": [other]})
    assert perf_devices(path) == ("gfx900/56", "gfx908/120")
    assert read_perf_sqlite(path, "gfx900/56") == [BACKWARD, FORWARD]
    assert read_perf_sqlite(path, "gfx908/120") == [other]
    with closing(sqlite3.connect(path)) as connection:
        (problems,) = connection.execute("SELECT count(*) FROM config").fetchone()
        indexed = [name for _, _, name in connection.execute("PRAGMA index_info(idx_perf_db)")]
    assert problems == 2
    assert indexed == ["solver", "config", "arch", "num_cu"]
    (report,) = check_paths([path])
    assert not report.findings and report.records == 2


def test_three_axes_that_say_nchw_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    old = DatabaseRecord(f"3{FORWARD.key[1:]}", [RecordItem("A", "1")])
    write_perf_sqlite(path, [old])
    assert read_perf_sqlite(path) == [old]


def test_problems_of_batch_norm_are_read(tmp_path: Path) -> None:
    path = tmp_path / "batchnorm_gfx90a68.db"
    words = ("layout", "direction", "data_type", "mode")
    numbers = ("spatial_dim", "batchsize", "in_channels", "in_h", "in_w", "in_d")
    flags = ("resultsave", "resultrunning", "useSaved")
    columns = [f"{name} TEXT" for name in words] + [f"{name} INT" for name in numbers + flags]
    execute(
        path,
        f"CREATE TABLE config (id INTEGER PRIMARY KEY, {', '.join(columns)})",
        "CREATE TABLE perf_db (id INTEGER PRIMARY KEY, solver TEXT, config INT, params TEXT)",
        "INSERT INTO config VALUES (1, 'NCHW', 'Trn', 'FP32', '1', 2, 64, 256, 14, 14, 1, 1, 0, 0)",
        "INSERT INTO perf_db VALUES (1, 'Bn', 1, '4')",
    )
    assert read_perf_sqlite(path) == [
        DatabaseRecord("2x64x256x14x14x1x1x0x0xNCHWxTrnxFP32x1", [RecordItem("Bn", "4")])
    ]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("DROP TABLE perf_db", "it has no table perf_db with solver, config, params"),
        ("ALTER TABLE config DROP COLUMN bias", "has no column bias"),
        ("ALTER TABLE config ADD COLUMN colour TEXT", "a column colour .* so that no data is lost"),
        ("UPDATE perf_db SET params = x'ff00'", "row 1 of perf_db has values of wrong types"),
        ("UPDATE perf_db SET params = 'a;b'", "'a;b' cannot be a value"),
    ],
)
def test_other_tables_are_refused_in_a_sentence(
    database: Path, statement: str, complaint: str
) -> None:
    execute(database, "DROP INDEX idx_config", statement)
    with pytest.raises(CorruptFileError, match=complaint):
        read_perf_sqlite(database)


def test_files_that_are_none_are_refused_in_a_sentence(database: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(CorruptFileError, match="is empty"):
        read_perf_sqlite(empty)
    empty.write_text("text")
    with pytest.raises(CorruptFileError, match="not an SQLite file"):
        read_perf_sqlite(empty)
    database.write_bytes(database.read_bytes()[:6000])
    with pytest.raises(CorruptFileError, match="cannot be used as a perf-db"):
        read_perf_sqlite(database)
    with pytest.raises(StorageError, match="does not exist"):
        read_perf_sqlite(tmp_path / "none.db")


def test_keys_that_sqlite_has_no_columns_for_leave_the_old_file(database: Path) -> None:
    before = database.read_bytes()
    with pytest.raises(UsageError, match=r"write a text database \(.db.txt\)"):
        write_perf_sqlite(database, [DatabaseRecord("2x3x4", [RecordItem("A", "1")])])
    with pytest.raises(StorageError, match="not UTF-8"):
        write_perf_sqlite(database, [DatabaseRecord(FORWARD.key, [RecordItem("A", "\udcff")])])
    assert database.read_bytes() == before
    assert list(database.parent.iterdir()) == [database]
