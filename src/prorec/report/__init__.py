"""Results as figures and pages, for people to look at."""
