"""Turn the results of a denoiser into an HTML page and into figures."""

from prorec.report.page import write_report
from prorec.report.plots import plot_loss, plot_thresholds, plot_user_matrix, plot_weights

__all__ = ["plot_loss", "plot_thresholds", "plot_user_matrix", "plot_weights", "write_report"]
