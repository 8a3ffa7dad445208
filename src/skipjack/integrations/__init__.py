"""Skipjack inside of other programs and libraries."""
