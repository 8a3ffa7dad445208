"""Names of GPUs, as Triton wants them; what it cannot build for is refused in one sentence."""

import pytest

from skipjack.errors import UsageError
from skipjack.gpu import KNOWN
from skipjack.solvers.gpu.triton.compilation import cannot_build, parse_target


@pytest.mark.parametrize(
    ("arch", "parts", "extension"),
    [
        ("sm_80", ("cuda", 80, 32), "cubin"),
        ("sm_90", ("cuda", 90, 32), "cubin"),
        ("sm_90a", ("cuda", 90, 32), "cubin"),
        ("sm_120", ("cuda", 120, 32), "cubin"),
        ("gfx908", ("hip", "gfx908", 64), "hsaco"),
        ("gfx90a:sramecc+:xnack-", ("hip", "gfx90a", 64), "hsaco"),
        ("gfx942", ("hip", "gfx942", 64), "hsaco"),
        ("gfx950", ("hip", "gfx950", 64), "hsaco"),
        ("gfx1100", ("hip", "gfx1100", 32), "hsaco"),
        ("gfx1201", ("hip", "gfx1201", 32), "hsaco"),
    ],
)
def test_warps_have_64_threads_on_amds_compute_cards_alone(
    arch: str, parts: tuple[str, int | str, int], extension: str
) -> None:
    assert tuple(parse_target(arch)) == parts
    assert parse_target(arch).extension == extension
    assert not cannot_build(arch)


@pytest.mark.parametrize(
    ("arch", "said"),
    [
        ("sm_70", "cannot build for sm_70: .* sm_75, sm_80"),
        ("gfx900", "cannot build for gfx900"),
        ("gfx906", "cannot build for gfx906: .* gfx908, gfx90a"),
        ("gfx1030", "cannot build for gfx1030"),
        ("znver4", "not the architecture of a GPU"),
    ],
)
def test_what_triton_cannot_build_is_refused(arch: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_target(arch)


def test_what_is_known_of_gpus_and_what_is_built_for_are_one_list() -> None:
    for limits in KNOWN.values():
        target = parse_target(limits.arch)
        assert (target.backend, target.warp) == (limits.kind, limits.warp)
