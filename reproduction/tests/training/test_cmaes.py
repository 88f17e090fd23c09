"""CMA-ES on networks: shapes, seeds, what is saved, and that it finds its way."""

from __future__ import annotations

import numpy as np
import pytest

from pivec.policies import Options, load_policies
from reproduction.training.evolution import Architecture, CmaEs

pytest.importorskip("cma")

BOX = {"low": np.array([-1.0]), "high": np.array([1.0])}


def strategy(seed=0, sizes=(2, 5, 5, 3), head="epsilon_greedy", box=None):
    architecture = Architecture(sizes, head, Options(), box or {}, "sigmoid", first_biases=True)
    values = {"population": 12, "sigma": 0.5, "flat_generations": 10}
    return CmaEs(architecture, values, seed)


def test_first_weights_are_uniform_from_0_to_1():
    vectors = np.stack([strategy(seed)._strategy.mean for seed in range(20)])
    assert vectors.shape == (20, strategy().architecture.n_weights)
    assert vectors.min() >= 0
    assert vectors.max() < 1
    assert abs(vectors.mean() - 0.5) < 0.03


def test_two_sigmoid_layers_and_linear_outputs_with_biases_in_the_first():
    found = strategy()
    individual = np.random.default_rng(0).normal(size=found.architecture.n_weights)
    policy = found.architecture.policy(individual)
    rows = np.random.default_rng(1).normal(size=(7, 2)).astype(np.float32)
    x, at = rows.astype(float), 0
    for i, (n_in, n_out) in enumerate([(2, 5), (5, 5), (5, 3)]):
        weight = individual[at : at + n_in * n_out].reshape(n_in, n_out)
        at += n_in * n_out
        bias = individual[at : at + n_out] if i == 0 else 0.0
        at += n_out if i == 0 else 0
        x = x @ weight + bias
        x = 1 / (1 + np.exp(-x)) if i < 2 else x
    assert at == found.architecture.n_weights
    np.testing.assert_allclose(policy.outputs(rows), x, rtol=1e-4, atol=1e-5)


def test_generations_follow_from_the_seed_and_leave_global_numbers_alone():
    before = np.random.get_state()  # noqa: NPY002
    sums = []
    for seed in (1, 1, 2):
        found = strategy(seed)
        for _ in range(3):
            population = found.ask()
            found.tell(population, np.array([-np.sum(each**2) for each in population]))
        sums.append(found.checksum(found.ask()))
    assert sums[0] == sums[1] != sums[2]
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_it_climbs_and_stops_where_nothing_changes():
    found = strategy(sizes=(1, 2))
    means = []
    for _ in range(300):
        population = found.ask()
        fitness = np.array([-np.sum((each - 3) ** 2) for each in population])
        means.append(fitness.mean())
        found.tell(population, fitness)
        if found.stopped():
            break
    assert means[-1] > -1e-3 > means[0]
    assert "CMA-ES stopped by itself" in found.stopped()


def test_a_flat_start_is_not_the_end_but_a_flat_road_is():
    found = strategy()
    lengths = 0
    while not found.stopped():
        found.tell(found.ask(), np.full(12, -500.0))
        lengths += 1
    assert 5 < lengths < 15


@pytest.mark.parametrize(
    ("outputs", "head", "box"), [(1, "deterministic", BOX), (3, "proportional", None)]
)
def test_stacked_answers_and_saved_policies_agree(tmp_path, outputs, head, box):
    found = strategy(sizes=(2, 5, 5, outputs), head=head, box=box)
    population = found.ask()
    rows = np.random.default_rng(0).normal(0, 3, (14, 4, 2)).astype(np.float32)
    noise = found.architecture.rule.noise(np.random.default_rng(0), 4)
    actions = found.answer(population, 14, 4)(rows, np.broadcast_to(noise, (14, *noise.shape)))
    path = tmp_path / "cmaes-0" / "generation_20" / "individual_5.safetensors"
    found.save(population[5], path, {"step": 20, "seed": 0})
    [named] = load_policies(path)
    assert (named.info.group, named.info.step) == ("cmaes-0", 20)
    np.testing.assert_array_equal(named.policy.act(rows[5], np.random.default_rng(0)), actions[5])
    assert np.abs(actions).max() <= (1 if box else 2)
