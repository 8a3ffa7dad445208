"""Gradients of vector operations."""
