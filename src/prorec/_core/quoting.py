"""Values in messages: short, on one line, whatever they are."""

from __future__ import annotations

_MAX_SHOWN = 200


def safe_repr(value: object) -> str:
    """Return `repr(value)` for a message, shortened, whatever the value is.

    Parameters
    ----------
    value : object
        Any value, also one whose `repr` raises.

    Returns
    -------
    str

    Examples
    --------
    >>> safe_repr("a")
    "'a'"
    """
    try:
        return shorten(repr(value))
    except Exception:  # such as an integer of thousands of digits
        return f"something of type {type(value).__name__}"


def shorten(text: str) -> str:
    r"""Return a text for a message without its middle, if it is long.

    Parameters
    ----------
    text : str
        A text that comes from a file or from another library.

    Returns
    -------
    str
        At most 200 characters, on one line.

    Examples
    --------
    >>> shorten("xxx\ny")
    'xxx y'
    >>> len(shorten("x" * 5000))
    200
    """
    if len(text) > _MAX_SHOWN:
        text = f"{text[: _MAX_SHOWN - 51]}…{text[-50:]}"
    return " ".join(text.splitlines())
