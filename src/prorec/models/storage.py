"""Models on disk: a folder with a JSON file and a file of arrays, without pickle.

The JSON file names the file of arrays and is written last, so that a reader sees the old model or the new one, never a
mixture.
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

from prorec._core.errors import DamagedFileError, InputError
from prorec._core.files import atomic_write, prefix_errors
from prorec.interactions import Interactions

Arrays = dict[str, NDArray[Any]]
"""Arrays by name: the result of a fit, or the content of a file."""
VERSION = 1
"""Version of the format; `read_model` refuses others."""
READ_ERRORS = (KeyError, TypeError, ValueError, EOFError, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""Exceptions that numpy may raise for a damaged file of arrays."""
_FILE_NAME = "model.json"
_FORMAT = "prorec model"


def write_model(
    folder: Path, class_name: str, parameters: dict[str, Any], arrays: Arrays, interactions: Interactions
) -> None:
    """Write a model into a folder, as a whole or not at all.

    Parameters
    ----------
    folder : Path
        Created if missing. A model in it is replaced; other files stay.
    class_name : str
        Name of the model's class.
    parameters : dict
        Constructor parameters that JSON can hold.
    arrays : dict of str to array
        Result of the fit.
    interactions : Interactions
        Interactions that the model was fitted on.

    Raises
    ------
    InputError
        If the folder cannot be written.
    """
    matrix = interactions.matrix
    arrays = {f"learned.{name}": array for name, array in arrays.items()}
    arrays |= {"matrix.data": matrix.data, "matrix.indices": matrix.indices, "matrix.indptr": matrix.indptr}
    arrays |= _pack_ids("users", interactions.users) | _pack_ids("items", interactions.items)
    if interactions.item_names is not None:
        arrays |= _pack_ids("item_names", interactions.item_names)
    content = {"format": _FORMAT, "version": VERSION, "class_name": class_name, "parameters": parameters}
    if interactions.item_categories is not None:
        content["item_categories"] = interactions.item_categories
    content = json.loads(json.dumps(content, default=json_default))  # fails before anything is written
    with prefix_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"arrays-{secrets.token_hex(4)}.npz"
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
        replaced = _find_arrays(folder)
        with atomic_write(folder / _FILE_NAME) as temporary:
            temporary.write_text(json.dumps(content | {"arrays": path.name}, indent=2) + "\n")
        if replaced is not None:
            replaced.unlink(missing_ok=True)


def read_model(folder: Path) -> tuple[str, dict[str, Any], Arrays, Interactions]:
    """Read a model that `write_model` wrote.

    Parameters
    ----------
    folder : Path
        Folder of the model.

    Returns
    -------
    tuple
        Class name, parameters, arrays and interactions, as given to `write_model`.

    Raises
    ------
    InputError
        If a file is missing, damaged or of another version.
    """
    with prefix_errors(folder):
        content = _read_content(folder)
        arrays = _read_arrays(folder, content)
        try:
            interactions = _unpack_interactions(arrays, content.get("item_categories"))
            class_name, parameters = content["class_name"], dict(content["parameters"])
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError(f"the model is incomplete or damaged: {error}; save it again") from None
    learned = {name.removeprefix("learned."): array for name, array in arrays.items() if name.startswith("learned.")}
    return class_name, parameters, learned, interactions


def write_checkpoint(path: Path, identity: str, record: dict[str, Any], arrays: Arrays) -> None:
    """Write the state of an unfinished computation, as a whole or not at all.

    Parameters
    ----------
    path : Path
        File to write; an older one is replaced.
    identity : str
        Text that two computations share only if they compute the same.
    record : dict
        Part of the state that JSON can hold.
    arrays : dict of str to array
        Rest of the state.
    """
    content = np.array(json.dumps({"identity": identity, **record}, default=json_default))
    with prefix_errors(path), atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez(file, record=content, **arrays)  # type: ignore[arg-type]


