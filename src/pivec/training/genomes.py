"""The networks of a NEAT population as arrays, so that all of them answer at once.

Nodes are sorted into levels: a node stands one level above the highest of its inputs. The values of
all networks are one array whose columns are the inputs and then the levels, each as wide as its
widest network needs. A level is then one product of stacked matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class _Level:
    """Nodes that are computed together: columns ``first`` to ``last`` from those before."""

    first: int
    last: int
    weights: Double  # (individuals, first, last - first), times the node's response
    biases: Double  # (individuals, 1, last - first)
    activations: tuple[tuple[str, NDArray[np.bool_] | None], ...]  # name, where; None: everywhere


class GraphStack:
    """Networks that answer together.

    Parameters
    ----------
    graphs : sequence of Graph
        Of the same inputs and the same number of outputs; nodes add up their inputs.
    individuals : int, optional
        Room for so many; rows without a network give zeros.

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
        self.n_inputs = len(graphs[0].inputs)
        placed = [_levels(graph) for graph in graphs]
        depth = max(max(levels.values(), default=0) for levels in placed)
        widths = [
            max(sum(level == at for level in levels.values()) for levels in placed)
            for at in range(1, depth + 1)
        ]
        starts = [self.n_inputs, *(self.n_inputs + np.cumsum(widths)).tolist()]
        columns = [
            _columns(graph, levels, starts) for graph, levels in zip(graphs, placed, strict=True)
        ]
        self._width = starts[-1]
        self._levels = [
            _level(graphs, placed, columns, self.n, at, starts[at - 1], starts[at])
            for at in range(1, depth + 1)
        ]
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
        found: Double = np.take_along_axis(values, self._outputs, axis=2)
        return found


def _levels(graph: Graph) -> dict[int, int]:
    """Level of each node; inputs are at 0."""
    level = dict.fromkeys(graph.inputs, 0)
    for node in graph.nodes:  # each comes after its inputs
        if node.aggregation != "sum":
            raise UsageError(
                f"nodes of a population must add up their inputs, but one takes their "
                f"{node.aggregation}: set aggregation_default and aggregation_options to sum"
            )
        level[node.key] = 1 + max((level[source] for source, _ in node.links), default=0)
    return {node.key: level[node.key] for node in graph.nodes}


def _columns(graph: Graph, levels: dict[int, int], starts: Sequence[int]) -> dict[int, int]:
    """Column of each input and node."""
    column = {key: i for i, key in enumerate(graph.inputs)}
    free = list(starts)
    for node in graph.nodes:
        at = levels[node.key] - 1
        column[node.key] = free[at]
        free[at] += 1
    return column


def _level(
    graphs: Sequence[Graph],
    placed: Sequence[dict[int, int]],
    columns: Sequence[dict[int, int]],
    n: int,
    at: int,
    first: int,
    last: int,
) -> _Level:
    weights = np.zeros((n, first, last - first))
    biases = np.zeros((n, 1, last - first))
    where: dict[str, NDArray[np.bool_]] = {}
    for i, graph in enumerate(graphs):
        for node in graph.nodes:
            if placed[i][node.key] != at:
                continue
            column = columns[i][node.key] - first
            biases[i, 0, column] = node.bias
            for source, weight in node.links:
                weights[i, columns[i][source], column] += node.response * weight
            mask = where.setdefault(node.activation, np.zeros(biases.shape, bool))
            mask[i, 0, column] = True
    # Columns that no node uses are read by none, so a single function may run over them.
    alone = len(where) == 1
    activations = tuple((name, None if alone else mask) for name, mask in where.items())
    return _Level(first, last, weights, biases, activations)
