"""Benchmarks that are commands: built, kept, run, ended, and their results read."""
