"""Models on disk: a folder with a JSON file and one file of arrays, no pickle.

The JSON file names the arrays' file and is written last, so a reader sees the old model or the new one, never a half.
"""

from __future__ import annotations

import errno
import json
import secrets
import zipfile
import zlib
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.errors import InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.interactions import Interactions

Arrays = dict[str, NDArray[Any]]
VERSION = 1
READ_ERRORS = (KeyError, TypeError, ValueError, EOFError, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What reading a file of arrays may fail with when its bytes are not what they were."""
_NAME = "model.json"


def write_model(
    folder: Path, class_name: str, parameters: dict[str, Any], arrays: Arrays, interactions: Interactions
) -> None:
    """Write a model whole or not at all."""
    known = interactions
    arrays = {f"learned.{name}": array for name, array in arrays.items()}
    matrix = known.matrix
    arrays |= {"matrix.data": matrix.data, "matrix.indices": matrix.indices, "matrix.indptr": matrix.indptr}
    for name, ids in (("users", known.users), ("items", known.items)):
        arrays |= _packed(name, ids)
    if known.item_names is not None:
        arrays |= _packed("item_names", known.item_names)
    about = {"format": "prorec model", "version": VERSION, "class_name": class_name, "parameters": parameters}
    if known.item_categories is not None:
        about["item_categories"] = known.item_categories
    about = json.loads(json.dumps(about, default=json_default))  # fails before anything is written
    with prefix_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"arrays-{secrets.token_hex(4)}.npz"
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        old = _arrays_in(folder)
        with atomic_write(folder / _NAME) as temporary:
            temporary.write_text(json.dumps(about | {"arrays": path.name}, indent=2) + "\n")
        if old is not None:
            old.unlink(missing_ok=True)


def read_model(folder: Path) -> tuple[str, dict[str, Any], Arrays, Interactions]:
    """Class name, parameters, learned arrays and interactions of a model."""
    with prefix_errors(folder):
        try:
            about = json.loads((folder / _NAME).read_text())
        except FileNotFoundError:
            raise InputError(f"there is no model here: {_NAME} is missing") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{_NAME} is not a model's: {error}") from None
        if not isinstance(about, dict) or about.get("format") != "prorec model":
            raise InputError(f"{_NAME} is not a model's")
        if about.get("version") != VERSION:
            raise InputError(f"the model has format version {about.get('version')!r}; this prorec reads {VERSION}")
        try:
            path = folder / Path(about["arrays"]).name
            with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        except FileNotFoundError:
            raise InputError(f"the model is incomplete: {about['arrays']} is missing") from None
        except READ_ERRORS as error:
            if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EIO, errno.EISDIR):
                raise
            raise InputError(f"the model's arrays cannot be read: {error}") from None
        try:
            users, items = _unpacked("users", arrays), _unpacked("items", arrays)
            parts = arrays["matrix.data"], arrays["matrix.indices"], arrays["matrix.indptr"]
            matrix = csr_array(parts, shape=(len(users), len(items)))
            matrix.check_format(full_check=True)
            names = _unpacked("item_names", arrays) if "item_names.bytes" in arrays else None
            categories = about.get("item_categories")
            if categories is not None:
                categories = tuple(tuple(map(str, each)) for each in categories)
            known = Interactions(matrix, users, items, item_names=names, item_categories=categories)
            class_name, parameters = about["class_name"], dict(about["parameters"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"the model is incomplete or damaged: {error}") from None
    learned = {name.removeprefix("learned."): array for name, array in arrays.items() if name.startswith("learned.")}
    return class_name, parameters, learned, known


def json_default(value: Any) -> Any:
    """A number of any kind as one of Python's own, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    raise TypeError(f"{type(value).__name__} cannot be written")


def _arrays_in(folder: Path) -> Path | None:
    """The arrays' file of the model that is there now, if there is one."""
    try:
        return folder / Path(json.loads((folder / _NAME).read_text())["arrays"]).name
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _packed(name: str, ids: NDArray[Any]) -> Arrays:
    """Ids as plain numbers; texts as their bytes, one after the other, and where each ends."""
    if ids.dtype != object:
        return {name: ids}
    texts = [text.encode() for text in ids]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(texts), dtype=np.uint8), f"{name}.ends": ends}


def _unpacked(name: str, arrays: Arrays) -> NDArray[Any]:
    if name in arrays:
        return arrays[name]
    data, ends = arrays[f"{name}.bytes"].tobytes(), arrays[f"{name}.ends"].tolist()
    return np.array([data[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False)], dtype=object)
