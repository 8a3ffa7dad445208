"""Learning how to schedule: loop nests as a game, searches on it, and policies that play it."""
