"""Models on the split of Gowalla that graph recommenders are compared on: `python -m reproduction gowalla`.

The split is that of the LightGCN paper: its training part, which the data set has in two files, and its test part.
Recall@20 and NDCG@20 have the standard definitions, over all users with a test interaction.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_array

import prorec
from prorec._core.checks import check_choice
from prorec._core.files import prefix_errors
from prorec.data.registry import DATASETS, fetch_files
from prorec.models import BPR, LightGCN, Model, Popularity, SparseLinear

MODELS: dict[str, tuple[Model, ...]] = {
    "Popularity": (Popularity(),),
    "SparseLinear": (SparseLinear(neighbors=200), SparseLinear(activity_power=0.5)),
    "BPR": (BPR(rank=128, regularization=0.003, learning_rate=0.2, epochs=300, device="cpu"),),
    "LightGCN": (LightGCN(loss="softmax", epochs=50, batch_size=8192),),
}


def main(
    models: Annotated[str, typer.Option(help="Models, separated by commas.")] = "Popularity,SparseLinear,BPR",
    device: Annotated[str, typer.Option(help="Device of LightGCN.")] = "auto",
) -> None:
    """Models on Gowalla, as graph recommenders are compared."""
    names = [name.strip() for name in models.split(",")]
    for name in names:
        check_choice("models", name, tuple(MODELS))
    train, test = load_split()
    table = Table("model", "Recall@20", "NDCG@20", "fit", "processor", box=None, pad_edge=False)
    for model in (each for name in names for each in MODELS[name]):
        chosen = replace(model, device=device) if isinstance(model, LightGCN) else model
        begin, begin_processor = time.perf_counter(), time.process_time()
        chosen.fit(train)
        seconds, processor = time.perf_counter() - begin, time.process_time() - begin_processor
        mean = prorec.evaluate(chosen, test, k=20).mean
        quality = (f"{mean[name]:.4f}" for name in ("recall@20", "ndcg@20"))
        table.add_row(repr(chosen), *quality, f"{seconds:.0f} s", f"{processor:.0f} s")
    Console(width=200).print(table)


def load_split() -> tuple[prorec.Interactions, prorec.Interactions]:
    """Return the training and the test part, with the same users and items."""
    clicks = prorec.load_dataset("gowalla")
    path = fetch_files(DATASETS["gowalla"]) / "test.txt"
    with prefix_errors(path):
        lines = [np.array(line.split(), dtype=np.int64) for line in path.read_text().splitlines()]
    users = np.concatenate([np.full(len(line) - 1, line[0]) for line in lines])
    rows, columns = clicks.user_positions(users), clicks.item_positions(np.concatenate([line[1:] for line in lines]))
    is_test = csr_array((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=clicks.matrix.shape)
    in_test = np.asarray(is_test[clicks.user_codes, clicks.item_codes]).ravel() > 0
    return clicks.select(~in_test), clicks.select(in_test)
