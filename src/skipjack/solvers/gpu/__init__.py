"""Triton kernels, built ahead of time for NVIDIA's and AMD's GPUs on any machine."""
