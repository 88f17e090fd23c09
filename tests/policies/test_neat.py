"""Genomes of NEAT: evaluated as neat-python does, and read without running anything."""

from __future__ import annotations

import json
import os
import pickle
import random

import gymnasium
import numpy as np
import pytest
from readers import read_genome

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies import (
    NEAT_ACTIVATIONS,
    NEAT_AGGREGATIONS,
    BatchPolicy,
    Node,
    load_policies,
    make_graph,
    save_genome,
)

spaces = gymnasium.spaces
SEEN = spaces.Box(-9, 9, (4,))
RNG = np.random.default_rng(0)
ROWS = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)

CONFIG = """
[NEAT]
fitness_criterion = max
fitness_threshold = 100
pop_size = 10
reset_on_extinction = False
no_fitness_termination = False

[DefaultGenome]
num_inputs = 4
num_outputs = 2
num_hidden = 3
feed_forward = {feed_forward}
initial_connection = full_direct
activation_default = sigmoid
activation_mutate_rate = 0.6
activation_options = {activations}
aggregation_default = sum
aggregation_mutate_rate = 0.4
aggregation_options = {aggregations}
single_structural_mutation = False
structural_mutation_surer = default
conn_add_prob = 0.6
conn_delete_prob = 0.2
node_add_prob = 0.5
node_delete_prob = 0.1
enabled_default = True
enabled_mutate_rate = 0.1
enabled_rate_to_true_add = 0.0
enabled_rate_to_false_add = 0.0
compatibility_disjoint_coefficient = 1.0
compatibility_weight_coefficient = 0.5
{ranges}

[DefaultSpeciesSet]
compatibility_threshold = 3.0

[DefaultStagnation]
species_fitness_func = max
max_stagnation = 20
species_elitism = 2

[DefaultReproduction]
elitism = 2
survival_threshold = 0.2
min_species_size = 2
"""
RANGE = """
{0}_init_mean = {1}
{0}_init_stdev = 1.0
{0}_init_type = gaussian
{0}_max_value = 30.0
{0}_min_value = -30.0
{0}_mutate_power = 0.5
{0}_mutate_rate = 0.7
{0}_replace_rate = 0.1
"""
TIME = RANGE.format("time_constant", 1.0).replace("= -30.0", "= 0.1").replace("1.0\n", "0.0\n", 1)


