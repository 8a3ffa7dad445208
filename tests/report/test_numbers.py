"""Numbers as text are short and have a fitting unit."""

import pytest

from skipjack.report import rate_text


@pytest.mark.parametrize(
    ("rate", "unit", "text"),
    [
        (0.04, "GFLOP/s", "0.0 GFLOP/s"),
        (109.54, "GFLOP/s", "109.5 GFLOP/s"),
        (633655.0, "GFLOP/s", "633.7 TFLOP/s"),
        (2.5e6, "GFLOP/s", "2.5 PFLOP/s"),
        (14.7, "GB/s", "14.7 GB/s"),
        (4123.0, "GB/s", "4.1 TB/s"),
        (None, "GB/s", "-"),
        (float("nan"), "GFLOP/s", "-"),
    ],
)
def test_a_rate_has_the_prefix_that_fits(rate: float | None, unit: str, text: str) -> None:
    assert rate_text(rate, unit) == text
