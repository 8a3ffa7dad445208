"""Kernels in Triton's language; nothing else is in these files."""
