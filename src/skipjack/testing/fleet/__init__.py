"""Conformance kits for the fleet: `engines`, `stores`, and stand-in `workers`."""
