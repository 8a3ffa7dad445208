"""Sweeps: the best setting of any benchmark that has a build command and a run command."""
