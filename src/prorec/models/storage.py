"""Models on disk: a folder with a JSON file and a file of arrays, without pickle.

The JSON file names the file of arrays and is written last, so that a reader sees the old model or the new one, never a
mixture.
"""

from __future__ import annotations

import json
import re
import secrets
from contextlib import suppress
from dataclasses import asdict, replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from prorec._core.array_file import check_digests, digest_arrays, read_arrays, write_arrays
from prorec._core.array_rules import ArrayRule, check_arrays
from prorec._core.array_rules import Arrays as Arrays  # models take it from here
from prorec._core.checks import safe_repr
from prorec._core.errors import DamagedFileError, InputError
from prorec._core.files import atomic_write, prefix_errors, read_small_text, sync_folder
from prorec.interactions import Interactions
from prorec.interactions.tables import FRAME_TYPES, TableSource

VERSION = 3
"""Version of the format that is written. Version 1, which has no digests, and version 2, in which EASE has weights
between items only, are read too; `read_model` refuses others."""
_FILE_NAME = "model.json"
_FORMAT = "prorec model"
_ARRAYS_NAME = re.compile(r"arrays-[0-9a-f]{8}\.npz")
_MAX_TEXT_BYTES = 1 << 28
"""Largest size of the JSON file, most of which is the items' categories."""


