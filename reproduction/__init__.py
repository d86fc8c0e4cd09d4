"""Recipes that only this repository runs: the paper's tables and figures, published results, the noise benchmark."""
