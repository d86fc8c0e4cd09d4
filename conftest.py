"""Examples in the docs run too, each in a folder of its own; a model that one of them makes is gone after it."""

import pytest


@pytest.fixture(autouse=True)
def _examples_leave_nothing_behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        from prorec.models import Model

        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
        monkeypatch.setattr(Model, "kinds", dict(Model.kinds))
