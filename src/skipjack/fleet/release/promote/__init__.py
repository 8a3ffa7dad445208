"""Databases of a label joined into a directory of databases, and taken back."""
