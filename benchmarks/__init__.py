"""Benchmarks: time and memory as ratios to another library or to the bare arithmetic, measured in one run."""
