"""Searchers that are written out as generators of points, and the adapter to all others."""
