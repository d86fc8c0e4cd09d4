"""Signals: one line, the exit code that shells expect, and an interrupt that is not lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from prorec._core.interrupts import add_advice, interruptible

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_one_line_and_the_exit_code(number: int, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]

    @interruptible()
    def work() -> None:
        try:
            signal.raise_signal(number)
        except KeyboardInterrupt:
            add_advice("Pass --resume.")
            raise ValueError("a library made something else of it") from None

    with pytest.raises(SystemExit) as stop:
        work()
    assert stop.value.code == code
    assert capsys.readouterr().err == "prorec: interrupted. Pass --resume.\n"
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_interrupt_in_a_destructor_is_not_lost() -> None:
    class Fragile:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)
            time.sleep(0)

    @interruptible()
    def work() -> None:
        Fragile()
        time.sleep(5)
        pytest.fail("not interrupted")

    with pytest.raises(SystemExit) as stop:
        work()
    assert stop.value.code == 143


def test_signals_that_the_caller_ignores_are_ignored() -> None:
    """As after nohup, and in background jobs of a script."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_exceptions_pass() -> None:
    with pytest.raises(ValueError, match="other"), interruptible():
        raise ValueError("other")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_while_the_command_is_imported(number: int, code: int) -> None:
    """In the middle of the imports, where Python would print a traceback."""
    program = f"""
import signal, sys
sys.orig_argv[1:] = ["/usr/bin/prorec"]
class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            signal.raise_signal({int(number)})
sys.meta_path.insert(0, Finder())
from prorec.cli import main
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "prorec: interrupted.\n")


def test_a_second_signal_ends_the_process_at_once() -> None:
    program = f"""
import signal, time
from prorec._core.interrupts import interruptible
with interruptible():
    try:
        signal.raise_signal({int(signal.SIGINT)})
    finally:
        signal.raise_signal({int(signal.SIGINT)})
        time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "prorec: interrupted.\n")
