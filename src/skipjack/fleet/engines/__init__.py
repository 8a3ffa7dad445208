"""Engines: where a coordinator's workers are. Each is imported when it is asked for."""
