from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, random_array

from prorec import Interactions
from prorec.report.row_selection import select_rows


def clicks_of(seed: int, n_users: int, n_items: int, density: float) -> Interactions:
    matrix = random_array((n_users, n_items), density=density, format="csr", rng=np.random.default_rng(seed))
    matrix.data[:] = 1
    return Interactions.from_matrix(matrix)


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 30), st.integers(1, 300), st.integers(1, 300))
def test_within_its_bounds_and_the_most_suspicious_first(
    seed: int, n_users: int, n_items: int, most: int, most_suspects: int
) -> None:
    known = clicks_of(seed, n_users, n_items, 0.5)
    rng = np.random.default_rng(seed)
    probability = rng.random(len(known)).astype(np.float32)
    flagged = probability > 0.8
    chosen = select_rows(known, probability, flagged, most=most, most_suspects=most_suspects)
    assert np.all(np.diff(chosen.places) > 0)
    assert chosen.is_everything == (len(known) <= most)
    is_in = np.zeros(len(known), dtype=bool)
    is_in[chosen.places] = True
    for user in chosen.whole_users:
        assert is_in[known.user_codes == user].all()
        assert known.activity[user]
    if chosen.is_everything:
        assert is_in.all()
        return
    assert len(chosen.places) <= most
    n_suspects = min(max(int(flagged.sum()), 1000), most_suspects, most)
    assert is_in[np.argsort(-probability, kind="stable")[:n_suspects]].all()


def test_a_user_of_too_many_clicks_does_not_crowd_out_the_others() -> None:
    rows = np.concatenate([np.zeros(6000, dtype=int), np.repeat(np.arange(1, 101), 20)])
    columns = np.concatenate([np.arange(6000), np.tile(np.arange(20), 100)])
    known = Interactions.from_matrix(coo_array((np.ones(len(rows)), (rows, columns)), shape=(101, 6000)))
    probability = np.linspace(1, 0, len(known), dtype=np.float32)  # user 0 is the most suspicious of all
    probability[-1000:] = 1
    chosen = select_rows(known, probability, probability > 0.99, most=5000)
    assert chosen.whole_users.tolist() == list(range(51, 101))
