"""Configuration of all tests: real data, slow tests, and repeatable examples of hypothesis."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from prorec._core.device import _has_gpu

# Without a GPU, kernels for it run in Triton's interpreter; it must know before it sees the first of them.
if not _has_gpu():
    os.environ["TRITON_INTERPRET"] = "1"

# The same examples every time: a red run must be one that anybody can repeat.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
# The smoke tests run with other versions of dependencies, which fail at the first example or not at all.
settings.register_profile("smoke", settings.get_profile("repeatable"), max_examples=10)


SLOW = {
    "tests/engines/": "starts a Spark cluster",
    "tests/cli/test_denoise_on_spark.py": "starts a Spark cluster",
    "tests/test_docs.py::test_commands": "runs every command of the manual",
    "tests/test_manual.py": "builds the manual",
    "tests/test_notebooks.py::test_prints_what_is_stored": "runs the notebooks",
    "tests/report/test_in_browser.py": "starts a browser",
    "tests/reproduction/test_command.py::test_all_results_quickly": "runs every experiment in small",
    "tests/reproduction/test_command.py::test_an_interrupted_run_continues": "kills a process",
    "tests/reproduction/test_benchmark_command.py::test_noise_benchmark": "runs every baseline",
    "tests/cli/test_check.py::test_from_a_messy_log_to_a_report": "fits many base models, and writes a report",
    "tests/cli/test_command.py::test_demo": "runs the demo",
    "tests/cli/test_denoise.py::test_killed_at_random_moments_and_resumed": "kills processes",
    "tests/cli/test_denoise.py::test_a_disk_that_fills_up": "fills a disk",
    "tests/noise/test_finder.py::test_probabilities_are_calibrated": "fits many base models",
    "tests/noise/test_finder.py::test_few_flags_on_a_clean_log": "fits many base models",
    "tests/transport/test_gpu_backend.py": "runs GPU kernels in Triton's interpreter",
    "docs/": "runs the examples of the manual",
}
"""Tests that `make test` leaves to `make test-all`, by the beginning of their ids, with the reason. Tests on real data
are slow too."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    folder = os.environ.get("PROREC_DATA")
    for item in items:
        if item.nodeid.startswith(tuple(SLOW)) or item.get_closest_marker("real_data"):
            item.add_marker("slow")
        if marker := item.get_closest_marker("real_data"):
            (name,) = marker.args
            if not folder or not (Path(folder) / name).is_dir():
                item.add_marker(pytest.mark.skip(reason=f"{name} is not in $PROREC_DATA"))
    # Files with slow tests come first, so that no worker starts one of them when the other has nothing left to do.
    slow_files = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow_files)


@pytest.fixture
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any data set: returns its empty cache folder."""
    monkeypatch.delenv("PROREC_DATA", raising=False)
    monkeypatch.setenv("PROREC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"
