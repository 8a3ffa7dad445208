"""Plots of tunings and of rankings, drawn as those of sweeps are."""

from skipjack.report.plots.files import check_plots, write_find_plots, write_tune_plots

__all__ = ["check_plots", "write_find_plots", "write_tune_plots"]
