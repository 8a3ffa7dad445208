"""Triton functions; each file is one idea. Nothing here is loaded before something is compiled."""
