"""``skipjack run --image``: a label is tuned by workers in containers, and notes the image."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from image_stand_ins import ID, StandIn

from skipjack.fleet.images import ImageIdentity, note_image
from skipjack.fleet.model import JobPlan, Label
from skipjack.fleet.store import NewProblem, open_store
from skipjack.native import cpu
from skipjack.operations import parse

Skipjack = Callable[..., CompletedProcess[str]]


@pytest.fixture
def label(user_dir: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A label with one small job."""
    monkeypatch.delenv("SKIPJACK_PLUGINS", raising=False)  # another test's may bring a GPU
    problem = parse("matmul:24x24x24")
    with open_store() as store:
        store.problems.add([NewProblem(problem.key, "matmul", "", "f32")], "small")
        plan = JobPlan(problem.key, cpu.detect().name, budget=2, round=2)
        store.jobs.add(Label("boxed", "me"), [plan])
    return "boxed"


def test_a_label_is_tuned_in_containers(
    skipjack: Skipjack, docker: StandIn, label: str, user_dir: Path
) -> None:
    done = skipjack("run", "-l", label, "--image", "my_img", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["states"] == {"evaluated": 1}
    runs = [line for line in docker.asked() if line[0] == "run"]
    names = sorted(line[line.index("--name") + 1].rpartition("-")[0] for line in runs)
    assert names == ["skipjack-build-1", "skipjack-evaluate-1"]
    assert docker.containers() == {}
    with open_store() as store:
        assert store.labels.get(label).image == f"my_img {ID}"


def test_another_image_is_warned_of(docker: StandIn, label: str) -> None:
    with open_store() as store:
        assert note_image(store, label, ImageIdentity("my_img", ID)) == ""
        assert note_image(store, label, ImageIdentity("my_img", ID)) == ""
        newer = note_image(store, label, ImageIdentity("my_img", "sha256:" + "b" * 64))
        assert newer.startswith("label boxed began with another image of that name, and continues")
        other = note_image(store, label, ImageIdentity("other", ID))
        assert "began with my_img sha256:aaaa" in other and "continues with other (aaaa" in other
        assert store.labels.get(label).image == f"my_img {ID}"


def test_images_are_for_workers_of_this_machine(skipjack: Skipjack) -> None:
    done = skipjack("run", "-l", "x", "--image", "my_img", "--engine", "ray")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("skipjack: --image is for --engine local; skipjack fleet up")
