"""The file to give to spark-submit.

Run `spark-submit "$(python -m prorec.cli.spark_submit --where)" clicks.parquet --out cleaned.parquet`.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run `prorec denoise --engine spark` in the session of spark-submit; with --where, print this file's path."""
    if sys.argv[1:] == ["--where"]:
        print(__file__)
        return
    from prorec.cli import main as command

    sys.argv[1:1] = ["denoise", "--engine", "spark"]
    command()


if __name__ == "__main__":
    main()
