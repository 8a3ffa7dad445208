"""Machines and their devices, as they registered and as they were seen."""