def config_text(**changes):
    ranges = "".join(RANGE.format(*each) for each in (("bias", 0), ("weight", 0), ("response", 1)))
    return CONFIG.format(
        **{
            "feed_forward": True,
            "activations": " ".join(
                each for each in NEAT_ACTIVATIONS if each not in ("cube", "exp")
            ),
            "aggregations": " ".join(NEAT_AGGREGATIONS),
            "ranges": ranges + TIME,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    """neat-python, a configuration, its text and a few mutated genomes."""
    neat = pytest.importorskip("neat")
    path = tmp_path_factory.mktemp("neat") / "config.ini"
    path.write_text(config_text())
    config = neat.Config(
        neat.DefaultGenome,
        neat.DefaultReproduction,
        neat.DefaultSpeciesSet,
        neat.DefaultStagnation,
        str(path),
    )
    state = random.getstate()
    random.seed(3)
    genomes = list(neat.Population(config).population.values())[:8]
    for genome in genomes:
        for _ in range(12):
            genome.mutate(config.genome_config)
    random.setstate(state)
    return neat, config, genomes


def test_outputs_are_those_of_neat_python(evolved, tmp_path):
    neat, config, genomes = evolved
    used = set()
    for i, genome in enumerate(genomes):
        save_genome(genome, config, tmp_path / f"gen_{i}.neat", {"step": i})
        used |= {node.aggregation for node in genome.nodes.values()}
    named = load_policies(tmp_path)
    assert [each.info.step for each in named] == list(range(8))
    assert len(used) > 4
    for each, genome in zip(named, genomes, strict=True):
        network = neat.nn.FeedForwardNetwork.create(genome, config)
        expected = np.array([network.activate(row.astype(float).tolist()) for row in ROWS])
        np.testing.assert_allclose(each.policy.model.outputs(ROWS), expected, rtol=1e-9, atol=1e-9)
        best = each.policy.bind(SEEN, spaces.Discrete(2)).act(ROWS, RNG)
        np.testing.assert_array_equal(best, expected.astype(np.float32).argmax(axis=1))
        box = spaces.Box(-0.5, 0.5, (2,))
        actions = each.policy.bind(SEEN, box).act(ROWS, RNG)
        np.testing.assert_allclose(actions, np.clip(expected, -0.5, 0.5), atol=1e-6)


def test_dense_genomes_are_evaluated_as_neat_python_adds(monkeypatch):
    rng = np.random.default_rng(0)
    n = 60
    nodes = [Node(i, 0.1, 1.0, "tanh", "sum") for i in range(n)]
    links = [(j, i, float(rng.normal())) for i in range(n) for j in (-1, *range(i + 1, n))]
    dense = make_graph([-1], [0, 1], nodes, links)
    rows = rng.normal(size=(9, 1))
    values = {-1: rows[:, 0]}
    for i in reversed(range(n)):
        total = np.zeros(9)
        for source, target, weight in links:
            if target == i:
                total = total + values[source] * weight
        values[i] = np.tanh(2.5 * (0.1 + total))
    np.testing.assert_allclose(dense.outputs(rows), np.stack([values[0], values[1]], 1), rtol=1e-9)
    whole = dense.outputs(rows)
    monkeypatch.setattr("pivec.policies.formats.neat.MAX_TERMS", 2 * n)
    np.testing.assert_array_equal(dense.outputs(rows), whole)
    np.testing.assert_array_equal(dense.outputs(rows[4:5]), whole[4:5])


@pytest.mark.parametrize("name", list(NEAT_ACTIVATIONS))
def test_every_activation_is_that_of_neat_python(name):
    activations = pytest.importorskip("neat.activations")
    theirs = activations.ActivationFunctionSet().get(name)
    values = np.concatenate([np.linspace(-20, 20, 101), [0.0, 1e-9, -1e-9]])
    expected = [theirs(float(value)) for value in values]
    np.testing.assert_allclose(NEAT_ACTIVATIONS[name](values), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", list(NEAT_AGGREGATIONS))
def test_every_aggregation_is_that_of_neat_python(name):
    aggregations = pytest.importorskip("neat.aggregations")
    theirs = aggregations.AggregationFunctionSet().get(name)
    for count in (0, 1, 2, 5):
        terms = [np.random.default_rng(i).normal(size=7) for i in range(count)]
        expected = [theirs([float(term[i]) for term in terms]) for i in range(7)]
        np.testing.assert_allclose(
            NEAT_AGGREGATIONS[name](np.array(terms).reshape(count, 7)), expected, rtol=1e-12
        )


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("config_name", ["winner.cfg", "config-feedforward.txt"])
def test_pickled_genomes_are_read_without_unpickling(evolved, tmp_path, protocol, config_name):
    _, config, genomes = evolved
    genomes[0].fitness = 12.5
    save_genome(genomes[0], config, tmp_path / "same" / "a.neat")
    (tmp_path / "winner.pkl").write_bytes(pickle.dumps(genomes[0], protocol))
    (tmp_path / config_name).write_text(config_text())
    (named,) = load_policies(tmp_path / "winner.pkl")
    assert named.info.metadata == {"algorithm": "NEAT", "fitness": 12.5}
    (same,) = load_policies(tmp_path / "same")
    np.testing.assert_array_equal(named.policy.model.outputs(ROWS), same.policy.model.outputs(ROWS))
    (tmp_path / "winner.json").write_text(json.dumps({"head": "categorical"}))
    (sampled,) = load_policies(tmp_path / "winner.pkl")
    chances = sampled.policy.bind(SEEN, spaces.Discrete(2)).distribution(ROWS)
    assert ((chances > 0) & (chances < 1)).any()
    assert len(load_policies(tmp_path / "*.pkl")) == 1


def test_pickles_without_a_description_are_left_out_of_folders(evolved, tmp_path):
    (tmp_path / "replay_buffer.pkl").write_bytes(pickle.dumps([1, 2, 3]))
    _, config, genomes = evolved
    save_genome(genomes[0], config, tmp_path / "a.neat")
    assert len(load_policies(tmp_path)) == 1


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({}, "winner.cfg"),
        ({"config-a": "", "config-b": ""}, "there are 2"),
        ({"winner.cfg": "[NEAT]\n"}, "winner.cfg"),
        ({"winner.cfg": "\ufeff???"}, "winner.cfg"),
        ({"winner.cfg": config_text(feed_forward=False)}, "recurrent"),
        ({"winner.cfg": "[DefaultGenome]\nnum_inputs = 0\nnum_outputs = 2\n"}, "num_inputs"),
        (
            {"winner.cfg": "[DefaultGenome]\nnum_inputs = 2\nnum_outputs = 9\n"},
            "node -[34] is missing",
        ),
    ],
)
def test_configurations_that_do_not_fit_are_named(evolved, tmp_path, configs, words):
    genome = evolved[2][0]
    (tmp_path / "winner.pkl").write_bytes(pickle.dumps(genome))
    for name, text in configs.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(BadPolicyFile, match=words):
        load_policies(tmp_path / "winner.pkl")


class Payload:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


class OwnGenome:
    """A genome class of the user's."""

    def __init__(self, genome):
        self.nodes, self.connections = genome.nodes, genome.connections


def test_other_pickles_need_trust(evolved, tmp_path):
    (tmp_path / "config").write_text(config_text())
    (tmp_path / "own.pkl").write_bytes(pickle.dumps(OwnGenome(evolved[2][0])))
    with pytest.raises(BadPolicyFile, match=r"OwnGenome.*--trust"):
        load_policies(tmp_path / "own.pkl")
    (named,) = load_policies(tmp_path / "own.pkl", trust=True)
    assert named.policy.model.outputs(ROWS).shape == (50, 2)
    touched = tmp_path / "touched"
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Payload(touched)))
    with pytest.raises(BadPolicyFile, match=r"run (posix|nt)\.system.*--trust"):
        load_policies(tmp_path / "evil.pkl")
    assert not touched.exists()
    with pytest.raises(BadPolicyFile, match="genome"):
        load_policies(tmp_path / "evil.pkl", trust=True)
    assert touched.exists(), "the payload itself must work, or this test shows nothing"
    (tmp_path / "bad.pkl").write_bytes(b"nonsense")
    with pytest.raises(BadPolicyFile, match="unpickle"):
        load_policies(tmp_path / "bad.pkl", trust=True)


