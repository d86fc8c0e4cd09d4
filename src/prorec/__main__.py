"""Run the command line, as `prorec` and as `python -m prorec`."""

from prorec._core.interrupts import exit_at_once


def start() -> None:
    """Run the command line, and exit; a signal that arrives while it is being imported ends the process in one line."""
    exit_at_once()
    from prorec.cli import main

    main()


if __name__ == "__main__":
    start()
