"""The searcher ``model``: it measures the configs from which a model expects most."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.search.model.search import ModelSearch
    from skipjack.search.model.settings import ModelSettings

__all__ = ["ModelSearch", "ModelSettings"]

__getattr__, __dir__ = lazy(
    __name__,
    {"search": "ModelSearch", "settings": "ModelSettings"},
)
