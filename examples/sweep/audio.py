"""Six points and two builds, although the parameter that needs no build is declared first."""

audio_batch_size = [128, 256, 512]  # read when the benchmark starts
gpu_batch_size = [128, 256]  # compiled into the engine


def META_get_no_rebuild_params():
    return ["audio_batch_size"]
