"""What the benchmarks of PyTorch are made of; their measurements are not repeated here."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import torch_rounds
import torch_summary
from torch_rounds import Pace, Rounds

torch = pytest.importorskip("torch")


def record(case: str, ratio: float, width: float = 0.01, **more: Any) -> dict[str, Any]:
    return {
        "case": case,
        "kind": "convolutional",
        "threads": 1,
        "ms": {"plain": 2.0 * ratio, "hook": 2.0},
        "speedup": {"ratio": ratio, "low": ratio - width, "high": ratio + width},
        "calls": {"calls": 8, "hits": 2, "kinds": 4, "kernels": 1},
        **more,
    }


def test_networks_are_those_that_they_are_called_after() -> None:
    from torch_models import MODELS, Place

    known = {
        "resnet50": 25_557_032,
        "mobilenet_v2": 3_504_872,
        "efficientnet_b0": 5_288_548,
        "vit_small": 22_050_664,
    }
    for name, count in known.items():
        network = MODELS[name].network(Place())
        assert sum(one.numel() for one in network.parameters()) == count, name


def test_weights_and_data_are_the_same_in_every_dtype() -> None:
    from torch_models import SMALL, Place

    model = SMALL["small_cnn"]
    single, double = Place("cpu", "f32"), Place("cpu", "f64")
    for mine, other in zip(
        model.network(single, 3).parameters(), model.network(double, 3).parameters(), strict=True
    ):
        assert torch.equal(mine.double(), other)
    assert torch.equal(model.batch(2, single)[0], model.batch(2, double)[0].float())


@pytest.mark.parametrize("name", ["small_cnn", "small_transformer"])
def test_small_networks_learn(name: str) -> None:
    from torch_models import FORWARD, SMALL, TRAIN, Place, step_of

    step = step_of(SMALL[name], TRAIN, 4, Place())
    losses = [float(step()) for _ in range(12)]
    assert losses[-1] < losses[0]
    shape = step_of(SMALL[name], FORWARD, 2, Place())().shape
    assert shape[0] == 2


def test_attention_spelled_out_is_the_fused_one() -> None:
    from torch_networks import Attention

    spelled, fused = (Attention(32, 4, causal=True, fused=flag) for flag in (False, True))
    fused.load_state_dict(spelled.state_dict())
    x = torch.randn(2, 7, 32)
    assert torch.allclose(spelled(x), fused(x), atol=1e-5)


def test_rounds_go_through_the_states_and_back() -> None:
    seen: list[str] = []
    states = {name: lambda name=name: seen.append(name) for name in ("a", "b", "c")}
    pace = Pace(block_s=0.0, seconds=0.0, fewest=3, most=3)
    found = torch_rounds.interleave(states, lambda: sum(range(20)), pace)
    assert "".join(seen) == "abc" + "abc" + "cba" + "abc"
    assert {name: len(found.seconds[name]) for name in states} == {"a": 3, "b": 3, "c": 3}


def test_ratios_and_differences_are_of_pairs() -> None:
    found = Rounds({"plain": [1.0, 2.0, 4.0] * 3, "hook": [0.5, 1.0, 2.0] * 3})
    ratio = found.ratio("plain", "hook")
    assert (ratio.ratio, ratio.low, ratio.high, ratio.pairs) == pytest.approx((2, 2, 2, 9))
    more = Rounds({"plain": [1e-6] * 9, "hook": [1.5e-6] * 9}).more_us("hook", "plain")
    assert more == {"median": 0.5, "low": 0.5, "high": 0.5, "pairs": 9}


def test_too_few_rounds_have_no_interval() -> None:
    found = Rounds({"plain": [1.0, 1.1], "hook": [1.0, 1.0]}).ratio("plain", "hook").to_json()
    assert (found["low"], found["high"]) == (0.0, None)
    assert "[0.000, ?]" in torch_summary.line(record("few", 1.0, speedup=found))


def test_losses_stand_beside_wins() -> None:
    records = [record("x fwd", 1.5), record("y fwd", 0.99, 0.005), record("z fwd", 0.9)]
    records += [record("w fwd", 1.0), record("v fwd", 1.2, kind="other", threads=2)]
    assert [torch_summary.verdict(one) for one in records] == [
        *("win", "loss", "UNDER THE FLOOR", "", "win"),
    ]
    found = torch_summary.summarize(records)
    all_ = found["convolutional"]["all"]
    assert (all_["cases"], all_["wins"], all_["losses"]) == (4, 1, 2)
    assert all_["geomean"] == pytest.approx((1.5 * 0.99 * 0.9) ** 0.25, abs=1e-4)
    assert all_["under_floor"] == ["z fwd"]
    assert all_["worst"] == {"case": "z fwd", "ratio": 0.9}
    assert all_["hit_share"] == 0.25
    assert set(found["other"]) == {"all", "threads 2"}
    text = "\n".join(torch_summary.lines(found))
    assert "1 won, 2 lost, 1 under 0.98" in text and "asked for 1.25" in text


def test_a_step_is_taken_apart_and_drawn(tmp_path: Path) -> None:
    from torch_picture import StepTimes, drawn

    weight = torch.randn(6, 5, requires_grad=True)
    with StepTimes(time.perf_counter, asks_who=True) as seen:
        torch.relu(torch.ones(4, 6) @ weight).sum().backward()
    order = [name for name in seen.names if name in ("mm", "relu", "threshold_backward")]
    assert order == ["mm", "relu", "threshold_backward", "mm"]
    assert len(seen.names) == len(seen.seconds) == len(seen.hits) and not any(seen.hits)
    operations = [
        {"op": name, "by": by, "us": {"plain": plain, "tuned": tuned}}
        for name, by, plain, tuned in (
            *(("convolution", "skipjack", 900.0, 300.0), ("mm", "hooked", 400.0, 400.0)),
            ("max_pool2d_with_indices", "other", 500.0, 510.0),
        )
    ]
    record = {
        "name": "torch_picture",
        **{"model": "small_cnn", "batch": 16, "threads": 1, "device": {"name": "znver4/1"}},
        "ms": {"plain": 1.9, "tuned": 1.3},
        "speedup": {"ratio": 1.46, "low": 1.4, "high": 1.5},
        "operations": operations,
    }
    (tmp_path / "step.json").write_text(json.dumps(record))
    picture = drawn(tmp_path / "step.json", ".svg")
    assert picture == drawn(tmp_path / "step.json", ".svg")
    assert picture.startswith(b"<svg") and picture.count(b"<rect") > 6
