"""GPUs without a framework: what a built kernel carries, how it is launched, and the drivers."""
