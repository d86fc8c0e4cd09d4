"""Errors, argument checks, progress, random numbers, threads, devices and files: what every package builds on."""