def read_checkpoint(path: Path, identity: str) -> tuple[dict[str, Any], Arrays] | None:
    """Read a state that `write_checkpoint` wrote.

    Parameters
    ----------
    path : Path
        File to read.
    identity : str
        Identity of the computation that is to continue.

    Returns
    -------
    tuple or None
        Record and arrays; None if there is no file.

    Raises
    ------
    InputError
        If the file is damaged, or if it belongs to another computation.
    """
    if not path.exists():
        return None
    with prefix_errors(path):
        try:
            arrays = _load_arrays(path)
            record = json.loads(str(arrays.pop("record")))
            is_same = record.pop("identity") == identity
        except READ_ERRORS as error:
            if getattr(error, "errno", None) in (errno.EACCES, errno.EIO):
                raise
            raise DamagedFileError(f"this checkpoint is damaged; remove it to start anew ({error})") from None
        if not is_same:
            raise InputError(
                "this is a checkpoint of other parameters or other interactions; pass another folder, or remove it to "
                "start anew"
            )
    return record, arrays


def json_default(value: Any) -> Any:
    """Return a number of any type as one of Python's own; the `default` of `json.dumps`.

    Parameters
    ----------
    value : Any
        Object that JSON cannot hold, such as a numpy scalar.

    Returns
    -------
    int, float, bool or str

    Raises
    ------
    TypeError
        If the value is not a scalar.
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Real):
        return int(value) if isinstance(value, Integral) else float(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _read_content(folder: Path) -> dict[str, Any]:
    """Return the content of the JSON file if it is of this format and version."""
    try:
        content = json.loads((folder / _FILE_NAME).read_text())
    except FileNotFoundError:
        raise InputError(f"the folder must hold a model, but {_FILE_NAME} is missing") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{_FILE_NAME} is not the file of a model: {error}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"{_FILE_NAME} is not the file of a model")
    if content.get("version") != VERSION:
        raise InputError(
            f"the model has format version {content.get('version')!r}; this prorec reads {VERSION}. "
            "Load it with the prorec that saved it."
        )
    return content


def _read_arrays(folder: Path, content: dict[str, Any]) -> Arrays:
    try:
        return _load_arrays(folder / Path(content["arrays"]).name)
    except FileNotFoundError:
        raise DamagedFileError(f"the model is incomplete: {content['arrays']} is missing; save it again") from None
    except READ_ERRORS as error:
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EIO, errno.EISDIR):
            raise
        raise DamagedFileError(f"the model's arrays cannot be read: {error}; save it again") from None


def _load_arrays(path: Path) -> Arrays:
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _unpack_interactions(arrays: Arrays, categories: Any) -> Interactions:
    users, items = _unpack_ids("users", arrays), _unpack_ids("items", arrays)
    parts = arrays["matrix.data"], arrays["matrix.indices"], arrays["matrix.indptr"]
    matrix = csr_array(parts, shape=(len(users), len(items)))
    matrix.check_format(full_check=True)
    names = _unpack_ids("item_names", arrays) if "item_names.bytes" in arrays else None
    if categories is not None:
        categories = tuple(tuple(map(str, each)) for each in categories)
    return Interactions(matrix, users, items, item_names=names, item_categories=categories)


def _find_arrays(folder: Path) -> Path | None:
    """Return the file of arrays of the model in the folder, if there is one."""
    try:
        return folder / Path(json.loads((folder / _FILE_NAME).read_text())["arrays"]).name
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _pack_ids(name: str, ids: NDArray[Any]) -> Arrays:
    """Return ids as arrays of numbers: texts become their bytes, one after the other, and the end of each."""
    if ids.dtype != object:
        return {name: ids}
    texts = [text.encode() for text in ids]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(texts), dtype=np.uint8), f"{name}.ends": ends}


def _unpack_ids(name: str, arrays: Arrays) -> NDArray[Any]:
    if name in arrays:
        return arrays[name]
    data, ends = arrays[f"{name}.bytes"].tobytes(), arrays[f"{name}.ends"].tolist()
    return np.array([data[begin:end].decode() for begin, end in zip([0, *ends], ends, strict=False)], dtype=object)
