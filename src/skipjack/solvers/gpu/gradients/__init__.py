"""Solvers for gradients that take more than one kernel on GPUs."""
