"""Accounts that are called like tests of a shop or a site."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from prorec.interactions import Interactions

_WORDS = "test tests tester testing testuser testaccount qa demo dummy sandbox staging uat e2e"
_TEST_NAME = re.compile(rf"(?<![a-z])(?:{'|'.join(_WORDS.split())})(?![a-z])")
_MAX_NAMED, _MAX_NAMED_SHARE = 5, 0.05  # with more such accounts, the ids of this log are made like that


def find_test_names(interactions: Interactions) -> NDArray[np.bool_]:
    """Find accounts that are called like tests.

    Parameters
    ----------
    interactions : Interactions
        The log.

    Returns
    -------
    ndarray of bool
        For each user, whether the id has a word such as test or qa in it. Nobody is called like a test if more than one
        in twenty accounts, and more than five, are: then ids of this log are made like that.

    Examples
    --------
    >>> import pyarrow as pa
    >>> names = ["ann", "qa-check", "contest", "test01", "myDemoUser"]
    >>> log = Interactions.from_table(pa.table({"user": names, "item": [1, 2, 3, 4, 5]}))
    >>> log.users[find_test_names(log)].tolist()
    ['myDemoUser', 'qa-check', 'test01']
    """
    is_named = np.zeros(interactions.n_users, dtype=bool)
    if interactions.users.dtype.kind not in "iu":
        is_named[:] = [_TEST_NAME.search(_split_words(str(name))) is not None for name in interactions.users.tolist()]
    is_named &= interactions.activity > 0
    is_usual = is_named.sum() > max(_MAX_NAMED, _MAX_NAMED_SHARE * interactions.n_users)
    return np.zeros_like(is_named) if is_usual else is_named


def _split_words(name: str) -> str:
    """Return a name in lower case, with a space wherever its case says that a word begins."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower()
