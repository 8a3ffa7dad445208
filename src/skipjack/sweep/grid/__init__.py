"""NVIDIA's grid.py by its own words."""
