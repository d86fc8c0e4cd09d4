"""The arithmetic of each method of the arena, against plain statements of it, and noise on an easy log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import cosine, pdist

import prorec
from prorec import Interactions
from prorec.data.noisy_interactions import NoisyInteractions
from prorec.models import LightGCN
from reproduction.arena_methods import METHODS, Parameters, Settings, bod, dcf, network, pld, r_ce, t_ce

RANK = 6
SHARED: Parameters = {"learning_rate": 0.02, "regularization": 1e-3, "epochs": 3}
OWN: Parameters = {
    "drop_rate": 0.2,
    "ramp": 0.5,
    "beta": 0.25,
    "window": 2,
    "variance": 0.1,
    "relabel_share": 0.25,
    "pool": 5,
    "temperature": 0.2,
    "alignment": 0.1,
    "uniformity": 0.05,
    "generator_rate": 0.01,
    "generator_steps": 2,
}
SETTINGS = Settings(RANK, seed=3)


@pytest.fixture(scope="module")
def noisy() -> NoisyInteractions:
    """A small cinema without mistakes of its own, with random clicks."""
    clicks = prorec.make_cinema(100, 60, seed=1, mistake_rate=0.0).interactions
    return prorec.inject_noise(clicks, 0.2, "uniform", seed=0)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several batches in an epoch."""
    monkeypatch.setattr(network, "BATCH_SIZE", 400)


def make_network(clicks: Interactions) -> network.Network:
    return network.Network(clicks, SHARED, SETTINGS)


# ── the network ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("weighted", [False, True])
def test_plain_training_is_the_packages_lightgcn(noisy: NoisyInteractions, weighted: bool) -> None:
    weights = np.random.default_rng(0).random(len(noisy.interactions), dtype=np.float32)
    weights[::7] = 0
    clicks = noisy.interactions.with_weights(weights) if weighted else noisy.interactions
    fitted = METHODS["erm"].fit(clicks, SHARED, SETTINGS)
    model = LightGCN(RANK, learning_rate=0.02, regularization=1e-3, epochs=3, seed=3, device="cpu").fit(clicks)
    np.testing.assert_allclose(fitted.users, model.arrays_["users"], atol=1e-5)
    np.testing.assert_allclose(fitted.items, model.arrays_["items"], atol=1e-5)
    assert np.abs(fitted.users).max() > 0.05


def test_gradients_of_smoothing_are_those_of_the_dense_map() -> None:
    clicks = Interactions.from_matrix(csr_array(np.random.default_rng(1).random((12, 9)) < 0.4, dtype=np.float32))
    graph = make_network(clicks).graph
    dense = clicks.matrix.toarray().astype(np.float64)
    n_users, n_items = dense.shape
    edges = dense / np.sqrt(np.maximum(dense.sum(1, keepdims=True), 1) * np.maximum(dense.sum(0), 1))
    adjacency = np.block([[np.zeros((n_users, n_users)), edges], [edges.T, np.zeros((n_items, n_items))]])
    layers = sum(np.linalg.matrix_power(adjacency, layer) for layer in range(4)) / 4
    layers *= (adjacency.sum(1) > 0)[:, None]
    rng = np.random.default_rng(0)
    start, slope = (rng.normal(size=(n_users + n_items, 2)).astype(np.float32) for _ in range(2))
    leaf = torch.tensor(start, requires_grad=True)
    users, items = network.Smooth.apply(graph, leaf[:n_users], leaf[n_users:])  # type: ignore[no-untyped-call]
    smoothed = torch.cat([users, items])
    np.testing.assert_allclose(smoothed.detach().numpy(), layers @ start, atol=1e-5)
    # Half the squared length of the gradient has the second derivatives in its own gradient.
    objective = (torch.tensor(slope) * smoothed**2).sum() / 2
    (gradient,) = torch.autograd.grad(objective, leaf, create_graph=True)
    np.testing.assert_allclose(gradient.detach().numpy(), layers.T @ (slope * (layers @ start)), atol=1e-4)
    (second,) = torch.autograd.grad((gradient**2).sum() / 2, leaf)
    expected = layers.T @ (slope * (layers @ (layers.T @ (slope * (layers @ start)))))
    np.testing.assert_allclose(second.numpy(), expected, atol=1e-4)


