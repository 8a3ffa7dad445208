"""Fixtures of the Slurm tests."""

from slurm_cluster import slurm, slurm_daemons

__all__ = ["slurm", "slurm_daemons"]
