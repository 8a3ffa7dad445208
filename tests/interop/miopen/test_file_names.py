"""Names of files say the device, though hexadecimal counts follow without a separator."""

import pytest

from skipjack.errors import UsageError
from skipjack.interop.miopen import DbName, db_name, parse_db_name

NAMES = [
    ("gfx906_60.HIP.fdb.txt", DbName("find", "gfx906", 60)),
    ("gfx90878.HIP.fdb.txt", DbName("find", "gfx908", 120)),
    ("gfx90a68.HIP.fdb.txt", DbName("find", "gfx90a", 104)),
    ("gfx90a6e.db.txt", DbName("perf", "gfx90a", 110)),
    ("gfx942130.HIP.fdb.txt", DbName("find", "gfx942", 304)),
    ("gfx942e4.db", DbName("perf_sqlite", "gfx942", 228)),
    ("gfx1030_36.db", DbName("perf_sqlite", "gfx1030", 36)),
    ("gfx110060.kdb", DbName("kernel", "gfx1100", 96)),
    ("gfx803_36.db.txt", DbName("perf", "gfx803", 36)),
    ("gfx803_36.cd.pdb.txt", DbName("old_perf", "gfx803", 36)),
    ("gfx906_60.cd.updb.txt", DbName("old_user_perf", "gfx906", 60)),
    ("gfx908.kdb", DbName("kernel", "gfx908", 0)),
    ("gfx90878.ukdb", DbName("user_kernel", "gfx908", 120)),
    ("gfx908_nosramecc78.kdb", DbName("kernel", "gfx908", 120, features="nosramecc")),
    (
        "gfx90a_sramecc_xnack_60.HIP.fdb.txt",
        DbName("find", "gfx90a", 60, features="sramecc_xnack"),
    ),
    ("gfx900_56.OpenCL.fdb.txt", DbName("find", "gfx900", 56, "OpenCL")),
    (
        "gfx906_60.HIP.2_9_0_8252-64506314e.ufdb.txt",
        DbName("find", "gfx906", 60, user_version="2_9_0_8252-64506314e"),
    ),
    (
        "gfx90a68.HIP.3_3_0_abc.udb.txt",
        DbName("perf", "gfx90a", 104, user_version="3_3_0_abc"),
    ),
    ("gfx906_60_1.1.0.udb", DbName("perf_sqlite", "gfx906", 60, user_version="1.1.0")),
    ("batchnorm_gfx90a68.db.txt", DbName("perf", "gfx90a", 104, batchnorm=True)),
    ("znver4_1.HIP.fdb.txt", DbName("find", "znver4", 1)),
    ("emeraldrapids_128.db.txt", DbName("perf", "emeraldrapids", 128)),
    ("sm_90_132.HIP.fdb.txt", DbName("find", "sm_90", 132)),
    ("sm_90.kdb", DbName("kernel", "sm_90", 0)),
]


@pytest.mark.parametrize(("text", "name"), NAMES)
def test_a_name_and_what_it_says(text: str, name: DbName) -> None:
    assert parse_db_name(text) == name
    assert db_name(name) == text


def test_a_hexadecimal_count_of_64_is_understood_though_it_is_written_otherwise() -> None:
    name = parse_db_name("gfx120140.HIP.3_6_0_8d1ae90e.udb.txt")
    assert name == DbName("perf", "gfx1201", 64, user_version="3_6_0_8d1ae90e")


@pytest.mark.parametrize(
    "text",
    [
        *("usr_gfx90a68.HIP.fdb.txt", "notes.txt", "gfx90878.fdb.txt", "gfx90878.HIP.ufdb.txt"),
        *("gfx9.kdb", ".db", "x.jsonl", "gfx90878.HIP.1_2.fdb.txt", "gfx906_60.udb"),
    ],
)
def test_other_names_say_nothing(text: str) -> None:
    assert parse_db_name(text) is None


def test_there_is_no_name_for_nonsense() -> None:
    with pytest.raises(UsageError, match="has no file name"):
        db_name(DbName("find", "gfx908", -1))
    with pytest.raises(UsageError, match="has no file name"):
        db_name(DbName("find", "gfx908", 120, features="ecc"))