def write_model(
    folder: Path,
    class_name: str,
    parameters: dict[str, Any],
    arrays: Arrays,
    interactions: Interactions,
    *,
    overwrite: bool = True,
) -> None:
    """Write a model into a folder, as a whole or not at all.

    Parameters
    ----------
    folder : Path
        Created if missing. Files of others in it stay.
    class_name : str
        Name of the model's class.
    parameters : dict
        Constructor parameters that JSON can hold.
    arrays : dict of str to array
        Result of the fit.
    interactions : Interactions
        Interactions that the model was fitted on.
    overwrite : bool, default True
        Replace a model that is in the folder when the new one is complete.

    Raises
    ------
    InputError
        If the folder cannot be written, or has a model that must not be replaced.
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
    if interactions.source is not None:
        content["source"] = asdict(interactions.source)
    path = folder / f"arrays-{secrets.token_hex(4)}.npz"
    content |= {"arrays": path.name, "digests": digest_arrays(arrays)}
    text = json.dumps(content, indent=2, default=json_default) + "\n"  # fails before anything is written
    with prefix_errors(folder):
        if len(text) > _MAX_TEXT_BYTES:
            raise InputError(f"{_FILE_NAME} must have at most {_MAX_TEXT_BYTES:,} bytes; leave out item categories")
        is_new = not folder.exists()
        if not (overwrite or is_new) and folder.is_dir() and any(folder.iterdir()):
            raise InputError("this folder is not empty; give another one, or let it be overwritten")
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with atomic_write(path) as temporary:
                write_arrays(temporary, arrays)
            replaced = _find_arrays(folder)
            with atomic_write(folder / _FILE_NAME, overwrite=overwrite) as temporary:
                temporary.write_text(text)
        except BaseException:
            path.unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):  # somebody may have put a file there
                    folder.rmdir()
            raise
        sync_folder(folder.parent)
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
        If a file is missing, damaged or of another version. The learned arrays are those that were written; whether
        they suit the class is for its `restore` to check.
    """
    with prefix_errors(folder):
        content = _read_content(folder)
        class_name, parameters = content.get("class_name"), content.get("parameters")
        if not isinstance(class_name, str) or not isinstance(parameters, dict):
            raise DamagedFileError(f"{_FILE_NAME} must have a class_name and parameters; save the model again")
        arrays = _read_arrays(folder, content)
        learned = {name.removeprefix("learned."): arrays.pop(name) for name in [*arrays] if name.startswith("learned.")}
        interactions = _unpack_interactions(arrays, content.get("item_categories"))
        interactions = replace(interactions, source=_to_source(content.get("source")))
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
    content = json.dumps({"identity": identity, "digests": digest_arrays(arrays), **record}, default=json_default)
    with prefix_errors(path), atomic_write(path) as temporary:
        write_arrays(temporary, {"record": np.frombuffer(content.encode(), np.uint8), **arrays})


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
    with prefix_errors(path):
        try:
            arrays = read_arrays(path)
            record = json.loads(arrays.pop("record").tobytes())
            identity_of_file, digests = record.pop("identity"), record.pop("digests")
            check_digests(arrays, digests)
        except FileNotFoundError:
            return None
        except (DamagedFileError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DamagedFileError(f"this checkpoint is damaged; remove it to start anew ({error})") from None
        if identity_of_file != identity:
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
        content = json.loads(read_small_text(folder / _FILE_NAME, _MAX_TEXT_BYTES))
    except FileNotFoundError:
        raise InputError(f"the folder must hold a model, but {_FILE_NAME} is missing") from None
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{_FILE_NAME} is not the file of a model: {error}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise InputError(f"{_FILE_NAME} is not the file of a model")
    if content.get("version") not in range(1, VERSION + 1):
        raise InputError(
            f"the model has format version {safe_repr(content.get('version'))}; this prorec reads 1 to {VERSION}. "
            "Load it with the prorec that saved it."
        )
    return content


def _read_arrays(folder: Path, content: dict[str, Any]) -> Arrays:
    """Return the arrays that the content of the JSON file names, if they are those that were saved with it."""
    name = content.get("arrays")
    if not isinstance(name, str) or not _ARRAYS_NAME.fullmatch(name):
        raise DamagedFileError(
            f"{_FILE_NAME} must name a file such as arrays-0123abcd.npz in its folder; got {safe_repr(name)}. "
            "Save the model again"
        )
    try:
        arrays = read_arrays(folder / name)
        if content["version"] > 1:
            check_digests(arrays, content.get("digests"))
    except FileNotFoundError:
        raise DamagedFileError(f"the model is incomplete: {name} is missing; save it again") from None
    except DamagedFileError as error:
        raise DamagedFileError(f"the model's arrays cannot be read: {error}; save it again") from None
    return arrays


def _unpack_interactions(arrays: Arrays, categories: Any) -> Interactions:
    """Return the interactions of a model; all arrays must belong to them."""
    parts = "matrix.data", "matrix.indices", "matrix.indptr"
    rules = {"matrix.data": ArrayRule(("interactions",), minimum=0, maximum=1)}
    for name, length in zip(parts[1:], ("interactions", "rows"), strict=True):
        index_type = arrays[name].dtype.name if name in arrays else "int32"
        rules[name] = ArrayRule((length,), "int64" if index_type == "int64" else "int32", minimum=0)
    rules |= _id_rules("users", arrays) | _id_rules("items", arrays)
    has_names = "item_names.ends" in arrays
    if has_names:
        rules |= _id_rules("item_names", arrays)
    check_arrays(arrays, rules, "the model")
    try:
        users, items = _unpack_ids("users", arrays), _unpack_ids("items", arrays)
        matrix = csr_array(tuple(arrays[name] for name in parts), shape=(len(users), len(items)))
        names = _unpack_ids("item_names", arrays) if has_names else None
        interactions = Interactions(matrix, users, items, item_names=names, item_categories=_to_tuples(categories))
    except (TypeError, ValueError) as error:
        raise DamagedFileError(f"the model is incomplete or damaged: {error}; save it again") from None
    for role, ids in (("user", users), ("item", items)):
        if len(set(ids.tolist())) != len(ids):
            raise DamagedFileError(f"the model is damaged: {role} ids must be distinct; save it again")
    return interactions


def _to_tuples(categories: Any) -> tuple[tuple[str, ...], ...] | None:
    """Return the categories of items from the JSON file, if there are any."""
    if categories is None:
        return None
    is_texts = isinstance(categories, list) and all(
        isinstance(each, list) and all(isinstance(text, str) for text in each) for each in categories
    )
    if not is_texts:
        raise DamagedFileError("item_categories must be a list of texts for each item")
    return tuple(map(tuple, categories))


def _to_source(content: Any) -> TableSource | None:
    """Return the table that the interactions were read from, as the JSON file has it, if it does."""
    if content is None:
        return None
    columns = content.get("columns") if isinstance(content, dict) else None
    is_texts = isinstance(columns, dict) and all(isinstance(each, str) for each in columns.values())
    if columns is None or not is_texts or content.get("frame") not in FRAME_TYPES:
        raise DamagedFileError(
            f"source must have columns with names, and a frame of {', '.join(FRAME_TYPES)}; got {safe_repr(content)}"
        )
    return TableSource(columns, content["frame"])


def _find_arrays(folder: Path) -> Path | None:
    """Return the file of arrays of the model in the folder, if there is one: never a file that prorec did not name."""
    try:
        name = json.loads(read_small_text(folder / _FILE_NAME, _MAX_TEXT_BYTES))["arrays"]
        return folder / name if _ARRAYS_NAME.fullmatch(name) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _pack_ids(name: str, ids: NDArray[Any]) -> Arrays:
    """Return ids as arrays of numbers: texts become their bytes, one after the other, and the end of each."""
    if ids.dtype != object:
        return {name: ids}
    texts = [text.encode() for text in ids]
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return {f"{name}.bytes": np.frombuffer(b"".join(texts), dtype=np.uint8), f"{name}.ends": ends}


def _id_rules(name: str, arrays: Arrays) -> dict[str, ArrayRule]:
    """Return the rules for what `_pack_ids` returns: numbers, or texts."""
    if name in arrays:
        return {name: ArrayRule((name,), "int64")}
    return {f"{name}.bytes": ArrayRule((f"{name}.bytes",), "uint8"), f"{name}.ends": ArrayRule((name,), "int64", 0)}


def _unpack_ids(name: str, arrays: Arrays) -> NDArray[Any]:
    if name in arrays:
        return arrays[name]
    data, ends = arrays[f"{name}.bytes"].tobytes(), arrays[f"{name}.ends"]
    if (ends[1:] < ends[:-1]).any() or (ends[-1] if len(ends) else 0) != len(data):
        raise DamagedFileError(f"{name}.ends must rise to {len(data)}, the number of bytes of all texts")
    begins = [0, *ends[:-1].tolist()]
    texts = [data[begin:end].decode() for begin, end in zip(begins, ends.tolist(), strict=True)]
    unpacked = np.empty(len(texts), dtype=object)
    unpacked[:] = texts
    return unpacked
