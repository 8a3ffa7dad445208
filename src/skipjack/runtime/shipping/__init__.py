"""From what was tuned to what ships: kernels of a bank with their machine code, system banks."""

from skipjack.runtime.shipping.kernels import Banked, banked
from skipjack.runtime.shipping.system_bank import SystemBank, ship

__all__ = ["Banked", "SystemBank", "banked", "ship"]
