"""Commands of the fleet. A module has one command or one group of commands."""

__all__ = [
    "bundles",
    "cluster",
    "images",
    "jobs",
    "load",
    "machines",
    "problems",
    "runs",
    "store",
]
