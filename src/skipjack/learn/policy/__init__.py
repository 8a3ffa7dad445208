"""Policies that schedule loop nests, without torch: their files, how they play, a searcher."""
