"""The run worker of a GPU: arrays in its memory, kernels from artifacts, checks, timing."""
