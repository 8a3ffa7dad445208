"""The largest load that is held, trying other settings before the load is lowered.

``META_get_synthetic`` makes up what a run would say, so that ``--dry-run`` can show the search.
"""

from library import Bisect, Composer, Step


def holds(run):
    return run.stats["result_validity"] == "VALID"


def META_search_callback():
    load = Bisect(
        search_param="server_target_qps",
        lower_bound=3000,
        upper_bound=4650,
        step_size=50,
        predicate=holds,
    )
    streams = Step(search_param="gpu_inference_streams", start=1, end=4, update=lambda x: x + 1)
    batch = Step(search_param="gpu_batch_size", start=200, end=100, update=lambda x: x - 50)
    return Composer([load, (streams, lambda run: True), batch], timeout=10)


def META_get_no_rebuild_params():
    return ["server_target_qps", "gpu_inference_streams"]


def META_get_synthetic(point):
    most = {1: 3600, 2: 3900, 3: 4100}[point["gpu_inference_streams"]]
    if point["gpu_batch_size"] == 150:
        most += 150
    load = point["server_target_qps"]
    return {
        "result_validity": "VALID" if load <= most else "INVALID",
        "samples_per_second": float(min(load, most)),
    }
