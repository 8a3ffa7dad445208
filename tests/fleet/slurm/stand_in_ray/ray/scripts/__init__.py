"""The commands of the stand-in."""
