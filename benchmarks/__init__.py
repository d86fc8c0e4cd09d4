"""Ratios against a peer or the bare arithmetic, measured in one run: `make bench`."""
