"""Protocols have the short name of the deployment that they measure."""

import json
from dataclasses import asdict

import pytest

from skipjack.core import (
    DEPLOYMENTS,
    Device,
    TimingProtocol,
    default_deployment,
    deployed_protocol,
    deployment_of,
    gpu_protocol,
    protocol_for,
)
from skipjack.core.timing import cpu_protocol
from skipjack.errors import UsageError

CPU, GPU = "cpu:znver4/1:0123", "cuda:sm_90/132:4567"


def test_the_defaults_are_native_calls_on_hot_caches_and_graphs_on_cold_ones() -> None:
    assert cpu_protocol(4).deployed == default_deployment(CPU) == "native/hot"
    assert gpu_protocol().deployed == default_deployment(GPU) == "graph/cold"


@pytest.mark.parametrize(
    ("kind", "calls", "caches", "name"),
    [
        ("cpu", None, None, "native/hot"),
        ("cpu", "native", "cold", "native/cold"),
        ("cpu", "eager", None, "eager/hot"),
        ("cpu", "eager", "cold", "eager/cold"),
        ("cuda", None, "hot", "graph/hot"),
        ("cuda", "eager", None, "eager/cold"),
        ("hip", "eager", "hot", "eager/hot"),
    ],
)
def test_a_deployment_changes_the_protocol_of_its_device(
    kind: str, calls: str | None, caches: str | None, name: str
) -> None:
    made = Device(kind, "made_up", 2)
    default, found = protocol_for(made), deployed_protocol(made, calls, caches)
    assert found.deployed == name in DEPLOYMENTS
    assert found.eager == name.startswith("eager")
    device = CPU if kind == "cpu" else GPU
    assert deployment_of(found.key, device) == deployment_of(name, device) == name
    assert (found == default) == (name == default.deployed)
    assert (found.sample_ns, found.threads) == (default.sample_ns, default.threads)


@pytest.mark.parametrize(
    ("kind", "calls", "caches"),
    [
        ("cpu", "graph", None),
        ("cuda", "native", None),
        ("cpu", "fast", None),
        ("cpu", None, "warm"),
    ],
)
def test_what_no_timer_measures_is_refused(
    kind: str, calls: str | None, caches: str | None
) -> None:
    with pytest.raises(UsageError, match=calls or caches):
        deployed_protocol(Device(kind, "made_up", 1), calls, caches)


def test_texts_of_earlier_versions_mean_the_default_and_strange_timers_mean_no_answer() -> None:
    for text in ("", "hand-made", "[1]", '{"timer": 3, "caches": "hot"}', "[" * 10**5):
        assert deployment_of(text, CPU) == "native/hot"
        assert deployment_of(text, GPU) == "graph/cold"
    strange = json.dumps({**asdict(TimingProtocol()), "timer": "a clock of tomorrow"})
    assert deployment_of(strange, CPU) == "unknown/hot"


def test_the_text_of_the_defaults_is_that_of_earlier_versions() -> None:
    assert deployment_of(cpu_protocol().key, CPU) == "native/hot"
    assert '"timer":"clock_monotonic_in_native_loop"' in cpu_protocol().key
    assert '"timer":"events around a graph"' in gpu_protocol().key
