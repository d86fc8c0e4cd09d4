"""The same block step on other engines than one machine's own."""
