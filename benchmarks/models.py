"""Recommenders against implicit, scipy and plain PyTorch, on MovieLens-1M and Gowalla where they are at hand."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits

import prorec
from benchmarks.ratio import Ratio, side_by_side
from prorec.models import SVD, VAE, WRMF

FACTORS, SWEEPS = 64, 10


def measure() -> Iterator[Ratio]:
    """Fitting, and recommending to everybody."""
    warnings.simplefilter("ignore")
    films, name = data("ml-1m", 6_040, 3_706)
    yield from wrmf(films, name)
    SVD(FACTORS).fit(films)
    ratio = side_by_side(lambda: SVD(FACTORS).fit(films), lambda: svds(films.matrix, FACTORS), rounds=9)
    yield Ratio(f"SVD, rank 64, {name} / scipy.sparse.linalg.svds", ratio, 0.5)
    yield from vae(films, name)
    yield from recommending(*data("gowalla", 29_858, 40_981))


def data(name: str, n_users: int, n_items: int) -> tuple[prorec.Interactions, str]:
    """The real data set, or a cinema of its size where it cannot be had."""
    try:
        return prorec.load_dataset(name), name
    except prorec.DownloadError:
        return prorec.make_cinema(n_users, n_items).interactions, f"cinema of {name}'s size"


def wrmf(films: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """Same rank, sweeps, α and λ; both judged on the same held-out part."""
    from implicit.cpu.als import AlternatingLeastSquares

    parts = prorec.split_by_user(films, (0.8, 0.2), seed=0)
    matrix = csr_matrix(parts.train.matrix)

    def theirs() -> AlternatingLeastSquares:
        model = AlternatingLeastSquares(FACTORS, regularization=10.0, alpha=10, iterations=SWEEPS, random_state=0)
        with threadpool_limits(1, "blas"):  # as implicit asks for
            model.fit(matrix, show_progress=False)
        return model

    def ours() -> WRMF:
        # implicit counts a click α times, we 1 + α times.
        return WRMF(FACTORS, alpha=9, regularization=10, sweeps=SWEEPS).fit(parts.train)

    rows = np.flatnonzero(parts.test.activity)
    ids, _ = theirs().recommend(rows, matrix[rows], N=10)
    their_ndcg = prorec.ranking_metrics(ids, parts.test.matrix[rows], 10)["ndcg@10"].mean()
    our_ndcg = prorec.evaluate(ours(), parts.test, k=10).mean["ndcg@10"]
    ratio = side_by_side(ours, theirs, rounds=3)
    yield Ratio(f"WRMF, rank 64, 10 sweeps, {name}, NDCG@10 {our_ndcg:.4f} / implicit {their_ndcg:.4f}", ratio, 1.0)


def vae(films: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """One epoch at batches of 500, against the same architecture with dense batches, as it is usually written."""
    import torch
    from torch import nn

    dense = torch.from_numpy(films.matrix.toarray())
    n_items = films.n_items

    class Plain(nn.Module):
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

    plain = Plain()
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-3)

    def theirs() -> None:
        for rows in torch.randperm(len(dense)).split(500):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            plain(dense[rows]).backward()
            optimizer.step()

    model = VAE(epochs=1)
    ratio = side_by_side(lambda: model.fit(films), theirs, rounds=5)
    yield Ratio(f"VAE, one epoch and its set-up, {name} / plain PyTorch, dense batches", ratio, 0.7)


def recommending(places: prorec.Interactions, name: str) -> Iterator[Ratio]:
    """Top 10 for every user, both from the same factors."""
    from implicit.cpu.als import AlternatingLeastSquares

    ours = WRMF(FACTORS, sweeps=1).fit(places)
    theirs = AlternatingLeastSquares(FACTORS)
    theirs.user_factors, theirs.item_factors = ours.arrays_["users"], ours.arrays_["items"]
    matrix, rows = csr_matrix(places.matrix), np.arange(places.n_users)
    ids, _ = theirs.recommend(rows, matrix, N=10)
    assert np.mean(ours.recommend(places.users, 10).item_positions == ids) > 0.999

    def recommend() -> None:
        with threadpool_limits(1, "blas"):  # faster than with all of them
            theirs.recommend(rows, matrix, N=10)

    ratio = side_by_side(lambda: ours.recommend(places.users, 10), recommend, rounds=3)
    yield Ratio(f"top 10 for every user, {name} / implicit's recommend", ratio, 1.0)
