"""Run the command line as `python -m prorec`."""

from prorec.cli import main

if __name__ == "__main__":
    main()
