"""Commands of the fleet, a file for each group."""
