"""Detection of the container engine, and its errors."""

from pathlib import Path

import pytest
from image_stand_ins import Install, StandIn

from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.images import complaint, find_engine, gpu_here, ready_engine
from skipjack.fleet.images.container_engine import VARIABLE, _delegated
from skipjack.fleet.images.names import identity
from skipjack.gpu import read_nodes
from skipjack.gpu.discovery import only_drivers
from skipjack.testing.fake_gpu import FakeDriver


def test_docker_is_taken_before_podman(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("podman", "docker"):
        install(name)
    monkeypatch.delenv(VARIABLE)
    assert find_engine().program == str(tmp_path / "programs" / "docker")
    monkeypatch.setenv(VARIABLE, "podman")
    assert find_engine().name == "podman"


def test_a_docker_that_is_podman_is_given_podmans_options(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("docker")
    monkeypatch.setenv("STAND_IN_VERSION", "podman version 5.0.3")
    assert find_engine().name == "podman"


def test_no_engine_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(UsageError, match="docker nor podman is installed on this machine; install"):
        find_engine()
    monkeypatch.setenv(VARIABLE, "dokcer")
    with pytest.raises(UsageError, match="is 'dokcer', which is not a program here"):
        find_engine()


def test_a_daemon_that_does_not_run_says_so(
    docker: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STAND_IN_DOWN", "1")
    with pytest.raises(SkipjackError) as caught:
        ready_engine()
    assert str(caught.value) == (
        "docker does not answer: Cannot connect to the Docker daemon at unix:///x. "
        "Is the docker daemon running?"
    )


def test_an_image_that_is_not_here_is_not_pulled(docker: StandIn) -> None:
    with pytest.raises(UsageError, match="no image your_img; build it with skipjack image build"):
        identity(ready_engine(), "your_img")
    assert docker.asked() == []


def test_the_last_line_that_tells_something_is_the_reason() -> None:
    said = "docker: Error response from daemon: no space\n\nRun 'docker run --help' for more\n"
    assert complaint(said) == "no space"
    assert complaint(b"") == "it gives no reason"


def test_users_limit_what_systemd_lets_them(tmp_path: Path) -> None:
    place = tmp_path / "user.slice/user-7.slice/user@7.service"
    place.mkdir(parents=True)
    (place / "cgroup.controllers").write_text("cpu io memory pids\n")
    assert _delegated(7, tmp_path) == {"memory"}
    assert _delegated(8, tmp_path) == frozenset()


def test_amds_list_names_the_device_file_of_each_gpu(tmp_path: Path) -> None:
    place = tmp_path / "1"
    place.mkdir()
    lines = ["simd_count 240", "simd_per_cu 4", "gfx_target_version 90008", "drm_render_minor 129"]
    (place / "properties").write_text("\n".join(lines))
    (node,) = read_nodes(tmp_path)
    assert node.render_node == "/dev/dri/renderD129"


class UnlistedCard(FakeDriver):
    """What looks like a GPU of AMD's that the kernel's list does not name."""

    name = "hip"


def test_a_gpu_that_the_kernels_list_does_not_name_is_refused() -> None:
    with only_drivers(UnlistedCard()), pytest.raises(SkipjackError, match="its /dev/dri/renderD"):
        gpu_here("hip:0")


def test_gpus_of_plug_ins_need_no_device() -> None:
    with only_drivers(FakeDriver()):
        assert gpu_here("0") is None
