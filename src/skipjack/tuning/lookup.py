"""Where pickles of kernels that were written before `skipjack.runtime` look for it."""

from skipjack.runtime import look_up_again

__all__ = ["look_up_again"]
