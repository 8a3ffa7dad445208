"""Elementwise operations, reductions and normalisations on GPUs."""
