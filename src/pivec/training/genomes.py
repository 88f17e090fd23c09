"""The networks of a NEAT population as arrays, so that all of them answer at once.

Nodes are sorted into levels: a node stands one level above the highest of its inputs. The values of
all networks are one array whose columns are the inputs and then the levels, each as wide as its
widest network needs. A level is then one product of stacked matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.neat import ACTIVATIONS, Graph, Node, make_graph

Double = NDArray[np.float64]


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

    Examples
    --------
    >>> import numpy as np
    >>> node = Node(0, bias=1.0, response=2.0, activation="identity", aggregation="sum")
    >>> double = make_graph([-1], [0], [node], [(-1, 0, 1.0)])
    >>> constant = make_graph([-1], [0], [node], [])
    >>> GraphStack([double, constant]).outputs(np.array([[[5.0]], [[5.0]]])).ravel()
    array([11.,  1.])
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
