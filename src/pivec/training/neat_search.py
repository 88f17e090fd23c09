"""Generations proposed by NEAT (neat-python), of networks that grow.

neat-python draws from Python's global generator. Here it has a state of its own, put in place
around each of its turns: neither the caller's random numbers nor the environments' come between.

All networks of a population answer at once, as arrays. Nodes are sorted into levels: a node stands
one level above the highest of its inputs. The values of all networks are one array whose columns
are the inputs and then the levels, each as wide as its widest network needs. A level is then one
product of stacked matrices.
"""

from __future__ import annotations

import configparser
import hashlib
import random
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.neat import ACTIVATIONS, Graph, Node, make_graph
from pivec.policies.neat_files import save_genome
from pivec.training.architecture import Answer, Architecture
from pivec.training.settings import neat_sections

Double = NDArray[np.float64]


class NeatSearch:
    """Asks neat-python for genomes, and tells it their fitness.

    Of the architecture only inputs, outputs and their head matter, since networks grow. ``values``
    are ``population`` and neat-python's own settings.
    """

    suffix = ".neat"

    def __init__(self, architecture: Architecture, values: Mapping[str, Any], seed: int) -> None:
        import neat

        n_inputs, n_outputs = architecture.sizes[0], architecture.sizes[-1]
        self._head, self._rule = architecture.head, architecture.rule
        self.config = make_config(n_inputs, n_outputs, values)
        self._random = random.Random(seed).getstate()  # noqa: S311  (evolution, no secrets)
        with self._own_random():
            self._population: Any = neat.Population(self.config)

    @contextmanager
    def _own_random(self) -> Iterator[None]:
        theirs = random.getstate()
        random.setstate(self._random)
        try:
            yield
        finally:
            self._random = random.getstate()
            random.setstate(theirs)

    def ask(self) -> list[Any]:
        """Give the genomes of the next generation."""
        return list(self._population.population.values())

    def checksum(self, population: Sequence[Any]) -> str:
        """Give a digest that tells whether a replayed generation is the same."""
        digest = hashlib.sha256()
        for genome in population:
            nodes = [(key, node.bias, node.response) for key, node in genome.nodes.items()]
            genes = [(ends, gene.weight, gene.enabled) for ends, gene in genome.connections.items()]
            digest.update(repr((genome.key, nodes, genes)).encode())
        return digest.hexdigest()[:16]

    def tell(self, population: Sequence[Any], fitness: NDArray[np.float64]) -> None:
        """Take in the fitness, of which more is better, and breed the next generation."""

        def assign(_genomes: Any, _config: Any) -> None:
            for genome, value in zip(population, fitness.tolist(), strict=True):
                genome.fitness = value

        with self._own_random():
            self._population.run(assign, 1)

    def stopped(self) -> None:
        """NEAT goes on to its last generation."""
        return

    def answer(self, population: Sequence[Any], individuals: int, episodes: int) -> Answer:
        """Answer with stacked arrays for an arena of ``individuals``."""
        del episodes
        graphs = [graph_of(genome, self.config.genome_config) for genome in population]
        stack, rule = GraphStack(graphs, individuals), self._rule
        parameters = rule.parameters()

        def act(
            observations: NDArray[np.float32], noise: NDArray[np.float32] | None
        ) -> NDArray[Any]:
            with np.errstate(over="ignore"):
                outputs = np.nan_to_num(stack.outputs(observations).astype(np.float32))
            return rule.choose(outputs, noise, parameters)

        return act

    def save(self, individual: Any, path: Path, about: Mapping[str, Any]) -> None:
        """Write one genome as JSON."""
        head = {"head": self._head} if self._rule.space == "Discrete" else None
        save_genome(individual, self.config, path, about, head)


