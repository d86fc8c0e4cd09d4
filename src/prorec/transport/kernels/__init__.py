"""Arithmetic over all pairs of users and items: compiled loops for the CPU, Triton and PyTorch for a GPU."""
