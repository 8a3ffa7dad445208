"""Solvers for GPUs: matrix products, convolutions and vector operations by Triton kernels."""