def make_config(n_inputs: int, n_outputs: int, values: Mapping[str, Any]) -> Any:
    """Make neat-python's configuration, which it reads from a file only."""
    import neat

    class PolicyGenome(neat.DefaultGenome):  # type: ignore[misc]  # the library has no types
        """A genome whose outputs are linear; neat-python gives all nodes the same function."""

        @staticmethod
        def create_node(config: Any, node_id: int) -> Any:
            node = neat.DefaultGenome.create_node(config, node_id)
            if node_id in config.output_keys:
                node.activation = "identity"
            return node

    if not values["feed_forward"]:
        raise UsageError("only feed-forward networks are evolved, but feed_forward is false")
    if values["activation_mutate_rate"] > 0:
        raise UsageError(
            "activation_mutate_rate must be 0, since the outputs stay linear: change "
            "activation_default and activation_options instead"
        )
    kinds = {  # in the order of neat.Config's arguments
        "genome": PolicyGenome,
        "reproduction": neat.DefaultReproduction,
        "species": neat.DefaultSpeciesSet,
        "stagnation": neat.DefaultStagnation,
    }
    parser = configparser.ConfigParser()
    parser["NEAT"] = {
        "pop_size": str(values["population"]),
        "fitness_criterion": "max",
        "fitness_threshold": "0",
        "no_fitness_termination": "True",
        "reset_on_extinction": "True",
    }
    for section, keys in neat_sections().items():
        parser[kinds[section].__name__] = {key: str(values[key]) for key in keys}
    parser["PolicyGenome"].update(num_inputs=str(n_inputs), num_outputs=str(n_outputs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "neat.ini"
        with open(path, "w", encoding="utf-8") as file:
            parser.write(file)
        try:
            return neat.Config(*kinds.values(), str(path))
        except (RuntimeError, ValueError, NameError) as error:
            raise UsageError(f"neat-python refuses its settings: {error}") from error


def graph_of(genome: Any, rules: Any) -> Graph:
    """Take the network out of a genome of neat-python; ``rules`` is its genome_config."""
    nodes = [
        Node(key, node.bias, node.response, node.activation, node.aggregation)
        for key, node in genome.nodes.items()
    ]
    connections = [
        (*ends, gene.weight) for ends, gene in genome.connections.items() if gene.enabled
    ]
    return make_graph(rules.input_keys, rules.output_keys, nodes, connections)


class _Level(NamedTuple):
    """Nodes that are computed together: columns ``first`` to ``last`` from those before."""

    first: int
    last: int
    weights: Double  # (individuals, first, last - first), times the node's response
    biases: Double  # (individuals, 1, last - first)
    activations: list[tuple[str, NDArray[np.bool_] | None]]  # name, where; None: everywhere


class GraphStack:
    """Networks of the same inputs and as many outputs that answer together.

    There may be room for more ``individuals``; rows without a network give zeros.
    """

    def __init__(self, graphs: Sequence[Graph], individuals: int | None = None) -> None:
        self.n = len(graphs) if individuals is None else individuals
        self.n_inputs = self._width = len(graphs[0].inputs)
        ranks = [_ranks(graph) for graph in graphs]
        columns = [{key: i for i, key in enumerate(graph.inputs)} for graph in graphs]
        self._levels: list[_Level] = []
        for rank in range(1, 1 + max(max(own.values(), default=0) for own in ranks)):
            nodes = [
                [node for node in graph.nodes if own[node.key] == rank]
                for graph, own in zip(graphs, ranks, strict=True)
            ]
            self._levels.append(_level(nodes, columns, self.n, self._width))
            self._width = self._levels[-1].last
        self._outputs = np.zeros((self.n, 1, len(graphs[0].outputs_at)), np.intp)
        for i, graph in enumerate(graphs):
            self._outputs[i, 0] = [columns[i][key] for key in graph.outputs_at]

    def outputs(self, observations: NDArray[Any]) -> Double:
        """Outputs (individuals, rows, k) for observations (individuals, rows, inputs)."""
        values = np.zeros((self.n, observations.shape[1], self._width))
        values[:, :, : self.n_inputs] = observations
        with np.errstate(all="ignore"):  # an infinite value makes a bad individual, no failure
            for level in self._levels:
                sums = values[:, :, : level.first] @ level.weights + level.biases
                mine = values[:, :, level.first : level.last]
                for name, where in level.activations:
                    result = ACTIVATIONS[name](sums)
                    mine[...] = result if where is None else np.where(where, result, mine)
        return np.asarray(np.take_along_axis(values, self._outputs, axis=2))


def _ranks(graph: Graph) -> dict[int, int]:
    """Level of each node, from 1."""
    rank = dict.fromkeys(graph.inputs, 0)
    for node in graph.nodes:  # each comes after its inputs
        if node.aggregation != "sum":
            raise UsageError(
                f"nodes of a population must add up their inputs, but one takes their "
                f"{node.aggregation}: set aggregation_default and aggregation_options to sum"
            )
        rank[node.key] = 1 + max((rank[source] for source, _ in node.links), default=0)
    return {node.key: rank[node.key] for node in graph.nodes}


def _level(
    nodes: Sequence[Sequence[Node]], columns: Sequence[dict[int, int]], n: int, first: int
) -> _Level:
    """Put the nodes of one level, for each network, into columns from ``first`` on."""
    width = max(map(len, nodes))
    weights, biases = np.zeros((n, first, width)), np.zeros((n, 1, width))
    where: dict[str, NDArray[np.bool_]] = {}
    for i, own in enumerate(nodes):
        for column, node in enumerate(own):
            biases[i, 0, column] = node.bias
            for source, weight in node.links:
                weights[i, columns[i][source], column] += node.response * weight
            mask = where.setdefault(node.activation, np.zeros(biases.shape, bool))
            mask[i, 0, column] = True
            columns[i][node.key] = first + column
    # Columns that no node uses are read by none, so a single function may run over them.
    alone = len(where) == 1
    activations = [(name, None if alone else mask) for name, mask in where.items()]
    return _Level(first, first + width, weights, biases, activations)
