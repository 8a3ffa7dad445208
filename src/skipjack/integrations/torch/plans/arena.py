"""Memory that is lent to the kernels of a plan."""

from __future__ import annotations

from skipjack.integrations.torch.stubs import ARENA
from skipjack.integrations.torch.table import PlanPlace

_PAGE = 4096
"""What a kernel borrows begins at a page, as elsewhere."""


class Arena:
    """What the kernels of a plan borrow; they run one after another, so that they share it."""

    def __init__(self) -> None:
        self.bytes = 0
        self._next = 0
        self._named: dict[str, int] = {}

    def begin(self) -> None:
        """The next kernel."""
        self._next, self._named = 0, {}

    def place(self, name: str, size: int, *, shared: bool) -> PlanPlace:
        """So many bytes, if shared those that the kernel had under the same name before."""
        if shared and name in self._named:
            return PlanPlace(ARENA, 0, self._named[name])
        offset = self._next
        self._named[name] = offset
        self._next += -(-size // _PAGE) * _PAGE
        self.bytes = max(self.bytes, self._next)
        return PlanPlace(ARENA, 0, offset)
