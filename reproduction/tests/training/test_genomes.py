"""Stacked networks of NEAT give what neat-python's own networks give, one by one."""

from __future__ import annotations

import json

import numpy as np
import pytest

from pivec.errors import UsageError
from pivec.policies import Node, Options, load_policies, make_graph
from reproduction.training.evolution import Architecture, GraphStack, NeatSearch, graph_of
from reproduction.training.runs import settings_for

neat = pytest.importorskip("neat")


def search(seed=0, **changes):
    # Much structure in few generations.
    changes = {"population": 24, "conn_add_prob": 0.9, "node_add_prob": 0.9, **changes}
    values = settings_for("neat", "CartPole-v1", changes)
    return NeatSearch(Architecture((3, 2), "proportional", Options(), {}), values, seed)


def evolved(generations=8, **changes):
    found = search(**changes)
    rng = np.random.default_rng(0)
    for _ in range(generations):
        found.tell(found.ask(), rng.random(len(found.ask())))
    return found


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu"])
def test_stacked_networks_equal_neat_python(activation):
    found = evolved(activation_default=activation, activation_options=activation)
    population = found.ask()
    assert max(len(genome.nodes) for genome in population) > 6  # hidden nodes have grown
    stack = GraphStack([graph_of(genome, found.config.genome_config) for genome in population], 30)
    observations = np.random.default_rng(1).normal(0, 2, (30, 5, 3))
    outputs = stack.outputs(observations)
    assert outputs.shape == (30, 5, 2)
    for i, genome in enumerate(population):
        network = neat.nn.FeedForwardNetwork.create(genome, found.config)
        slow = [network.activate(row.tolist()) for row in observations[i]]
        np.testing.assert_allclose(outputs[i], slow, rtol=1e-9, atol=1e-9)


def test_outputs_stay_linear_and_hidden_nodes_do_not():
    for genome in evolved().ask():
        for key, node in genome.nodes.items():
            assert node.activation == ("identity" if key in (0, 1) else "tanh")


def test_several_activations_in_one_level():
    nodes = [
        Node(0, 0.5, 1.0, "identity", "sum"),
        Node(1, 0.5, 2.0, "sigmoid", "sum"),
        Node(2, -0.5, 1.0, "relu", "sum"),
    ]
    one = make_graph([-1], [0, 1], nodes, [(-1, 0, 2.0), (-1, 1, 1.0), (-1, 2, 1.0), (2, 1, 3.0)])
    two = make_graph([-1], [0, 1], nodes, [(-1, 1, -1.0)])
    rows = np.linspace(-2, 2, 7)[:, None]
    outputs = GraphStack([one, two]).outputs(np.stack([rows, rows]))
    np.testing.assert_allclose(outputs[0], one.outputs(rows), rtol=1e-12)
    np.testing.assert_allclose(outputs[1], two.outputs(rows), rtol=1e-12)


def test_what_does_not_add_up_is_refused():
    node = Node(0, 0.0, 1.0, "identity", "max")
    with pytest.raises(UsageError, match="add up"):
        GraphStack([make_graph([-1], [0], [node], [(-1, 0, 1.0)])])


def test_evolution_follows_from_the_seed_and_leaves_global_numbers_alone():
    import random

    before = random.getstate()
    one = evolved(seed=4)
    assert random.getstate() == before
    random.random()
    two, other = evolved(seed=4), evolved(seed=5)
    assert one.checksum(one.ask()) == two.checksum(two.ask())
    assert one.checksum(one.ask()) != other.checksum(other.ask())


def test_saved_genomes_load_and_act_as_the_stack(tmp_path):
    found = evolved()
    population = found.ask()
    path = tmp_path / "neat-0" / "generation_7" / "individual_3.neat"
    found.save(population[3], path, {"step": 7})
    content = json.loads(path.read_text())
    assert (content["info"], content["head"]) == ({"step": 7}, "proportional")
    [named] = load_policies(path)
    assert (named.info.group, named.info.step) == ("neat-0", 7)
    from gymnasium import spaces

    policy = named.policy.bind(spaces.Box(-9, 9, (3,)), spaces.Discrete(2))
    rows = np.random.default_rng(0).normal(0, 2, (50, 3)).astype(np.float32)
    act = found.answer(population, 24, 50)
    noise = np.random.default_rng(0).random((50, 1), dtype=np.float32)
    expected = act(np.broadcast_to(rows, (24, 50, 3)), np.broadcast_to(noise, (24, 50, 1)))[3]
    np.testing.assert_array_equal(policy.act(rows, np.random.default_rng(0)), expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"feed_forward": False},
        {"activation_mutate_rate": 0.1},
        {"initial_connection": "partial_direct 3"},
        {"activation_default": "unheard"},
    ],
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(UsageError):
        search(**changes)
