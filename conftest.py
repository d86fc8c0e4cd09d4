"""Examples in the docs run too, and leave nothing behind; workers that run side by side share cores and files."""

import doctest
import os
import sys
from typing import Any

import pytest

# Each worker's BLAS would take all cores, and its threads wait for each other by spinning: two workers on two cores
# took several times as long. What they start inherits it. BLAS reads it when numpy is imported, which comes later.
if "PYTEST_XDIST_WORKER" in os.environ:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    share = max(1, cores // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, str(share))

# Folders of tests that share what takes long to make: a Spark cluster, a browser and the reports that it opens.
ONE_WORKER = ("tests/engines/", "tests/report/")


@pytest.hookimpl(optionalhook=True)  # the smoke tests run without xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give workers whole files, as `--dist loadfile` does, and one worker all files of each folder in `ONE_WORKER`."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class LoadFolders(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return next((folder for folder in ONE_WORKER if nodeid.startswith(folder)), super()._split_scope(nodeid))

    return LoadFolders(config, log)


class _CloseNumbers(doctest.OutputChecker):
    """Accepts numbers that another processor rounds differently."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        from tests.printed_numbers import prints_the_same

        return super().check_output(want, got, optionflags) or prints_the_same(got, want)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Compare the examples of the manual, which fit models, up to rounding; those of docstrings exactly."""
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.path.suffix == ".md":
            item.runner._checker = _CloseNumbers()  # type: ignore[attr-defined]


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """End a run without workers at once: Arrow may wait forever at exit for what is left of a refused csv."""
    status = getattr(config, "_exit_status", None)
    if status is not None and config.getoption("dist", "no") == "no" and not hasattr(config, "workerinput"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remember the exit status."""
    session.config._exit_status = int(exitstatus)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _examples_leave_nothing_behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        from prorec.models import Model

        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
        monkeypatch.setattr(Model, "registry", dict(Model.registry))
