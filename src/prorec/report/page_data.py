"""Columns of numbers inside a page: as base64 of their bytes, which is small, exact and quick to read."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

_KINDS = {"float32": "<f4", "float64": "<f8", "int32": "<i4", "uint8": "<u1"}
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def pack_column(values: NDArray[Any], kind: str) -> dict[str, str]:
    """A column as the page's script reads it: the kind of its numbers, and their bytes, the least significant first."""
    raw = np.ascontiguousarray(values, dtype=_KINDS[kind]).tobytes()
    return {"kind": kind, "bytes": base64.b64encode(raw).decode("ascii")}


def to_script_json(contents: Any) -> Markup:
    r"""JSON that cannot end the script element it stands in, whatever names are in it.

    >>> to_script_json(["</script>"])
    Markup('["\\u003c/script\\u003e"]')
    """
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_ESCAPES))
