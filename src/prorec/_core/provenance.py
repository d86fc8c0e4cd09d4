"""Provenance: what made an output, when, from which input and with which settings."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def make_provenance(inputs: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Describe where an output comes from.

    Parameters
    ----------
    inputs : mapping
        For each input, such as "log", its name and its digest.
    settings : mapping
        Settings by name, without those that do not change the result.

    Returns
    -------
    dict
        Plain values for JSON: `prorec` (the version), `time` (UTC), `inputs`, `settings`, and `settings_sha256`, which
        is equal for equal settings.

    Examples
    --------
    >>> made = make_provenance({}, {"fdr": 0.1, "param": ("rank=4", "seed=1")})
    >>> made["settings"]
    {'fdr': '0.1', 'param': 'rank=4, seed=1'}
    >>> made["settings_sha256"] == make_provenance({}, {"param": "rank=4, seed=1", "fdr": "0.1"})["settings_sha256"]
    True
    """
    from prorec import __version__

    texts = describe_settings(settings)
    return {
        "prorec": __version__,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "inputs": {name: dict(each) for name, each in inputs.items()},
        "settings": texts,
        "settings_sha256": hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest(),
    }


def describe_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as texts.

    Parameters
    ----------
    settings : mapping
        Settings by name; a value may be a tuple of several.

    Returns
    -------
    dict of str to str
    """
    return {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else str(value) for name, value in settings.items()
    }


def digest_file(path: Path) -> str | None:
    """Return the SHA-256 of a file's bytes, as `sha256sum` prints it.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    str or None
        None for something that cannot be read twice, such as a pipe.
    """
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
