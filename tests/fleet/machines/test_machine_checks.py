"""Whether a machine is fit for work, and why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from loopback_ssh import Sshd

from skipjack.fleet.machines import MachineCondition, check_machines, requirements
from skipjack.fleet.machines.checks import Requirements, check_reply, noted_versions
from skipjack.fleet.machines.remote import Reply
from skipjack.fleet.model import Label, Registration
from skipjack.native import cpu

VERSIONS = {"skipjack": "1.2", "python": "3.11.7", "ray": "2.60.0"}
GPU7 = Registration("gpu7", "10.0.0.7", device="gfx908/120", gpus=8)
FOUND: dict[str, Any] = {
    "cpus": ["znver4/1", "znver4/2"],
    "gpus": {"gfx908/120": 8},
    "versions": {**VERSIONS, "rocm": "6.2.1-66"},
    "toolchain": "skipjack 1.2, solvers a",
    "free_bytes": 1 << 34,
    "user_dir": "/home/tuner",
}


def look(
    wish: Requirements | None = None, machine: Registration = GPU7, **found: Any
) -> MachineCondition:
    return check_reply(machine, Reply("gpu7", {**FOUND, **found}), wish or Requirements(VERSIONS))


def wrong(condition: MachineCondition) -> Mapping[str, str]:
    return {check.name: check.text for check in condition.wrong}


def test_a_machine_that_has_all_is_fit() -> None:
    assert look().ok
    assert [check.name for check in look().checks] == [
        *("reachable", "skipjack", "device", "gpus", "disk", "versions"),
    ]


def test_a_machine_without_its_device_says_what_it_has() -> None:
    found = wrong(look(gpus={"gfx90a/104": 2}))
    assert "gfx908/120 was not found; the machine has 2 x gfx90a/104, znver4/1" in found["device"]


def test_a_lost_gpu_is_noticed() -> None:
    found = wrong(look(gpus={"gfx908/120": 7}))
    assert found.keys() == {"gpus"} and "7 of gfx908/120 were found, 8 are" in found["gpus"]


def test_a_cpu_has_no_gpus_to_count() -> None:
    assert look(machine=Registration("cpu1", "h", device="znver4/2")).ok


def test_a_full_disk_and_other_versions_are_named() -> None:
    versions = {"skipjack": "1.1", "python": "3.11.2"}
    found = wrong(look(free_bytes=1 << 20, versions=versions))
    assert "1 MB are free for /home/tuner" in found["disk"]
    assert found["versions"].startswith(
        "skipjack 1.1 instead of 1.2, ray is missing instead of 2.60.0"
    )


def test_a_label_s_notes_device_and_results_are_compared() -> None:
    wish = Requirements(VERSIONS, "l", {"rocm": "6.2"}, {"gfx908/120": ["x"]}, ("gfx90a/104",))
    text = wrong(look(wish))["label"]
    assert "rocm" not in text and "results so far are by [x]" in text
    assert "no job is for gfx908/120; its jobs are for gfx90a/104" in text
    newer = Requirements(
        VERSIONS, "l", {"rocm": "6.3"}, {"gfx908/120": ["skipjack 1.2, solvers a"]}
    )
    assert wrong(look(newer)) == {"label": "l: rocm 6.2.1-66, the label's notes say 6.3"}


def test_without_a_registered_device_all_that_are_there_count_for_a_label() -> None:
    nobody_said = Registration("gpu7", "10.0.0.7")
    for device in ("znver4/2", "gfx908/120"):
        assert look(Requirements(VERSIONS, "l", devices=(device,)), nobody_said).ok
    other = look(Requirements(VERSIONS, "l", devices=("gfx90a/104",)), nobody_said)
    assert "no job is for what it has (8 x gfx908/120, znver4/1 to" in wrong(other)["label"]
    results = {"znver4/2": ["x"]}
    wish = Requirements(VERSIONS, "l", toolchains=results, devices=("znver4/2",))
    assert "results so far are by [x]" in wrong(look(wish, nobody_said))["label"]


@pytest.mark.parametrize(
    ("note", "found"),
    [
        ("rocm-6.2", {"rocm": "6.2"}),
        ("ROCm 6.2.1-66, triton=3.1", {"rocm": "6.2.1-66", "triton": "3.1"}),
        ("solvers 12ab, release of 2026", {}),
        ("", {}),
    ],
)
def test_notes_are_free_text_that_may_name_versions(note: str, found: dict[str, str]) -> None:
    assert noted_versions(note) == found


class Labels:
    """A store with one label."""

    def get(self, name: str) -> Label:
        return Label(name, "me", toolchain="rocm 6.2")

    def devices(self, label: str) -> Mapping[str, bool]:
        return {"gfx908/120": True}

    def toolchains(self, label: str) -> Mapping[str, Sequence[str]]:
        return {"gfx908/120": ["t"]}


def test_what_is_wanted_is_what_is_here_and_what_the_label_says() -> None:
    wish = requirements(Labels(), "l")
    assert (wish.notes, wish.devices) == ({"rocm": "6.2"}, ("gfx908/120",))
    assert {"skipjack", "python"} <= wish.versions.keys() <= {"skipjack", "python", "ray"}


def test_real_machines_are_probed_over_ssh(two: list[Sshd]) -> None:
    here = cpu.detect(1).name
    machines = [
        two[0].registration(device=here),
        two[1].registration(device="gfx908/120", gpus=8),
        Registration("closed", "127.0.0.1", 1),
        Registration("bare", "127.0.0.1", two[1].port, two[1].registration().user, python="/no/py"),
    ]
    fit, wrong_device, closed, bare = check_machines(machines, requirements())
    # The machine is this one, but the stand-in hides the version of Ray.
    assert fit.ok, fit.wrong
    assert {check.name for check in wrong_device.wrong} == {"device", "gpus"}
    assert here in dict(wrong(wrong_device))["device"]
    assert "refuses connections" in wrong(closed)["reachable"]
    assert "bare has no /no/py" in wrong(bare)["skipjack"]
