"""Kernels of elementwise operations, reductions and normalisations."""
