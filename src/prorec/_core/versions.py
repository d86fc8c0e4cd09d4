"""Check of the versions of Python and of the dependencies, before anything imports them.

pip refuses versions that do not fit; a copied folder or `pip install --no-deps` does not. The lower bounds are those of
the installed metadata, which come from pyproject.toml. Without metadata there is nothing to compare with.
"""

from __future__ import annotations

import re
import sys
from importlib import metadata


def find_unsupported_version() -> str | None:
    """Return one sentence about a version that prorec does not support, or None if all fit."""
    if sys.version_info < (3, 11):  # noqa: UP036 (an installation without pip does not read requires-python)
        return "prorec needs Python 3.11 or later; this is Python {}.{}.".format(*sys.version_info)
    try:
        requirements = metadata.requires("prorec") or []
    except metadata.PackageNotFoundError:
        return None
    for requirement in requirements:
        bound = re.fullmatch(r"([\w.-]+)>=([\d.]+)", requirement)  # requirements of extras have a marker
        if bound is None:
            continue
        name, lowest = bound.groups()
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            return f"prorec needs {name} {lowest} or later, which is not installed: pip install '{name}>={lowest}'."
        if _release(installed) < _release(lowest):
            return f"prorec needs {name} {lowest} or later; {installed} is installed: pip install '{name}>={lowest}'."
    return None


def advise_install(extra: str) -> str:
    """Return the command that installs what an extra needs.

    It names the packages themselves, because `pip install 'prorec[report]'` needs an index that has it.

    Parameters
    ----------
    extra : str
        Name of the extra, such as "report".

    Returns
    -------
    str

    Examples
    --------
    >>> advise_install("report")
    "pip install 'jinja2>=3.1'"
    """
    try:
        requirements = metadata.requires("prorec") or []
    except metadata.PackageNotFoundError:
        requirements = []
    found = [re.fullmatch(rf"([^;]+?)\s*;\s*extra == ['\"]{extra}['\"]", each) for each in requirements]
    packages = " ".join(f"'{match[1]}'" for match in found if match)
    return f"pip install {packages}" if packages else f"install the packages of the extra {extra}"


def _release(version: str) -> list[int]:
    """Return the numbers of a version before any suffix, without zeros at the end."""
    numbers = [int(number) for number in re.match(r"[\d.]*", version)[0].split(".") if number]  # type: ignore[index]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return numbers
