"""Examples in the docs run too, each in a folder of its own."""

import pytest


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
