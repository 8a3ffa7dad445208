"""Conformance kits for the fleet: `engines` and `stores`, and the stand-in `workers` of engines."""
