"""Networks that NEAT evolved: any feed-forward graph of nodes, evaluated in batches with NumPy.

Genomes of neat-python are kept as JSON in ``.neat`` files. A node gives
activation(bias + response * aggregation(weighted inputs)), as neat-python's FeedForwardNetwork.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.atomic import atomic_write
from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.beside import read_json
from pivec.policies.described import COMMON as DESCRIBED
from pivec.policies.described import checked, read_head, read_info, refuse_unknown
from pivec.policies.neat_functions import ACTIVATIONS, AGGREGATIONS, Double
from pivec.policies.outputs import OutputPolicy

if TYPE_CHECKING:
    import gymnasium

FORMAT = "pivec-neat"
VERSION = 1
MAX_NODES = 100_000
MAX_CONNECTIONS = 500_000
MAX_TERMS = 1 << 20
# The best action, where outputs are values of discrete actions and nothing else is said.
DISCRETE = "epsilon_greedy"


@dataclass(frozen=True)
class Node:
    """One node: what it does, and where its inputs come from."""

    key: int
    bias: float
    response: float
    activation: str
    aggregation: str
    links: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in an order in which each comes after its inputs, as a `Model`.

    Made by `make_graph`.
    """

    inputs: tuple[int, ...]
    outputs_at: tuple[int, ...]
    nodes: tuple[Node, ...]

    @property
    def n_inputs(self) -> int:
        """Number of values of an observation."""
        return len(self.inputs)

    @property
    def fingerprint(self) -> str:
        """A digest of everything that decides the outputs."""
        about = repr((self.inputs, self.outputs_at, self.nodes))
        return hashlib.sha256(about.encode()).hexdigest()

    def outputs(self, observations: NDArray[Any]) -> Double:
        """Outputs (n, k) of observations (n, ...), in float64 as neat-python computes them."""
        rows = np.asarray(observations, np.float64).reshape(len(observations), -1)
        if rows.shape[1] != len(self.inputs):
            raise UsageError(
                f"Expected a batch of observations of {len(self.inputs)} values each, but got an "
                f"array of shape {np.shape(observations)}."
            )
        # Some rows at a time, so that the terms of a node with many inputs stay few.
        most = max((len(node.links) for node in self.nodes), default=0)
        size = max(1, MAX_TERMS // max(1, most))
        parts = [self._some(rows[i : i + size]) for i in range(0, len(rows), size)]
        return np.concatenate(parts)

    def _some(self, rows: Double) -> Double:
        inputs = len(self.inputs)
        values = np.empty((inputs + len(self.nodes), len(rows)))
        values[:inputs] = rows.T
        with np.errstate(all="ignore"):  # what overflows is found in the outputs
            for i, (node, (sources, weights)) in enumerate(
                zip(self.nodes, self._links, strict=True), start=inputs
            ):
                # Value by value, in the genome's order: a row never depends on the others.
                total = AGGREGATIONS[node.aggregation](values[sources] * weights)
                values[i] = ACTIVATIONS[node.activation](node.bias + node.response * total)
        return values[self._places(self.outputs_at)].T

    @cached_property
    def _links(self) -> list[tuple[NDArray[np.intp], Double]]:
        """For each node the places of its inputs among the values, and their weights (k, 1)."""
        return [
            (
                self._places(source for source, _ in node.links),
                np.array([weight for _, weight in node.links], float)[:, None],
            )
            for node in self.nodes
        ]

    def _places(self, keys: Iterable[int]) -> NDArray[np.intp]:
        return np.array([self._at[key] for key in keys], np.intp)

    @cached_property
    def _at(self) -> dict[int, int]:
        keys = (*self.inputs, *(node.key for node in self.nodes))
        return {key: i for i, key in enumerate(keys)}

    def bind(self, observation_space: gymnasium.Space[Any]) -> Graph:
        """Check the number of inputs."""
        from gymnasium import spaces

        width = spaces.flatdim(observation_space)
        shape = observation_space.shape
        if len(self.inputs) not in (width, width if shape is None else int(np.prod(shape))):
            raise UsageError(
                f"This policy expects observations of {len(self.inputs)} values, but the "
                f"environment gives {width} ({observation_space}): was it evolved in another "
                "environment?"
            )
        return self


def make_graph(
    inputs: Iterable[int],
    outputs: Iterable[int],
    nodes: Iterable[Node],
    connections: Iterable[tuple[int, int, float]],
) -> Graph:
    """Put the nodes that the outputs need in an order of evaluation.

    Parameters
    ----------
    inputs, outputs : iterable of int
        Keys of the inputs and of the output nodes.
    nodes : iterable of Node
    connections : iterable of (from, to, weight)
        Those that are enabled.

    Examples
    --------
    >>> import numpy as np
    >>> node = Node(0, bias=1.0, response=2.0, activation="identity", aggregation="sum")
    >>> make_graph([-1], [0], [node], [(-1, 0, 3.0)]).outputs(np.array([[10.0]]))
    array([[61.]])
    """
    inputs, outputs = tuple(inputs), tuple(outputs)
    by_key = {node.key: node for node in nodes}
    into: dict[int, list[tuple[int, float]]] = {}
    for source, target, weight in connections:
        into.setdefault(target, []).append((source, weight))
    known = set(inputs)
    order: list[Node] = []
    # Depth first, without recursion: a node is placed once everything before it is.
    for output in outputs:
        waiting, open_nodes = [output], set[int]()
        while waiting:
            key = waiting[-1]
            if key in known:
                waiting.pop()
                continue
            if key not in by_key:
                raise UsageError(f"The node {key} is missing.")
            missing = [source for source, _ in into.get(key, []) if source not in known]
            if missing:
                if key in open_nodes:
                    raise UsageError("Its connections form a loop: only feed-forward networks act.")
                open_nodes.add(key)
                waiting += missing
                continue
            waiting.pop()
            known.add(key)
            order.append(replace(by_key[key], links=tuple(into.get(key, []))))
    return Graph(inputs, outputs, tuple(order))


def save_genome(
    genome: Any,
    config: Any,
    path: str | os.PathLike[str],
    info: Mapping[str, Any] | None = None,
    head: Mapping[str, Any] | None = None,
) -> None:
    """Write a genome of neat-python to ``path`` as JSON, whole or not at all.

    Parameters
    ----------
    genome : neat.DefaultGenome
    config : neat.Config
        Gives the keys of inputs and outputs.
    path : path
        Should end in ``.neat``.
    info : mapping, optional
        Anything worth keeping that JSON can hold; ``step`` is the generation.
    head : mapping, optional
        What the outputs mean, as ``{"head": "categorical"}``. Otherwise the largest output is the
        discrete action, or the outputs are the real ones.
    """
    rules = getattr(config, "genome_config", config)
    content: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "inputs": [int(key) for key in rules.input_keys],
        "outputs": [int(key) for key in rules.output_keys],
        "nodes": [
            [int(key), float(n.bias), float(n.response), str(n.activation), str(n.aggregation)]
            for key, n in genome.nodes.items()
        ],
        "connections": [
            [int(source), int(target), float(c.weight)]
            for (source, target), c in genome.connections.items()
            if c.enabled
        ],
        **(head or {}),
        "info": dict(info or {}),
    }
    if not getattr(rules, "feed_forward", True):
        raise UsageError("Only feed-forward genomes can be saved: set feed_forward in the config.")
    try:
        text = json.dumps(content)
    except (TypeError, ValueError) as error:
        raise UsageError(f"info and head must be what JSON can hold: {error}.") from error
    read_genome(text.encode(), "the genome")  # a mistake is told now, not when it is read
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.encode())


