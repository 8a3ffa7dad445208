"""The fixtures of `open_tuner`."""

from open_tuner import home, tuner

__all__ = ["home", "tuner"]
