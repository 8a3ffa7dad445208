"""A rule over parameters: whatever would overrun the audio buffer is not run."""

audio_batch_size = [128, 256, 512, 1024]
dali_pipeline_depth = [1, 2, 3]
audio_buffer_num_lines = [128, 256, 512, 1024, 2048, 4096]


def META_get_no_rebuild_params():
    return ["audio_batch_size", "dali_pipeline_depth", "audio_buffer_num_lines"]


def META_is_config_valid(config):
    # The whole config comes here: the base config with the point laid over it.
    in_flight = config["dali_pipeline_depth"] * config["audio_batch_size"]
    return in_flight <= config["audio_buffer_num_lines"]
