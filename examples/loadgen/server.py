"""The Server scenario as MLPerf submitters write sweeps: hooks, and a search composed of parts.

The load is bisected; when a run is not VALID, more workers and larger batches are tried first. ::

    skipjack sweep examples/loadgen/server.py --base examples/loadgen/server-base.json \
        --build-cmd "python examples/loadgen/build.py" \
        --run-cmd "python examples/loadgen/harness.py" --result "loadgen:{run_dir}" \
        --screen min_duration_ms=1000,server_target_latency_percentile=0.9
"""

from scripts.autotune.library import Bisect, Composer, Overlay, Step


def META_get_no_rebuild_params():
    """Only the precision changes what is built."""
    return ["batch_size", "workers", "server_target_qps"]


def META_is_config_valid(config):
    """No more threads than the cores that this was written for."""
    return config["workers"] * config["threads"] <= 2


def META_search_callback():
    """The largest load that is VALID, with what it takes."""
    load = Bisect("server_target_qps", 100, 2050, 50, lambda run: run["result_validity"] == "VALID")
    workers = Step("workers", 1, 3, lambda count: count + 1)
    batch_size = Step("batch_size", 1, 64, lambda size: size * 4)
    return Overlay(Composer([load, workers, batch_size], 30), {"precision": "int8"})