def test_the_pointwise_loss_is_a_mean_of_cross_entropies_with_a_penalty(noisy: NoisyInteractions) -> None:
    net = make_network(noisy.interactions)
    entries = torch.arange(0, net.n_clicks, 3)
    state = net.generator.get_state()
    batch = network.PointwiseBatch(net, entries)
    net.generator.set_state(state)
    user, clicked, drawn, is_taken = (each.numpy() for each in net.draws.draw(entries, net.generator))
    is_used = np.arange(len(entries)) % 2
    loss = batch.mean(
        batch.click_losses, torch.nn.functional.softplus(batch.drawn_scores), torch.tensor(is_used, dtype=torch.float32)
    )
    users, items = (each.astype(np.float64) for each in net.factors())
    users_0, items_0 = (each.detach().numpy().astype(np.float64) for each in net.layer_0)
    total = count = 0.0
    for n, (u, i, j) in enumerate(zip(user, clicked, drawn, strict=True)):
        for item, label, counts in ((i, 1, is_used[n]), (j, 0, is_taken[n])):
            p = 1 / (1 + np.exp(-users[u] @ items[item]))
            squares = users_0[u] @ users_0[u] + items_0[item] @ items_0[item]
            total += counts * (-np.log(p if label else 1 - p) + 1e-3 / 2 * squares)
            count += counts
    assert float(loss.detach()) == pytest.approx(total / count, rel=1e-5)


