"""Base configs: what points are laid over."""
