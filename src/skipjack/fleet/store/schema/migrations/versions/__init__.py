"""Revisions of the schema, one module each."""
