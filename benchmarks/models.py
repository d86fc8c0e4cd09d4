"""Recommenders against implicit, scipy and plain PyTorch, on MovieLens-1M and Gowalla or on cinemas of their size."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits

import prorec
from benchmarks.ratio import Ratio, time_ratio
from prorec.models import BPR, EASE, SVD, VAE, WRMF, SparseLinear

FACTORS, SWEEPS, EPOCHS = 64, 10, 20
N_POPULAR = 10_000


def measure() -> Iterator[Ratio]:
    """Measure fits, and recommendations for all users."""
    warnings.simplefilter("ignore")
    films, name = load_or_make("ml-1m", 6_040, 3_706)
    yield from measure_wrmf(films, name)
    yield from measure_bpr(films, name)
    SVD(FACTORS).fit(films)
    value = time_ratio(lambda: SVD(FACTORS).fit(films), lambda: svds(films.matrix, FACTORS), rounds=9)
    yield Ratio(f"SVD, rank 64, {name} / scipy.sparse.linalg.svds", value, 0.5)
    yield from measure_vae(films, name)
    check_ins, name = load_or_make("gowalla", 29_858, 40_981)
    yield from measure_recommend(check_ins, name)
    yield from measure_sparse_linear(check_ins, name)


def load_or_make(name: str, n_users: int, n_items: int) -> tuple[prorec.Interactions, str]:
    """Return the real data set and its name, or a cinema of its size if it cannot be downloaded."""
    try:
        return prorec.load_dataset(name), name
    except prorec.DownloadError:
        return prorec.make_cinema(n_users, n_items).interactions, f"cinema of {name}'s size"


def measure_wrmf(films: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """Measure WRMF against implicit, with equal rank, sweeps, α and λ, and evaluate both on the same test part."""
    from implicit.cpu.als import AlternatingLeastSquares

    parts = prorec.split_by_user(films, (0.8, 0.2), seed=0)
    matrix = csr_matrix(parts.train.matrix)

    def theirs() -> AlternatingLeastSquares:
        model = AlternatingLeastSquares(FACTORS, regularization=10.0, alpha=10, iterations=SWEEPS, random_state=0)
        with threadpool_limits(1, "blas"):  # implicit's own advice
            model.fit(matrix, show_progress=False)
        return model

    def ours() -> WRMF:
        # A click has confidence α in implicit and 1 + α in prorec.
        return WRMF(FACTORS, alpha=9, regularization=10, sweeps=SWEEPS).fit(parts.train)

    rows = np.flatnonzero(parts.test.activity)
    ids, _ = theirs().recommend(rows, matrix[rows], N=10)
    their_ndcg = prorec.ranking_metrics(ids, parts.test.matrix[rows], 10)["ndcg@10"].mean()
    our_ndcg = prorec.evaluate(ours(), parts.test, k=10).mean["ndcg@10"]
    value = time_ratio(ours, theirs, rounds=3)
    quality = f"NDCG@10 {our_ndcg:.4f}, implicit's {their_ndcg:.4f}"
    yield Ratio(f"WRMF, rank 64, 10 sweeps, {name} / implicit's ALS", value, 1.0, quality)


def measure_bpr(films: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """Measure BPR against implicit, with equal numbers, and evaluate both on the same test part.

    implicit draws the other item in proportion to its popularity, prorec all other items alike.
    """
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    parts = prorec.split_by_user(films, (0.8, 0.2), seed=0)
    matrix = csr_matrix(parts.train.matrix, copy=True)  # implicit writes to it

    def theirs() -> BayesianPersonalizedRanking:
        model = BayesianPersonalizedRanking(
            FACTORS - 1, learning_rate=0.05, regularization=0.01, iterations=EPOCHS, random_state=0
        )
        model.fit(matrix, show_progress=False)  # it adds a factor for the bias
        return model

    def ours() -> BPR:
        return BPR(FACTORS, regularization=0.01, learning_rate=0.05, epochs=EPOCHS).fit(parts.train)

    rows = np.flatnonzero(parts.test.activity)
    ids, _ = theirs().recommend(rows, matrix[rows], N=10)
    their_ndcg = prorec.ranking_metrics(ids, parts.test.matrix[rows], 10)["ndcg@10"].mean()
    our_ndcg = prorec.evaluate(ours(), parts.test, k=10).mean["ndcg@10"]
    value = time_ratio(ours, theirs, rounds=3)
    quality = f"NDCG@10 {our_ndcg:.4f}, implicit's {their_ndcg:.4f}"
    yield Ratio(f"BPR, rank 64, 20 epochs, {name} / implicit's BPR", value, 1.0, quality)


def measure_vae(films: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """Measure one epoch with batches of 500, against the same architecture with dense batches, as in most code."""
    import torch
    from torch import nn

    dense = torch.from_numpy(films.matrix.toarray())
    n_items = films.n_items

    class PlainVAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(n_items, 600), nn.Tanh(), nn.Linear(600, 400))
            self.decoder = nn.Sequential(nn.Linear(200, 600), nn.Tanh(), nn.Linear(600, n_items))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.encoder(nn.functional.dropout(nn.functional.normalize(x), 0.5))
            mean, log_variance = hidden[:, :200], hidden[:, 200:]
            z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
            scores = self.decoder(z)
            divergence = -0.5 * torch.mean(torch.sum(1 + log_variance - mean**2 - log_variance.exp(), dim=1))
            return -(torch.log_softmax(scores, 1) * x).sum(1).mean() + 0.2 * divergence

    plain = PlainVAE()
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)

    def theirs() -> None:
        for rows in torch.randperm(len(dense)).split(500):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            plain(dense[rows]).backward()
            optimizer.step()

    model = VAE(epochs=1)
    value = time_ratio(lambda: model.fit(films), theirs, rounds=5)
    yield Ratio(f"VAE, one epoch and its set-up, {name} / plain PyTorch, dense batches", value, 0.7)


def measure_sparse_linear(check_ins: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """Measure SparseLinear against EASE on the most popular items; with all of them, EASE would need 14 GB."""
    popular = np.sort(np.argsort(-check_ins.popularity, kind="stable")[:N_POPULAR])
    some = prorec.Interactions.from_matrix(check_ins.matrix[:, popular])
    value = time_ratio(lambda: SparseLinear().fit(some), lambda: EASE(100.0).fit(some), rounds=2)
    yield Ratio(f"SparseLinear, {name}, {N_POPULAR:,} most popular items / EASE", value, 0.5)


def measure_recommend(check_ins: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """Measure the top 10 of every user, with the same factors on both sides."""
    from implicit.cpu.als import AlternatingLeastSquares

    ours = WRMF(FACTORS, sweeps=1).fit(check_ins)
    theirs = AlternatingLeastSquares(FACTORS)
    theirs.user_factors, theirs.item_factors = ours.arrays_["users"], ours.arrays_["items"]
    matrix, rows = csr_matrix(check_ins.matrix), np.arange(check_ins.n_users)
    ids, _ = theirs.recommend(rows, matrix, N=10)
    assert np.mean(ours.recommend(check_ins.users, 10).item_positions == ids) > 0.999

    def recommend() -> None:
        with threadpool_limits(1, "blas"):  # implicit is faster this way than with all threads
            theirs.recommend(rows, matrix, N=10)

    value = time_ratio(lambda: ours.recommend(check_ins.users, 10), recommend, rounds=3)
    yield Ratio(f"top 10 for every user, {name} / implicit's recommend", value, 1.0)
