"""The work directory of a run: its checkpoints, from which --resume continues, and the lock of the process."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from prorec._core.errors import InputError
from prorec._core.files import describe_kind, open_regular, prefix_errors
from prorec._core.interrupts import add_advice

INTERRUPTED = "An interrupted run left its state here. Pass --resume to continue it, or --force to start again."
"""Message for an output that an earlier run was about to write."""
_STATE = ("round.npz", "fold-*", "fit-*")
"""Names of checkpoints: of a round, of a fold, and of the fit of a model."""
_MAX_NAME_BYTES = 255


class WorkDirectory:
    """The hidden folder beside an output file in which a run keeps its checkpoints.

    Parameters
    ----------
    out : str
        The output file.
    """

    def __init__(self, out: str) -> None:
        self.out = Path(out)
        name = f".{self.out.name}.prorec"
        if len(os.fsencode(name)) > _MAX_NAME_BYTES:
            name = f".{hashlib.sha256(os.fsencode(self.out.name)).hexdigest()[:32]}.prorec"
        self.path = self.out.parent / name

    def has_state(self) -> bool:
        """Find out whether an interrupted run can be continued.

        Returns
        -------
        bool
            True if the folder has a checkpoint.
        """
        return any(any(self.path.glob(pattern)) for pattern in _STATE)

    def check_not_running(self) -> None:
        """Refuse an output that another process is about to write.

        Raises
        ------
        InputError
            If a live process has locked the folder.
        """
        with (
            prefix_errors(self.path),
            suppress(FileNotFoundError, NotADirectoryError),
            open_regular(self.path / "lock") as file,
        ):
            self._lock(file.fileno())

    @contextmanager
    def open(self, *, resume: bool) -> Iterator[Path]:
        """Make the folder for this run alone, and delete it when the run ends or has nothing to continue from.

        Parameters
        ----------
        resume : bool
            Keep the checkpoints that are in the folder.

        Yields
        ------
        Path
            The folder.

        Raises
        ------
        InputError
            If another run uses the folder, or it has links, pipes or devices in it, which no run makes.
        """
        lock = -1
        try:
            with prefix_errors(self.path):
                lock = self._claim()
                if not resume:
                    self._clear()
            yield self.path
        except BaseException:
            if lock < 0:  # the folder may be another run's, or somebody's
                with suppress(OSError):
                    self.path.rmdir()
            elif self.has_state():
                add_advice("Pass --resume to continue from here.")
            else:
                shutil.rmtree(self.path, ignore_errors=True)
            raise
        else:
            with prefix_errors(self.path):
                shutil.rmtree(self.path)
        finally:
            if lock >= 0:
                os.close(lock)

    def _claim(self) -> int:
        """Make the folder and lock it, and return the descriptor of the lock."""
        while True:
            self.path.mkdir(exist_ok=True)
            try:
                self._refuse_links()
                flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
                lock = os.open(self.path / "lock", flags, 0o666)
            except FileNotFoundError:  # another run has ended and deleted the folder
                continue
            try:
                self._lock(lock)
                if os.path.samestat(os.fstat(lock), (self.path / "lock").stat()):
                    return lock
            except FileNotFoundError:  # it was deleted before it was locked
                pass
            except BaseException:
                os.close(lock)
                raise
            os.close(lock)

    def _clear(self) -> None:
        """Delete everything but the lock."""
        for path in self.path.iterdir():
            if path.name != "lock":
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def _refuse_links(self) -> None:
        """Refuse a folder that would lead the run to files of others."""
        for path in (self.path, *self.path.iterdir()):
            mode = path.lstat().st_mode
            if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise InputError(
                    f"a work folder has only folders and regular files; {path.name} is {describe_kind(mode)}. Remove it"
                )

    def _lock(self, descriptor: int) -> None:
        """Lock a file as long as it is open; the system unlocks the file of a killed process."""
        try:
            import fcntl
        except ModuleNotFoundError:  # not on Windows
            return
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another run is writing {self.out} now; wait for it to end, or choose another --out"
            ) from None
        except OSError:  # a file system without locks
            return
