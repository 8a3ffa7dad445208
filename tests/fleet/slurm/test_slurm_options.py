"""The options of a request to Slurm, and the resulting options of sbatch."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.errors import UsageError
from skipjack.fleet.slurm import SlurmRequest
from skipjack.fleet.slurm.batch_job import seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("1:00:00", 3600),
        ("2-0", 172800),
        ("1-2:03", 93780),
        ("1-2:03:04", 93784),
    ],
)
def test_a_time_is_read_as_sbatch_reads_it(text: str, expected: int) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "1h", "-5", "1:2:3:4", "1-", "5 ", "5\n", "٣٠"])
def test_another_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="time is"):
        SlurmRequest("l", time=text)


def test_a_time_that_leaves_nothing_to_work_in_is_refused() -> None:
    with pytest.raises(UsageError, match="at least 3 minutes"):
        SlurmRequest("l", time="2:59")
    SlurmRequest("l", time="3")


@pytest.mark.parametrize("field", ["partition", "account", "qos"])
@pytest.mark.parametrize("value", ["a b", "a;b", "$(a)", "-x", "a\n#SBATCH --uid=0", "a'b", "a=b"])
def test_a_name_with_other_characters_is_refused(field: str, value: str) -> None:
    with pytest.raises(UsageError, match=field):
        SlurmRequest("l", **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [("nodes", 0), ("gpus_per_node", -1), ("margin_s", 5), ("gather_s", 0), ("most_restarts", 0)],
)
def test_a_number_that_is_too_small_is_refused(field: str, value: int) -> None:
    with pytest.raises(UsageError, match=f"{field} is {value}"):
        SlurmRequest("l", **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["lots", "5 G", "-1", "1.5G"])
def test_memory_is_a_size(size: str) -> None:
    with pytest.raises(UsageError, match="memory"):
        SlurmRequest("l", memory=size)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("constraint=a100", "in one argument"),
        ("--constraint a100", "in one argument"),
        ('--comment="x"', "in one argument"),
        ("--comment=$(x)", "in one argument"),
        ("--comment=a\n--uid=0", "in one argument"),
        ("-p", "in one argument"),
        ("--nodes=4", "set nodes instead"),
        ("--mem=4G", "set memory instead"),
        ("--array=1-9", "relies on it"),
        ("--signal=TERM", "relies on it"),
        ("--wrap=true", "relies on it"),
    ],
)
def test_an_extra_option_that_would_break_the_script_is_refused(option: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        SlurmRequest("l", extra=(option,))


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("postgresql+psycopg://me:secret@host/db", "password"),
        ("--db=mysql+pymysql://:secret@host/db", "password"),
        ("--engine=local", "by the script itself"),
        ("-lother", "by the script itself"),
        ("--address", "by the script itself"),
        ("a\nb", "control"),
    ],
)
def test_an_argument_of_run_that_does_not_belong_is_refused(argument: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        SlurmRequest("l", run_arguments=(argument,))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("label", ["", "a\nb", "a\x00b", "a\u2028b"])
def test_a_label_is_one_line(label: str) -> None:
    with pytest.raises(UsageError, match="label"):
        SlurmRequest(label)


def test_every_field_reaches_sbatch() -> None:
    request = SlurmRequest(
        "resnet_2026_11",
        nodes=4,
        time="1:00:00",
        gpus_per_node=8,
        partition="gpu",
        account="team-1",
        qos="long",
        memory="64G",
        shared=True,
        until_done=True,
        margin_s=90,
        extra=("--constraint=a100&nvme", "--output=logs/%j.txt"),
    )
    assert request.options() == (
        "--job-name=skipjack-resnet_2026_11",
        "--nodes=4",
        "--ntasks-per-node=1",
        "--time=1:00:00",
        "--gpus-per-node=8",
        "--partition=gpu",
        "--account=team-1",
        "--qos=long",
        "--mem=64G",
        "--signal=B:USR1@90",
        "--requeue",
        "--open-mode=append",
        "--constraint=a100&nvme",
        "--output=logs/%j.txt",
    )


def test_nodes_are_ours_alone_unless_shared() -> None:
    assert {"--exclusive", "--mem=0", "--no-requeue"} <= set(SlurmRequest("l").options())
    assert not {"--exclusive", "--mem=0"} & set(SlurmRequest("l", shared=True).options())


@given(st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1))
def test_a_job_name_is_one_plain_word(label: str) -> None:
    name = SlurmRequest(label).job_name
    assert name.isascii() and name.replace("-", "").replace("_", "").replace(".", "").isalnum()


def test_labels_that_differ_in_signs_only_are_different_jobs() -> None:
    assert len({SlurmRequest(label).job_name for label in ("a b", "a/b", "a_b")}) == 3
