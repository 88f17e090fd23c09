"""Networks that NEAT evolved: any feed-forward graph of nodes, evaluated in batches with NumPy.

A node gives activation(bias + response * aggregation(weighted inputs)), as neat-python's
FeedForwardNetwork.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.policies.outputs import Model

Double = NDArray[np.float64]

MAX_TERMS = 1 << 20


_SCALE, _ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

ACTIVATIONS: dict[str, Callable[[Double], Double]] = {
    "sigmoid": lambda z: 1.0 / (1.0 + np.exp(-np.clip(5.0 * z, -60.0, 60.0))),
    "tanh": lambda z: np.tanh(np.clip(2.5 * z, -60.0, 60.0)),
    "sin": lambda z: np.sin(np.clip(5.0 * z, -60.0, 60.0)),
    "gauss": lambda z: np.exp(-5.0 * np.square(np.clip(z, -3.4, 3.4))),
    "relu": lambda z: np.maximum(z, 0.0),
    "elu": lambda z: np.where(z > 0, z, np.expm1(np.minimum(z, 0))),
    "lelu": lambda z: np.where(z > 0, z, 0.005 * z),
    "selu": lambda z: _SCALE * np.where(z > 0, z, _ALPHA * np.expm1(np.minimum(z, 0))),
    "softplus": lambda z: 0.2 * np.log1p(np.exp(np.clip(5.0 * z, -60.0, 60.0))),
    "identity": lambda z: z,
    "clamped": lambda z: np.clip(z, -1.0, 1.0),
    "inv": lambda z: np.where(z == 0, 0.0, 1.0 / np.where(z == 0, 1.0, z)),
    "log": lambda z: np.log(np.maximum(z, 1e-7)),
    "exp": lambda z: np.exp(np.clip(z, -60.0, 60.0)),
    "abs": np.abs,
    "hat": lambda z: np.maximum(0.0, 1.0 - np.abs(z)),
    "square": np.square,
    "cube": lambda z: z**3,
}
"""Name -> function of an array, as neat-python's function of a number."""


def _sum(terms: Double) -> Double:
    # One after another, as neat-python adds them: `sum` of NumPy may add in another order.
    total: Double = np.add.accumulate(terms)[-1] + 0.0  # and -0 is 0
    return total


def _with(empty: float, call: Callable[[Double], Double]) -> Callable[[Double], Double]:
    """Let a function of terms give ``empty`` for a node without inputs."""
    return lambda terms: call(terms) if len(terms) else np.full(terms.shape[1], empty)


AGGREGATIONS: dict[str, Callable[[Double], Double]] = {
    "sum": _with(0.0, _sum),
    "product": _with(1.0, lambda terms: np.multiply.accumulate(terms)[-1]),
    "max": _with(0.0, lambda terms: terms.max(axis=0)),
    "min": _with(0.0, lambda terms: terms.min(axis=0)),
    "maxabs": _with(0.0, lambda t: np.take_along_axis(t, np.abs(t).argmax(0)[None], 0)[0]),
    "median": _with(0.0, lambda terms: np.median(terms, axis=0)),
    "mean": _with(0.0, lambda terms: _sum(terms) / len(terms)),
}
"""Name -> function of a node's weighted inputs (k, n)."""


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
class Graph(Model):
    """Nodes in an order in which each comes after its inputs, as `make_graph` puts them."""

    inputs: tuple[int, ...]
    outputs_at: tuple[int, ...]
    nodes: tuple[Node, ...]

    @property
    def n_inputs(self) -> int:
        return len(self.inputs)

    @property
    def fingerprint(self) -> str:
        about = repr((self.inputs, self.outputs_at, self.nodes))
        return hashlib.sha256(about.encode()).hexdigest()

    def outputs(self, observations: NDArray[Any]) -> Double:
        """Outputs (n, k) of observations (n, ...), in float64 as neat-python computes them."""
        rows = np.asarray(observations, np.float64).reshape(len(observations), -1)
        if rows.shape[1] != len(self.inputs):
            raise UsageError(
                f"expected a batch of observations of {len(self.inputs)} values each, but got an "
                f"array of shape {np.shape(observations)}"
            )
        # Some rows at a time, so that the terms of a node with many inputs stay few.
        most = max((len(node.links) for node in self.nodes), default=0)
        size = max(1, MAX_TERMS // max(1, most))
        parts = [self._answer(rows[i : i + size]) for i in range(0, len(rows), size)]
        return np.concatenate(parts)

    def _answer(self, rows: Double) -> Double:
        inputs, (links, outputs) = len(self.inputs), self._plan
        values = np.empty((inputs + len(self.nodes), len(rows)))
        values[:inputs] = rows.T
        with np.errstate(all="ignore"):  # what overflows is found in the outputs
            for i, (node, (sources, weights)) in enumerate(zip(self.nodes, links, strict=True)):
                # Value by value, in the genome's order: a row never depends on the others.
                total = AGGREGATIONS[node.aggregation](values[sources] * weights)
                result = ACTIVATIONS[node.activation](node.bias + node.response * total)
                values[inputs + i] = result
        return values[outputs].T

    @cached_property
    def _plan(self) -> tuple[list[tuple[NDArray[np.intp], Double]], NDArray[np.intp]]:
        """For each node the places of its inputs among the values and their weights (k, 1)."""
        keys = (*self.inputs, *(node.key for node in self.nodes))
        at = {key: i for i, key in enumerate(keys)}
        links = []
        for node in self.nodes:
            sources = np.array([at[source] for source, _ in node.links], np.intp)
            links.append((sources, np.array([weight for _, weight in node.links])[:, None]))
        return links, np.array([at[key] for key in self.outputs_at], np.intp)


def make_graph(
    inputs: Iterable[int],
    outputs: Iterable[int],
    nodes: Iterable[Node],
    connections: Iterable[tuple[int, int, float]],  # from, to, weight
) -> Graph:
    """Put nodes that the outputs need in an order of evaluation; enabled connections only."""
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
                raise UsageError(f"the node {key} is missing")
            missing = [source for source, _ in into.get(key, []) if source not in known]
            if missing:
                if key in open_nodes:
                    raise UsageError("its connections form a loop: only feed-forward networks act")
                open_nodes.add(key)
                waiting += missing
                continue
            waiting.pop()
            known.add(key)
            order.append(replace(by_key[key], links=tuple(into.get(key, []))))
    return Graph(inputs, outputs, tuple(order))
