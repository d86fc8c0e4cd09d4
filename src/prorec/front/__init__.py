"""The front door: a log in, the noise in it out."""
