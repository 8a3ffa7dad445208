"""A search of one's own: raise the load while it is held, change one setting whenever it is not."""

from library import SearcherInterface


class RaiseAndAdjust(SearcherInterface):
    """Doubles the load while it is held; otherwise takes the next remedy at the same load."""

    is_dynamic = True

    def __init__(self, load, remedies):
        self.load = load
        self.remedies = remedies

    def generate(self):
        point = {"server_target_qps": self.load, "gpu_inference_streams": 1, "gpu_batch_size": 128}
        remedies = iter(self.remedies)
        while True:
            run = yield point
            # A run that crashed is told, too; it has a status and no numbers.
            if run.ok and run.stats["result_validity"] == "VALID":
                point = {**point, "server_target_qps": 2 * point["server_target_qps"]}
                continue
            remedy = next(remedies, None)
            if remedy is None:
                return
            point = {**point, **remedy}


def META_search_callback():
    return RaiseAndAdjust(
        load=500,
        remedies=[{"gpu_inference_streams": 2}, {"gpu_batch_size": 256}],
    )


def META_get_no_rebuild_params():
    return ["server_target_qps", "gpu_inference_streams"]
