"""The exact command lines of containers, for docker and for podman."""

import pytest

from skipjack.errors import SkipjackError, UsageError
from skipjack.fleet.images import ContainerEngine, GpuRef, Mount, commands
from skipjack.fleet.images.commands import WorkerContainer

DOCKER = ContainerEngine("docker", "docker")
PODMAN = ContainerEngine("podman", "podman", rootless=True, controllers=frozenset({"memory"}))
WORK = ("python3", "-m", "skipjack.fleet.work.worker", "evaluate", "0")
UUID = "5e1b0f3a-0000-1111-2222-333344445555"
START = "run --rm --interactive --init --pull never --name w --label skipjack=worker"
ALONE = "--log-driver none --network none --ipc private --workdir /"
CAREFUL = "--security-opt no-new-privileges --security-opt label=disable --ulimit core=0"
END = "--entrypoint python3 img -m skipjack.fleet.work.worker evaluate 0"


def line(engine: ContainerEngine, **fields: object) -> str:
    container = WorkerContainer("img", "w", "7:8", **fields)  # type: ignore[arg-type]
    return " ".join(commands.worker_container(engine, container, WORK))


def test_a_builder_has_no_devices() -> None:
    expected = f"docker {START} {ALONE} --user 7:8 {CAREFUL} {END}"
    assert line(DOCKER) == expected


def test_an_evaluator_on_cores_sees_no_others() -> None:
    expected = (
        f"docker {START} {ALONE} --user 7:8 {CAREFUL} --memory 900b --memory-swap 900b "
        f"--cpuset-cpus 2,3 {END}"
    )
    assert line(DOCKER, cores=(2, 3), memory_bytes=900) == expected


def test_what_a_user_may_not_limit_is_not_asked_of_podman() -> None:
    expected = (
        f"podman {START} {ALONE} --userns keep-id --user 7:8 {CAREFUL} "
        f"--memory 900b --memory-swap 900b {END}"
    )
    assert line(PODMAN, cores=(2, 3), memory_bytes=900) == expected


def test_a_rootless_docker_maps_its_root_to_the_user() -> None:
    rootless = ContainerEngine("docker", "docker", rootless=True)
    assert line(rootless) == f"docker {START} {ALONE} {CAREFUL} {END}"


@pytest.mark.parametrize(
    ("engine", "gpu", "expected"),
    [
        (
            DOCKER,
            GpuRef("cuda", 1, UUID),
            f"--ulimit memlock=-1 --gpus device=GPU-{UUID} --env CUDA_VISIBLE_DEVICES=0",
        ),
        (
            DOCKER,
            GpuRef("cuda", 1),
            "--ulimit memlock=-1 --gpus device=1 --env CUDA_VISIBLE_DEVICES=0",
        ),
        (
            PODMAN,
            GpuRef("cuda", 1, UUID),
            f"--device nvidia.com/gpu=GPU-{UUID} --env CUDA_VISIBLE_DEVICES=0",
        ),
        (
            DOCKER,
            GpuRef("hip", 3, UUID, "/dev/dri/renderD152", ("44", "109")),
            "--ulimit memlock=-1 --device /dev/kfd --device /dev/dri/renderD152 --group-add 44 "
            "--group-add 109 --security-opt seccomp=unconfined --env ROCR_VISIBLE_DEVICES=0 "
            "--env HIP_VISIBLE_DEVICES=0",
        ),
        (
            PODMAN,
            GpuRef("hip", 3, render_node="/dev/dri/renderD130"),
            "--device /dev/kfd --device /dev/dri/renderD130 --group-add keep-groups "
            "--security-opt seccomp=unconfined --env ROCR_VISIBLE_DEVICES=0 "
            "--env HIP_VISIBLE_DEVICES=0",
        ),
    ],
)
def test_one_gpu_and_no_other_is_passed_through(
    engine: ContainerEngine, gpu: GpuRef, expected: str
) -> None:
    words = line(engine, gpu=gpu)
    assert words.partition("core=0 ")[2] == f"{expected} {END}"
    assert "privileged" not in words


def test_other_gpus_cannot_be_passed_through() -> None:
    with pytest.raises(UsageError, match="only cuda and hip"):
        line(DOCKER, gpu=GpuRef("fake", 0))


def test_a_gpu_whose_device_file_nobody_knows_is_refused() -> None:
    with pytest.raises(SkipjackError, match="hip:3 cannot be passed to a container: its /dev"):
        line(DOCKER, gpu=GpuRef("hip", 3))


def test_variables_go_by_name_and_files_keep_their_place() -> None:
    words = line(
        DOCKER,
        env_names=("A", "B"),
        env={"HOME": "/home/me"},
        mounts=(Mount("/data/me"), Mount("/my/plug,in.py", read_only=True)),
    )
    assert words.partition("core=0 ")[2] == (
        "--mount type=bind,source=/data/me,target=/data/me "
        '--mount type=bind,"source=/my/plug,in.py","target=/my/plug,in.py",readonly '
        f"--env A --env B --env HOME=/home/me {END}"
    )


def test_a_node_of_a_cluster_stays_and_shares_the_network() -> None:
    ray = ("ray", "start", "--block", "--address=head:6379")
    gpu = GpuRef("hip", 0, render_node="/dev/dri/renderD128")
    words = commands.node_container("docker", "img", gpu, "ray-0", ray, ["TOKEN"], [Mount("/d")])
    assert " ".join(words) == (
        "docker run --detach --rm --init --pull never --name ray-0 --label skipjack=node "
        f"--network host --ipc host {CAREFUL} --device /dev/kfd --device /dev/dri/renderD128 "
        "--group-add video --group-add render --security-opt seccomp=unconfined "
        "--env ROCR_VISIBLE_DEVICES=0 --env HIP_VISIBLE_DEVICES=0 "
        "--mount type=bind,source=/d,target=/d --env TOKEN "
        "--entrypoint ray img start --block --address=head:6379"
    )
    assert commands.stop_container("docker", "ray-0") == ["docker", "stop", "-t", "10", "ray-0"]


def test_a_node_of_rootless_podman_keeps_its_user() -> None:
    words = commands.node_container(
        "podman", "img", GpuRef("cuda", 2), "n", ["ray"], user="7:8", rootless=True
    )
    assert " ".join(words) == (
        "podman run --detach --rm --init --pull never --name n --label skipjack=node "
        f"--network host --ipc host --userns keep-id --user 7:8 {CAREFUL} "
        "--device nvidia.com/gpu=2 --env CUDA_VISIBLE_DEVICES=0 --entrypoint ray img"
    )
