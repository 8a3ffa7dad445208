"""The convolutions of the benchmark are the layers of two networks, each once."""

from __future__ import annotations

from collections import Counter

from conv_cases import ALL, BATCHES, DIRECTIONS, LAYERS, LAYOUTS, MOBILENET, QUICK, RESNET, Case
from conv_options import parse_options, sharded
from skipjack.operations import Convolution, get


def layer(name: str) -> Case:
    """Forward, one image, channels first."""
    return next(case for case in ALL if case.name == f"{name} n1 fwd NCHW")


def test_all_layers_of_both_networks_are_there_once() -> None:
    assert (len(RESNET), len(MOBILENET)) == (20, 19)
    assert len({one.name for one in LAYERS}) == len({one.key(1) for one in LAYERS}) == 39
    assert len({case.name for case in ALL}) == len(ALL) == 39 * 2 * 3 * 2


def test_a_layer_keeps_its_image_or_halves_it() -> None:
    for one in LAYERS:
        problem = next(case.problem for case in ALL if case.layer == one)
        operation = get(problem.operation)
        assert isinstance(operation, Convolution)
        assert operation.geometry(problem).result_sizes[1:] == (one.size // one.stride,) * 2


def test_names_and_keys_say_the_same() -> None:
    assert layer("7x7s2 3-64 @224").problem.key == "conv2d:n1c3h224w224k64y7x7p3q3u2v2:f32:NCHW:fwd"
    assert (
        layer("3x3s2 dw 64 @112").problem.key
        == "conv2d:n1c64h112w112k64y3x3p1q1u2v2g64:f32:NCHW:fwd"
    )


def test_multiplications_of_an_image_are_those_of_the_papers() -> None:
    """MobileNet v1 has five blocks of one kind; 569 million with the last layer's one."""
    often = {"3x3 dw 512 @14": 5, "1x1 512-512 @14": 5}
    flops = sum(
        often.get(one.name, 1) * get("conv2d").flops(layer(one.name).problem) for one in MOBILENET
    )
    assert round(flops / 2e6 + 1.024) == 569


def test_the_quick_cases_are_spread_over_every_choice() -> None:
    assert set(QUICK) < set(ALL)
    assert {case.layer.kind for case in QUICK} == {one.kind for one in LAYERS}
    choices = Counter((case.direction, case.layout, case.batch) for case in QUICK)
    assert len(choices) == len(DIRECTIONS) * len(LAYOUTS) * len(BATCHES)
    assert max(choices.values()) - min(choices.values()) <= 1


def test_cases_can_be_picked_and_shared_out() -> None:
    options, counts = parse_options(
        ["--layers", "3x3 512,dw 1024", "--directions", "bwd", "--layout", "nhwc", "--threads", "1"]
    )
    assert counts == [1]
    assert [case.name for case in options.cases] == [
        "3x3 512-512 @7 n1 bwd NHWC",
        "3x3 512-512 @7 n16 bwd NHWC",
        "3x3 dw 1024 @7 n1 bwd NHWC",
        "3x3 dw 1024 @7 n16 bwd NHWC",
    ]
    assert options.part
    everything, _ = parse_options(["--shard", "2/3", "--threads", "1"])
    assert everything.cases == ALL and not everything.part and everything.shard == (2, 3)


def test_shards_are_all_cases_and_each_has_all_kinds() -> None:
    shards = [sharded(ALL, number, 8) for number in range(1, 9)]
    assert sorted(case.name for shard in shards for case in shard) == sorted(c.name for c in ALL)
    for shard in shards:
        assert {case.direction for case in shard} == set(DIRECTIONS)
        assert {case.layer.kind for case in shard} == {one.kind for one in LAYERS}
    assert sharded(ALL, 1, 1) == list(ALL)
