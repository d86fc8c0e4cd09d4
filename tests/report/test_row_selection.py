"""Selection of the interactions that a report holds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, random_array

from prorec import Interactions
from prorec.report.row_selection import select_rows


def make_clicks(seed: int, n_users: int, n_items: int, density: float) -> Interactions:
    matrix = random_array((n_users, n_items), density=density, format="csr", rng=np.random.default_rng(seed))
    matrix.data[:] = 1
    return Interactions.from_matrix(matrix)


@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 30), st.integers(1, 300), st.integers(1, 300))
def test_selection_keeps_its_limits_and_the_most_suspicious(
    seed: int, n_users: int, n_items: int, max_rows: int, max_suspicious: int
) -> None:
    interactions = make_clicks(seed, n_users, n_items, 0.5)
    rng = np.random.default_rng(seed)
    probability = rng.random(len(interactions)).astype(np.float32)
    flagged = probability > 0.8
    selection = select_rows(interactions, probability, flagged, max_rows=max_rows, max_suspicious=max_suspicious)
    assert np.all(np.diff(selection.positions) > 0)
    assert selection.is_complete == (len(interactions) <= max_rows)
    is_selected = np.zeros(len(interactions), dtype=bool)
    is_selected[selection.positions] = True
    for user in selection.complete_users:
        assert is_selected[interactions.user_codes == user].all()
        assert interactions.activity[user]
    if selection.is_complete:
        assert is_selected.all()
        return
    assert len(selection.positions) <= max_rows
    n_suspicious = min(max(int(flagged.sum()), 1000), max_suspicious, max_rows)
    assert is_selected[np.argsort(-probability, kind="stable")[:n_suspicious]].all()


def test_user_with_too_many_clicks_is_not_complete() -> None:
    rows = np.concatenate([np.zeros(6000, dtype=int), np.repeat(np.arange(1, 101), 20)])
    columns = np.concatenate([np.arange(6000), np.tile(np.arange(20), 100)])
    interactions = Interactions.from_matrix(coo_array((np.ones(len(rows)), (rows, columns)), shape=(101, 6000)))
    probability = np.linspace(1, 0, len(interactions), dtype=np.float32)  # user 0 has the most suspicious clicks
    probability[-1000:] = 1
    selection = select_rows(interactions, probability, probability > 0.99, max_rows=5000)
    assert selection.complete_users.tolist() == list(range(51, 101))


def test_a_complete_user_takes_only_the_room_of_the_clicks_that_are_not_suspicious() -> None:
    interactions = Interactions.from_matrix(np.ones((2, 5)))
    probability = np.array([0.9, 0.9, 0.9, 0.1, 0.1, 0.8, 0.2, 0.2, 0.2, 0.2], dtype=np.float32)
    selection = select_rows(interactions, probability, probability > 0.5, max_rows=6, max_suspicious=4)
    assert selection.positions.tolist() == [0, 1, 2, 3, 4, 5], "four suspicious clicks and two others of user 0"
    assert selection.complete_users.tolist() == [0]
