"""Errors, argument checks, progress, random numbers, threads, devices and files: the base of every other package."""
