"""Fakes and conformance kits, for our own tests and for yours.

Subclass `skipjack.testing.searchers.SearcherConformance` in a test file to check a searcher of your
own; `skipjack.testing.surface.CostSurface` stands in for a device.
"""
