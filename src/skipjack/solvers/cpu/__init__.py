"""Solvers for CPUs."""