def test_pairwise_losses_are_means_over_unclicked_items(
    noisy: NoisyInteractions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_NEGATIVES", 3000)
    clicks = noisy.interactions
    rng = np.random.default_rng(0)
    users, items = (rng.normal(size=(n, 3)).astype(np.float32) for n in clicks.matrix.shape)
    found = network.pairwise_losses(users, items, clicks, 0)
    for click in range(0, len(clicks), 200):
        u, i = clicks.user_codes[click], clicks.item_codes[click]
        free = clicks.matrix[[u]].toarray().ravel() == 0
        scores = items @ users[u]
        assert found[click] == pytest.approx(np.log1p(np.exp(scores[free] - scores[i])).mean(), rel=0.1)
    cross_entropy = network.pointwise_losses(users, items, clicks)
    u, i = clicks.user_codes[5], clicks.item_codes[5]
    assert cross_entropy[5] == pytest.approx(np.log1p(np.exp(-users[u] @ items[i])), rel=1e-5)


# ── T-CE and R-CE ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("rate", [0.0, 0.07, 0.5, 1.0])
def test_exactly_the_largest_losses_are_dropped(rate: float) -> None:
    losses = torch.tensor(np.random.default_rng(0).random(30), dtype=torch.float32)
    kept = t_ce.keep_smallest(losses, rate)
    dropped = sorted(losses.tolist())[30 - int(rate * 30) :]
    assert sorted(losses[kept == 0].tolist()) == dropped
    assert set(kept.tolist()) <= {0.0, 1.0}


@pytest.mark.usefixtures("small_batches")
def test_t_ce_drops_at_the_scheduled_rate(noisy: NoisyInteractions, monkeypatch: pytest.MonkeyPatch) -> None:
    rates: list[float] = []
    keep = t_ce.keep_smallest

    def record(losses: torch.Tensor, rate: float) -> torch.Tensor:
        rates.append(rate)
        return keep(losses, rate)

    monkeypatch.setattr(t_ce, "keep_smallest", record)
    METHODS["t-ce"].fit(noisy.interactions, {**SHARED, **OWN}, SETTINGS)
    n_steps = 3 * -(-len(noisy.interactions) // 400)
    assert rates == pytest.approx([min(0.2 * step / (0.5 * n_steps), 0.2) for step in range(n_steps)])


def test_r_ce_multiplies_the_loss_by_a_power_of_the_prediction() -> None:
    scores = torch.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    losses = r_ce.reweighted_loss(scores, 0.5)
    p = 1 / (1 + np.exp([2.0, 0.0, -3.0]))
    np.testing.assert_allclose(losses.detach().numpy(), -np.sqrt(p) * np.log(p), rtol=1e-5)
    losses.sum().backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    np.testing.assert_allclose(scores.grad.numpy(), -np.sqrt(p) * (1 - p), rtol=1e-5)


# ── PLD ─────────────────────────────────────────────────────────────────────────────────────────────


def test_probabilities_of_a_pool_by_hand() -> None:
    found = pld.find_probabilities(torch.tensor([[0.2, 0.4, 0.2], [1.0, 1.0, 1.0]]), 0.2)
    small = np.exp(-1) / (2 + np.exp(-1))  # the second loss is larger by one temperature
    np.testing.assert_allclose(found[0].numpy(), [(1 - small) / 2, small, (1 - small) / 2], rtol=1e-5)
    np.testing.assert_allclose(found[1].numpy(), [1 / 3] * 3, rtol=1e-5)


def test_pools_are_drawn_from_the_users_own_clicks() -> None:
    starts, user = torch.tensor([0, 4, 5, 8]), torch.tensor([2] * 3000 + [1, 0])
    pools = pld.draw_pool(starts, user, 2, torch.Generator().manual_seed(0))
    assert set(pools[-2].tolist()) == {4}
    assert set(pools[-1].tolist()) <= {0, 1, 2, 3}
    np.testing.assert_allclose(np.bincount(pools[:-2].ravel().numpy(), minlength=8)[5:] / 6000, [1 / 3] * 3, atol=0.02)


def test_pld_learns_from_the_click_that_its_user_would_draw(
    noisy: NoisyInteractions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pld, "_WARM_UP", 0)
    clicks, seen = noisy.interactions, []
    original = network.pairwise_loss

    def record(net: network.Network, user: Any, clicked: Any, drawn: Any, is_taken: Any) -> torch.Tensor:
        users, items = net.factors()
        margins = (users[user] * (items[clicked] - items[drawn])).sum(axis=1)
        seen.append((user.numpy(), clicked.numpy(), np.log1p(np.exp(-margins)).mean()))
        return original(net, user, clicked, drawn, is_taken)

    monkeypatch.setattr(pld, "pairwise_loss", record)
    cold = {**SHARED, **OWN, "epochs": 1, "temperature": 0.001, "pool": 20}
    METHODS["pld"].fit(clicks, cold, SETTINGS)
    METHODS["pld"].fit(clicks, cold | {"temperature": 1e6}, SETTINGS)
    (user, clicked, sharp), (_, _, flat) = seen
    assert clicks.matrix.toarray()[user, clicked].all()
    assert sharp < flat, "at a low temperature the click of the smallest loss is chosen"


def test_personal_scores_by_a_loop(noisy: NoisyInteractions) -> None:
    clicks = noisy.interactions
    losses = np.random.default_rng(0).random(len(clicks)) * 3
    found = pld.score_personally(losses, clicks, 0.5)
    for click in range(0, len(clicks), 100):
        own = losses[clicks.user_codes == clicks.user_codes[click]]
        chance = np.exp(-losses[click] / 0.5) / np.exp(-own / 0.5).sum()
        assert found[click] == pytest.approx(-np.log(len(own) * chance))


# ── DCF ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_lower_bound_by_hand() -> None:
    mean, n_kept = torch.tensor([2.0, 2.0, 0.1]), torch.tensor([1.0, 3.0, 1.0])
    found = dcf.find_lower_bound(mean, 2, n_kept, 0.5).tolist()
    # .5·(2 + .5·log(4)/4) = 1.08664, divided by n − .5.
    assert found == pytest.approx([0.0, 2 - 1.0866434 / 2.5, 0.0])
    assert dcf.find_lower_bound(mean, 2, n_kept, 0.0).tolist() == pytest.approx([2.0, 2.0, 0.1])
    assert dcf.damp(torch.tensor([0.0, 2.0])).tolist() == pytest.approx([0.0, np.log(5)])


def test_the_worst_of_the_dropped_clicks_are_relabelled() -> None:
    bounds = torch.tensor([0.1, 0.9, 0.3, 0.8, 0.2, 0.7, 0.0, 0.6, 0.4, 0.5])
    assert dcf.relabel(bounds, 0.4, 0.5).tolist() == [1, -1, 1, -1, 1, 0, 1, 0, 1, 1]
    assert dcf.relabel(bounds, 0.0, 0.5).tolist() == [1] * 10


@pytest.mark.usefixtures("small_batches")
def test_dcf_remembers_the_last_epochs(noisy: NoisyInteractions, monkeypatch: pytest.MonkeyPatch) -> None:
    clicks, window, epochs = noisy.interactions, 2, 4
    entries_seen: list[NDArray[Any]] = []
    losses_seen: list[NDArray[Any]] = []
    bounds_seen: list[tuple[int, NDArray[Any], float]] = []
    labels_seen: list[NDArray[Any]] = []
    make_batch, bound, relabel, damp = network.PointwiseBatch, dcf.find_lower_bound, dcf.relabel, dcf.damp

    def record_batch(net: Any, entries: Any) -> Any:
        entries_seen.append(entries.numpy())
        return make_batch(net, entries)

    def record_damp(losses: Any) -> Any:
        losses_seen.append(losses.numpy().astype(np.float64))
        return damp(losses)

    def record_bound(mean: Any, n_losses: int, n_kept: Any, variance: float) -> Any:
        bounds_seen.append((n_losses, n_kept.numpy(), variance))
        return bound(mean, n_losses, n_kept, variance)

    def record_labels(*arguments: Any) -> Any:
        labels = relabel(*arguments)
        labels_seen.append(labels.numpy().copy())
        return labels

    for name, function in (
        ("PointwiseBatch", record_batch),
        ("damp", record_damp),
        ("find_lower_bound", record_bound),
        ("relabel", record_labels),
    ):
        monkeypatch.setattr(dcf, name, function)
    fitted = METHODS["dcf"].fit(clicks, {**SHARED, **OWN, "epochs": epochs, "window": window}, SETTINGS)
    losses, kept = (np.full((epochs, len(clicks)), np.nan) for _ in range(2))
    n_batches = len(entries_seen) // epochs
    for step, entries in enumerate(entries_seen):
        epoch = step // n_batches
        n_losses, n_kept, variance = bounds_seen[step]
        earlier = kept[max(0, epoch - window + 1) : epoch]
        np.testing.assert_array_equal(n_kept, 1 + earlier[:, entries].sum(axis=0))
        assert n_losses == min(epoch + 1, window)
        assert variance == pytest.approx(0.1 * (1 - step / len(entries_seen)))
        losses[epoch, entries], kept[epoch, entries] = losses_seen[step], labels_seen[step] == 1
    assert (kept == 0).any()
    assert any((labels < 0).any() for labels in labels_seen)
    last = losses[-window:]
    np.testing.assert_allclose(fitted.noise_scores, np.log(1 + last + last**2 / 2).mean(axis=0), rtol=1e-5)


# ── BOD ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def problem(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A dense smoothing map, factors of layer 0, pairs and a generator, in double precision."""
    monkeypatch.setattr(bod, "_HIDDEN", 6)
    rng = np.random.default_rng(0)
    shape, rank = (4, 5), 3
    mix = [rng.normal(size=(sum(shape), n)) for n in shape]
    layer_0 = [torch.tensor(rng.normal(size=(n, rank)), requires_grad=True) for n in shape]

    def smooth(leaves: Any = layer_0) -> Any:
        return tuple(torch.tensor(each.T) @ torch.cat(list(leaves)) for each in mix)

    pairs = (*(torch.tensor(rng.integers(n, size=7)) for n in (4, 5, 5)), torch.tensor([1.0] * 6 + [0.0]))
    weigh = bod.WeightGenerator(rank, 0, torch.device("cpu"))
    weigh.parameters = [each.detach().double().requires_grad_() for each in weigh.parameters]
    return {"layer_0": layer_0, "smooth": smooth, "pairs": pairs, "weigh": weigh}


def differentiate(function: Any, leaves: Any, step: float = 1e-5) -> list[NDArray[np.float64]]:
    """Return central differences of a function of tensors, which are changed in place and restored."""
    slopes = []
    for leaf in leaves:
        slope = np.zeros(leaf.shape)
        flat = leaf.detach().view(-1)
        for position in range(len(flat)):
            values = []
            before = float(flat[position])
            for sign in (1, -1):
                flat[position] = before + sign * step
                values.append(float(function().detach()))
            flat[position] = before
            slope.reshape(-1)[position] = (values[0] - values[1]) / (2 * step)
        slopes.append(slope)
    return slopes


def test_the_distance_of_gradients_agrees_with_finite_differences(problem: dict[str, Any]) -> None:
    smooth, pairs = problem["smooth"], problem["pairs"]
    weights = tuple(each.detach() for each in problem["weigh"].pairs(smooth(), pairs))
    by_pairs, by_alignment = (
        differentiate(lambda loss=loss: loss(smooth(), pairs, weights), problem["layer_0"])
        for loss in (bod.weighted_pairwise_loss, bod.weighted_alignment)
    )
    expected = sum(
        cosine(a, b) for x, y in zip(by_pairs, by_alignment, strict=True) for a, b in zip(x.T, y.T, strict=True)
    )
    assert float(bod.match_gradients(**problem).detach()) == pytest.approx(expected, rel=1e-4)


def test_the_generators_gradient_agrees_with_finite_differences(problem: dict[str, Any]) -> None:
    parameters = problem["weigh"].parameters
    found = torch.autograd.grad(bod.match_gradients(**problem), parameters)
    expected = differentiate(lambda: bod.match_gradients(**problem), parameters)
    for own, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(own.numpy(), other, atol=1e-6)
    assert max(np.abs(each).max() for each in expected) > 1e-3


def test_losses_of_bod_by_hand() -> None:
    users, items = torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    pairs = torch.tensor([0]), torch.tensor([0]), torch.tensor([1]), torch.tensor([1.0])
    weights = torch.tensor([0.5]), torch.tensor([0.25])
    # Scores are 8 and 3; the cosine of user and click is .8.
    loss = bod.weighted_pairwise_loss((users, items), pairs, weights)
    assert float(loss) == pytest.approx(np.log1p(np.exp(0.25 * 3 - 0.5 * 8)))
    assert float(bod.weighted_alignment((users, items), pairs, weights)) == pytest.approx(0.5 * 2 * (1 - 0.8))
    side = np.random.default_rng(0).normal(size=(6, 3))
    unit = side / np.linalg.norm(side, axis=1, keepdims=True)
    expected = np.log(np.exp(-2 * pdist(unit) ** 2).mean())
    assert float(bod.uniformity(torch.tensor(side))) == pytest.approx(expected)


def test_without_a_generator_all_weights_are_1(noisy: NoisyInteractions, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = METHODS["erm-au"].fit(noisy.interactions, {**SHARED, **OWN}, SETTINGS)
    monkeypatch.setattr(bod.WeightGenerator, "__call__", lambda self, users, items: torch.ones(len(users)))
    monkeypatch.setattr(bod, "_take_outer_step", lambda *_: None)
    weighted = METHODS["bod"].fit(noisy.interactions, {**SHARED, **OWN}, SETTINGS)
    np.testing.assert_array_equal(weighted.users, plain.users)
    assert not weighted.noise_scores.any()


# ── all ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["erm", "erm-bce", "erm-au", "t-ce", "r-ce", "dcf", "pld"])
def test_noise_gets_higher_scores_than_clicks(noisy: NoisyInteractions, name: str) -> None:
    fitted = METHODS[name].fit(noisy.interactions, {**SHARED, **OWN, "epochs": 12}, SETTINGS)
    assert prorec.detection_metrics(fitted.noise_scores, noisy.is_noise)["auroc"] > 0.65


@pytest.mark.parametrize("name", ["erm", "t-ce", "dcf", "pld", "bod"])
def test_the_same_seed_gives_the_same_bits(noisy: NoisyInteractions, name: str) -> None:
    results = [METHODS[name].fit(noisy.interactions, {**SHARED, **OWN}, SETTINGS) for _ in range(2)]
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)
    assert np.isfinite(results[0].noise_scores).all()
    assert len(results[0].noise_scores) == len(noisy.interactions)
