"""Bundles: jobs and results in one file each, for machines without network or database."""

from typing import TYPE_CHECKING

from skipjack.lazy_names import lazy

if TYPE_CHECKING:
    from skipjack.fleet.bundle.evaluation import BundleProgress, Evaluation, evaluate_bundle
    from skipjack.fleet.bundle.transfer import export_bundle, import_bundle

__all__ = [
    "BundleProgress",
    "Evaluation",
    "evaluate_bundle",
    "export_bundle",
    "import_bundle",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "evaluation": "BundleProgress Evaluation evaluate_bundle",
        "transfer": "export_bundle import_bundle",
    },
)