def read_genome(data: bytes, name: str = "the file") -> tuple[OutputPolicy, dict[str, Any]]:
    """Read the policy in the bytes of a ``.neat`` file, and its ``info``."""
    content = read_json(data, name)
    if content.get("format") != FORMAT:
        raise BadPolicyFile(f"{name} holds no genome that pivec saved.")
    if content.get("version") != VERSION:
        raise BadPolicyFile(
            f"{name} is of version {str(content.get('version'))[:20]} and this pivec reads "
            f"{VERSION}: install a newer pivec."
        )

    def build() -> OutputPolicy:
        fields = {"format", "version", "inputs", "outputs", "nodes", "connections"}
        refuse_unknown(content, DESCRIBED | fields, "a genome")
        return make_policy(content, content)

    return checked(build, name), read_info(content, name)


def make_policy(content: Mapping[str, Any], description: Mapping[str, Any]) -> OutputPolicy:
    """Make the policy of a genome's plain lists; see `save_genome` for what they are."""
    inputs, outputs = _keys(content, "inputs"), _keys(content, "outputs")
    if set(inputs) & set(outputs):
        raise UsageError("The keys of inputs and outputs overlap.")
    nodes = [_node(each) for each in _listed(content, "nodes", MAX_NODES)]
    connections = [_connection(each) for each in _listed(content, "connections", MAX_CONNECTIONS)]
    graph = make_graph(inputs, outputs, nodes, connections)
    return OutputPolicy(graph, read_head(description, discrete=DISCRETE))


def _listed(content: Mapping[str, Any], key: str, most: int) -> list[Any]:
    value = content.get(key)
    if not isinstance(value, list) or len(value) > most:
        raise UsageError(f"{key} must be a list of at most {most}.")
    return value


def _keys(content: Mapping[str, Any], key: str) -> list[int]:
    value = _listed(content, key, MAX_NODES)
    if not value or not all(type(n) is int for n in value) or len(set(value)) < len(value):
        raise UsageError(f"{key} must be different whole numbers.")
    return value


def _number(value: Any) -> float:
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError("Expected finite numbers as biases, responses and weights.")
    return number


def _node(entry: Any) -> Node:
    match entry:
        case [int(key), bias, response, str(activation), str(aggregation)]:
            for name, known in ((activation, ACTIVATIONS), (aggregation, AGGREGATIONS)):
                if name not in known:
                    raise UsageError(
                        f"The function {name[:40]!r} is not known: expected one of "
                        f"{', '.join(known)}."
                    )
            return Node(key, _number(bias), _number(response), activation, aggregation)
    raise UsageError("A node must be a list of key, bias, response, activation and aggregation.")


def _connection(entry: Any) -> tuple[int, int, float]:
    match entry:
        case [int(source), int(target), weight]:
            return source, target, _number(weight)
    raise UsageError("A connection must be a list of two nodes and a weight.")
