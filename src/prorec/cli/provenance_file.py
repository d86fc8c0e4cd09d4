"""Provenance of what commands write: in JSON results, and in a small file beside each table and in each model.

The rows of a table stay as they are, so equal runs write equal tables, byte for byte.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prorec._core.files import atomic_write, prefix_errors
from prorec._core.provenance import digest_file

FILE_NAME = "provenance.json"
"""Name of the file in the folder of a model, and end of its name beside a table."""
_MAX_BYTES = 1_000_000


def provenance_path(out: str | Path) -> Path:
    """Return the file that holds the provenance of an output.

    Parameters
    ----------
    out : str or Path
        A table, or the folder of a model.

    Returns
    -------
    Path

    Examples
    --------
    >>> provenance_path("cleaned.csv.gz").name
    'cleaned.csv.gz.provenance.json'
    """
    path = Path(out)
    return path / FILE_NAME if path.is_dir() else path.with_name(f"{path.name}.{FILE_NAME}")


def is_provenance(path: Path) -> bool:
    """Return whether a path is a file that `write_provenance` may have written.

    Parameters
    ----------
    path : Path
        The file, which need not exist.

    Returns
    -------
    bool
    """
    try:
        if not path.is_file() or path.stat().st_size > _MAX_BYTES:
            return False
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and {"prorec", "settings_sha256"} <= content.keys()


def write_provenance(provenance: Mapping[str, Any], out: str | Path) -> None:
    """Write the provenance of an output that has just been written.

    Parameters
    ----------
    provenance : mapping
        From `ConsoleOptions.provenance`.
    out : str or Path
        A table, or the folder of a model. Standard output, "-", has no such file.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    if str(out) == "-":
        return
    path = provenance_path(out)
    with prefix_errors(path), atomic_write(path) as temporary:
        temporary.write_text(json.dumps(provenance, indent=2) + "\n", encoding="utf-8")


def describe_model(folder: Path) -> dict[str, Any]:
    """Return name and digest of a model on disk; its JSON file has the digests of all its arrays.

    Parameters
    ----------
    folder : Path
        Folder of the model.

    Returns
    -------
    dict
        An input for `ConsoleOptions.provenance`.
    """
    return describe_file(folder / "model.json") | {"name": folder.name}


def describe_file(path: Path) -> dict[str, Any]:
    """Return name and digest of a file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict
        An input for `ConsoleOptions.provenance`.
    """
    return {"name": path.name, "sha256": digest_file(path)}
