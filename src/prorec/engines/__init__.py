"""Engines that run the block step of denoising on more than one machine."""
