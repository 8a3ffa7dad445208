"""Two sides problem by problem, and a gate."""
