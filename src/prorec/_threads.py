"""How many threads this process may keep busy."""

from __future__ import annotations

import os

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