def node(key, bias=0.0, activation="identity"):
    return Node(key, bias, 1.0, activation, "sum")


def test_only_what_the_outputs_need_is_computed():
    connections = [(-1, 5, 2.0), (5, 0, 3.0), (-1, 9, 1.0), (9, 9, 1.0)]
    graph = make_graph([-1], [0], [node(0, 1.0), node(5), node(9)], connections)
    assert [each.key for each in graph.nodes] == [5, 0]
    np.testing.assert_array_equal(graph.outputs(np.array([[10.0]])), [[61.0]])


def test_nodes_without_inputs_give_their_bias():
    graph = make_graph([-1], [0, 1], [node(0, 1.5), node(1, 2.5)], [])
    np.testing.assert_array_equal(graph.outputs(np.zeros((2, 1))), [[1.5, 2.5]] * 2)


def test_loops_are_refused():
    connections = [(-1, 0, 1.0), (5, 0, 1.0), (0, 5, 1.0)]
    with pytest.raises(UsageError, match="loop"):
        make_graph([-1], [0], [node(0), node(5)], connections)
    with pytest.raises(UsageError, match="node 7 is missing"):
        make_graph([-1], [0], [node(0)], [(7, 0, 1.0)])


def test_long_chains_need_no_recursion():
    n = 20_000
    nodes = [node(i) for i in range(n)]
    connections = [(-1, n - 1, 1.0), *((i + 1, i, 1.0) for i in range(n - 1))]
    graph = make_graph([-1], [0], nodes, connections)
    np.testing.assert_array_equal(graph.outputs(np.array([[3.0]])), [[3.0]])


@pytest.mark.bits
def test_a_row_does_not_depend_on_its_company(evolved, tmp_path):
    _, config, genomes = evolved
    save_genome(genomes[1], config, tmp_path / "a.neat")
    policy = load_policies(tmp_path)[0].policy.bind(SEEN, spaces.Box(-1, 1, (2,)))
    assert isinstance(policy, BatchPolicy)
    whole = policy.act(ROWS, RNG)
    for i in (0, 17, 49):
        np.testing.assert_array_equal(policy.act(ROWS[i : i + 1], RNG)[0], whole[i])
    with pytest.raises(UsageError, match="4 values"):
        policy.bind(spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    with pytest.raises(UsageError, match="4 values"):
        policy.act(np.zeros((2, 3)), RNG)


def content(**changes):
    whole = {
        "format": "pivec-neat",
        "version": 1,
        "inputs": [-1],
        "outputs": [0],
        "nodes": [[0, 0.5, 1.0, "tanh", "sum"]],
        "connections": [[-1, 0, 2.0]],
        "info": {},
        **changes,
    }
    return json.dumps(whole).encode()


def test_the_content_used_below_is_itself_fine():
    assert read_genome(content())[0].model.outputs(np.zeros((1, 1))) == np.tanh(2.5 * 0.5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "JSON"),
        (b"{}", "genome"),
        (content(version=2), "newer pivec"),
        (content(inputs=[]), "inputs"),
        (content(inputs=[-1, -1]), "different"),
        (content(inputs=[0]), "different"),
        (content(outputs=["a"]), "whole numbers"),
        (content(nodes=5), "nodes"),
        (content(nodes=[]), "node 0 is missing"),
        (content(nodes=[[0, 1, 1, "magic", "sum"]]), "'magic'"),
        (content(nodes=[[0, 10**400, 1, "tanh", "sum"]]), "finite"),
        (content(nodes=[[0, "1", 1, "tanh", "sum"]]), "finite"),
        (content(nodes=[[0]]), "node"),
        (content(connections=[[0]]), "connection"),
        (content(connections=[[-1, 0, float("nan")]]), "finite"),
        (content(connections=[[0, 0, 1.0]]), "loop"),
        (content(head="beta", extra=1), "'extra'"),
        (content(info=[]), "info"),
    ],
)
def test_damage_is_named(data, words):
    with pytest.raises(BadPolicyFile, match=words):
        read_genome(data, "a.neat")


def test_saving_tells_mistakes_at_once(evolved, tmp_path):
    _, config, genomes = evolved
    with pytest.raises(UsageError, match="JSON"):
        save_genome(genomes[0], config, tmp_path / "a.neat", {"x": object()})
    with pytest.raises(BadPolicyFile, match="'hed'"):
        save_genome(genomes[0], config, tmp_path / "a.neat", head={"hed": "categorical"})
    assert not list(tmp_path.iterdir())
