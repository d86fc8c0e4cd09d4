"""Attacks: inputs that were made to break prorec."""
