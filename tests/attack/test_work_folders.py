"""Work folders of `prorec denoise` that somebody prepared."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from prorec import InputError
from prorec.cli.work_folder import WorkDirectory


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize(
    "prepare",
    [
        lambda work, precious: work.symlink_to(precious.parent, target_is_directory=True),
        lambda work, precious: (work.mkdir(), (work / "lock").symlink_to(precious)),
        lambda work, precious: (work.mkdir(), (work / "fit-0").symlink_to(precious.parent, target_is_directory=True)),
        lambda work, precious: (work.mkdir(), subprocess.run(["mkfifo", work / "lock"], check=True)),
    ],
    ids=["folder", "lock", "fit", "pipe"],
)
def test_links_lead_nowhere(prepare: Callable[[Path, Path], object], tmp_path: Path) -> None:
    precious = tmp_path / "other" / "precious.txt"
    precious.parent.mkdir()
    precious.write_text("precious")
    work = WorkDirectory(str(tmp_path / "out.csv"))
    prepare(work.path, precious)
    for resume in (True, False):
        with pytest.raises(InputError, match=r"\.out\.csv\.prorec: .*only folders"), work.open(resume=resume):
            pass
    assert precious.read_text() == "precious"
    assert list(precious.parent.iterdir()) == [precious]
