"""Sources of interactions (files, data sets, a synthetic film club), splits, and noise injection."""
