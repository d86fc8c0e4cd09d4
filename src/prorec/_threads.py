"""How many threads there is room for, and how long idle ones may be in the way."""

import os

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
"""Cores that this process may use."""

# numpy and scipy each bring an OpenBLAS with threads of its own, which go on spinning for 2^26 cycles after their work,
# on a core that the next piece of work needs. 2^14 is enough to wait for the next product. OpenBLAS reads this when it
# is loaded, so it is said in time only if nobody has imported numpy yet.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "14")
