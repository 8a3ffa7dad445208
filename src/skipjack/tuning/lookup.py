"""Where pickles of kernels that were written before `skipjack.runtime` look for it."""

from skipjack.runtime.bank_lookup import look_up_again

__all__ = ["look_up_again"]
