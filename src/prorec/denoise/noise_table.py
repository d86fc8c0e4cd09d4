"""What was found out about each interaction, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from prorec.interactions.columns import ColumnRef, choose_columns
from prorec.interactions.ids import take_ids
from prorec.interactions.tables import FrameType, read_frame, to_frame
from prorec.noise.posterior import basis_names

if TYPE_CHECKING:
    from prorec.denoise.estimator import ProRec


_ROWS = 64  # items at a time


def noise_table(denoiser: ProRec, kind: FrameType, most: int | None) -> Any:
    """One row per interaction, most suspicious first; so many at most."""
    suspicion = -denoiser.noise_probability_
    places = np.arange(len(suspicion))
    if most is not None and most < len(suspicion):
        places = np.flatnonzero(suspicion <= np.partition(suspicion, most - 1)[most - 1])
    # Stable: among equals, in the order of users and items.
    order = places[np.argsort(suspicion[places], kind="stable")][:most]
    return to_frame(pa.table(_columns(denoiser, order)), kind)


def annotated(denoiser: ProRec, table: Any, wanted: dict[str, ColumnRef]) -> Any:
    """The table with what was found out about each row's pair."""
    known, frame = denoiser.interactions_, read_frame(table)
    chosen = choose_columns([str(name) for name in frame.columns], wanted, roles=("user", "item"))
    rows = known.user_positions(frame[:, chosen["user"]].to_list())
    columns = known.item_positions(frame[:, chosen["item"]].to_list())
    places = known.pair_positions(rows, columns)
    found = {
        "weight": denoiser.weights_.data,
        "noise_probability": denoiser.noise_probability_,
        "flagged": denoiser.flagged_,
    }
    for name, values in found.items():
        own = f"prorec_{name}" if name in frame.columns else name
        column = [value if place >= 0 else None for value, place in zip(values[places].tolist(), places, strict=True)]
        kind = nw.Boolean if name == "flagged" else nw.Float32
        frame = frame.with_columns(nw.new_series(own, column, kind, backend=frame.implementation))
    return frame.to_native()


def explanation_table(denoiser: ProRec, row: int, kind: FrameType) -> Any:
    """One user's interactions, most suspicious first, with the user's items that speak for and against each."""
    matrix, items = denoiser.interactions_.matrix, denoiser.interactions_.items
    places = np.arange(matrix.indptr[row], matrix.indptr[row + 1])
    places = places[np.argsort(-denoiser.noise_probability_[places], kind="stable")]
    own = matrix.indices[places].astype(np.int64)
    columns = {name: values for name, values in _columns(denoiser, places).items() if name != "user"}
    likeness, among = denoiser.model_._likeness(), np.empty((len(own), len(own)), dtype=np.float32)
    for begin in range(0, len(own), _ROWS):
        part = slice(begin, begin + _ROWS)
        like = np.empty((len(own[part]), len(items)), dtype=np.float32)
        likeness(own[part], like)
        among[part] = like[:, own]
    for name, best in (("for", _best(among, own)), ("against", _best(-among, own))):
        alone = pa.array(best < 0)
        columns[name] = pc.if_else(alone, None, take_ids(items, own[best]))
        columns[f"{name}_likeness"] = pc.if_else(alone, None, pa.array(among[np.arange(len(own)), best]))
    return to_frame(pa.table(columns), kind)


def _best(values: NDArray[np.float32], own: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each item, the place of the other item with the largest value; −1 where there is no other."""
    if len(own) < 2:
        return np.full(len(own), -1)
    others = values.copy()
    np.fill_diagonal(others, -np.inf)
    return np.asarray(np.argmax(others, axis=1))


def _columns(denoiser: ProRec, places: NDArray[np.int64]) -> dict[str, Any]:
    known = denoiser.interactions_
    users, items = known.user_codes[places], known.item_codes[places]
    columns: dict[str, Any] = {"user": take_ids(known.users, users), "item": take_ids(known.items, items)}
    if known.item_names is not None:
        columns["name"] = pa.array(known.item_names[items], pa.string())
    columns |= {
        "weight": denoiser.weights_.data[places],
        "noise_probability": denoiser.noise_probability_[places],
        "flagged": denoiser.flagged_[places],
        "share": denoiser.matching_.row_shares[places],
        "threshold": denoiser.matching_.threshold[users],
    }
    if denoiser._found is not None:
        columns["percentile_rank"] = denoiser._found.percentile_rank_[places]
        columns["basis"] = basis_names(denoiser._found.basis_[places])
    return columns
