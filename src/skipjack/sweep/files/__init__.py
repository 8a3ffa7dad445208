"""Sweep files: JSON, Python and TOML, and what is wrong with them in one sentence."""
