"""NEAT genomes: ``.neat``, which pivec writes as JSON, and pickles of neat-python.

A pickled DefaultGenome is read as data, without running anything, with the configuration next to
it. Pickles of other classes can only be unpickled, which runs code in them, and need the user's
trust. A genome is a feed-forward graph whose nodes compute
activation(bias + response * aggregation(weighted inputs)), as neat-python's FeedForwardNetwork.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import math
import os
import pickle  # only for files that the user trusts
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadPolicyFile, UsageError
from pivec.files import atomic_write
from pivec.policies.callables import user_code
from pivec.policies.formats import CheckpointFiles, Read, about, read_json, reader
from pivec.policies.formats.described import described_outputs
from pivec.policies.networks import Model
from pivec.policies.tensors import Object, read_objects

Double = NDArray[np.float64]

MAX_TERMS = 1 << 20
FORMAT, VERSION = "pivec-neat", 1
KEYS = frozenset({"format", "version", "inputs", "outputs", "nodes", "connections"})
MAX_PARTS = 500_000  # nodes or connections
MODULES = ("neat", "collections", "copyreg")
SUFFIXES = r"\.(cfg|ini|config|txt)"
ATTRIBUTES = ("bias", "response", "activation", "aggregation")

_SCALE, _ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717

NEAT_ACTIVATIONS: dict[str, Callable[[Double], Double]] = {
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
"""Name -> neat-python's activation function, for arrays."""


def _sum(terms: Double) -> Double:
    # In order, as neat-python adds them, which `sum` of NumPy may not.
    total: Double = np.add.accumulate(terms)[-1] + 0.0  # and -0 is 0
    return total


def _with(empty: float, call: Callable[[Double], Double]) -> Callable[[Double], Double]:
    """Return ``empty`` for a node without inputs."""
    return lambda terms: call(terms) if len(terms) else np.full(terms.shape[1], empty)


NEAT_AGGREGATIONS: dict[str, Callable[[Double], Double]] = {
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
    """One node: its functions and inputs."""

    key: int
    bias: float
    response: float
    activation: str
    aggregation: str
    links: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Graph(Model):
    """Nodes in topological order, made by `make_graph`."""

    inputs: tuple[int, ...]
    outputs_at: tuple[int, ...]
    nodes: tuple[Node, ...]

    def __post_init__(self) -> None:
        self.set(n_inputs=len(self.inputs))

    @property
    def fingerprint(self) -> str:  # type: ignore[override]
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
        # In batches, to limit the memory of a node with many inputs.
        most = max((len(node.links) for node in self.nodes), default=0)
        size = max(1, MAX_TERMS // max(1, most))
        parts = [self._answer(rows[i : i + size]) for i in range(0, len(rows), size)]
        return np.concatenate(parts)

    def _answer(self, rows: Double) -> Double:
        inputs, (links, outputs) = len(self.inputs), self._plan
        values = np.empty((inputs + len(self.nodes), len(rows)))
        values[:inputs] = rows.T
        with np.errstate(all="ignore"):  # overflows are found in the outputs
            for i, (node, (sources, weights)) in enumerate(zip(self.nodes, links, strict=True)):
                # In the genome's order; a row never depends on the others.
                total = NEAT_AGGREGATIONS[node.aggregation](values[sources] * weights)
                result = NEAT_ACTIVATIONS[node.activation](node.bias + node.response * total)
                values[inputs + i] = result
        return values[outputs].T

    @cached_property
    def _plan(self) -> tuple[list[tuple[NDArray[np.intp], Double]], NDArray[np.intp]]:
        """Positions and weights (k, 1) of each node's inputs, and positions of the outputs."""
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
    """Sort the nodes that the outputs need; ``connections`` are enabled ones only."""
    inputs, outputs = tuple(inputs), tuple(outputs)
    by_key = {node.key: node for node in nodes}
    into: dict[int, list[tuple[int, float]]] = {}
    for source, target, weight in connections:
        into.setdefault(target, []).append((source, weight))
    known = set(inputs)
    order: list[Node] = []
    # Depth-first search without recursion.
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
                    raise UsageError("its connections form a loop: only feed-forward networks work")
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
    """Write a genome of neat-python to ``path``, which should end in ``.neat``, as JSON.

    ``config`` gives the keys of inputs and outputs; ``info`` is free metadata that JSON can hold,
    whose ``step`` is the generation; ``head`` says what the outputs mean, as
    ``{"head": "categorical"}``. By default the largest output is the discrete action, or the
    outputs are real actions. The file is written atomically.
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
        raise UsageError("only feed-forward genomes can be saved: set feed_forward in the config")
    try:
        text = json.dumps(content)
    except (TypeError, ValueError) as error:
        raise UsageError(f"info and head must be serializable as JSON: {error}") from error
    read_genome(text.encode(), "the genome")  # to report mistakes now
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.encode())


@reader
def read_genome(data: bytes, files: CheckpointFiles) -> Read:
    """Read the policy in the bytes of a ``.neat`` file, and its ``info``."""
    content = read_json(data)
    if content.get("format") != FORMAT:
        raise BadPolicyFile("it does not hold a genome saved by pivec")
    if content.get("version") != VERSION:
        raise BadPolicyFile(
            f"it has version {str(content.get('version'))[:20]} and this pivec reads {VERSION}: "
            "install a newer pivec"
        )
    return _policy(content, content, files, KEYS)


@reader
def read_pickled_genome(data: bytes, files: CheckpointFiles) -> Read:
    """Read a ``.pkl`` file with a genome of neat-python.

    The configuration next to it has the same name and ends in .cfg, .ini, .config or .txt, or is
    the only file in the folder whose name contains "config". A .json of the same name may set the
    head.
    """
    genome = _genome(data, files)
    inputs, outputs = _read_config(files)
    nodes = [
        [key, *(_state(gene).get(attribute) for attribute in ATTRIBUTES)]
        for key, gene in genome["nodes"].items()
    ]
    links = [
        [*pair, _state(gene).get("weight")]
        for pair, gene in genome["connections"].items()
        if isinstance(pair, tuple) and len(pair) == 2 and _state(gene).get("enabled")
    ]
    content = {"inputs": inputs, "outputs": outputs, "nodes": nodes, "connections": links}
    policy, own = _policy(content, files.description() or {}, files)
    info: dict[str, Any] = {"algorithm": "NEAT"}
    fitness = genome.get("fitness")
    if isinstance(fitness, float | int) and not isinstance(fitness, bool):
        info["fitness"] = float(fitness)
    return policy, {**info, **own}


def _policy(
    content: Mapping[str, Any],
    description: Mapping[str, Any],
    files: CheckpointFiles,
    known: frozenset[str] = frozenset(),
) -> Read:
    """Make the policy of a genome's plain lists, as `save_genome` writes them."""
    for key in ("inputs", "outputs", "nodes", "connections"):
        if not isinstance(content.get(key), list) or len(content[key]) > MAX_PARTS:
            raise UsageError(f"{key} must be a list of at most {MAX_PARTS}")
    inputs, outputs = content["inputs"], content["outputs"]
    keys = [*inputs, *outputs]
    if not inputs or not outputs or not all(type(n) is int for n in keys):
        raise UsageError("inputs and outputs must be whole numbers")
    if len(set(keys)) < len(keys):
        raise UsageError("the keys of inputs and outputs must be different")
    nodes, links = [], []
    for entry in content["nodes"]:
        match entry:
            case [int(number), bias, response, str(activation), str(aggregation)]:
                for name, table in (
                    (activation, NEAT_ACTIVATIONS),
                    (aggregation, NEAT_AGGREGATIONS),
                ):
                    if name not in table:
                        choices = ", ".join(table)
                        raise UsageError(f"the function {name[:40]!r} is none of {choices}")
                numbers = _number(bias), _number(response)
                nodes.append(Node(number, *numbers, activation, aggregation))
            case _:
                raise UsageError("a node must be [key, bias, response, activation, aggregation]")
    for entry in content["connections"]:
        match entry:
            case [int(source), int(target), weight]:
                links.append((source, target, _number(weight)))
            case _:
                raise UsageError("a connection must be a list of two nodes and a weight")
    return described_outputs(
        make_graph(inputs, outputs, nodes, links),
        description,
        files,
        known=known,
        obvious=True,
        discrete="epsilon_greedy",  # by default the best action
    )


def _number(value: Any) -> float:
    try:
        number = float(value) if type(value) in (int, float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UsageError("biases, responses and weights must be finite numbers")
    return number


def _genome(data: bytes, files: CheckpointFiles) -> Mapping[str, Any]:
    """Attributes of the pickled genome."""
    try:
        saved = read_objects(data, MODULES)
    except BadPolicyFile as error:
        if not files.trust:
            raise BadPolicyFile(
                f"{error}; expected a pickled genome of neat-python's own class; if you trust its "
                "source, unpickle another class, which can run any code in the file, with --trust "
                "(in Python: trust=True)"
            ) from error
        with user_code("it cannot be unpickled", BadPolicyFile):
            saved = pickle.loads(data)  # noqa: S301 - the user said --trust
    state = _state(saved)
    if not isinstance(state.get("nodes"), dict) or not isinstance(state.get("connections"), dict):
        raise BadPolicyFile("it holds neither a genome of neat-python nor arrays by name")
    return state


def _state(thing: Any) -> Mapping[str, Any]:
    """Attributes of a genome or gene, interpreted or unpickled."""
    state = thing.state if isinstance(thing, Object) else getattr(thing, "__dict__", {})
    return state if isinstance(state, dict) else {}


def _read_config(files: CheckpointFiles) -> tuple[list[int], list[int]]:
    """Keys of inputs and outputs, as neat-python numbers them."""
    own = files.names(re.escape(files.stem) + SUFFIXES)
    shared = files.names(r"(?i)(?!\.)[^/]*config[^/]*")
    if not own and len(shared) != 1:
        raise BadPolicyFile(
            f"it needs the configuration of its genome: expected {files.stem}.cfg next to it, or "
            f"one file with 'config' in its name, but there are {len(shared)}"
        )
    file = (own or shared)[0]
    parser = configparser.RawConfigParser(strict=False)
    with about(f"{file} next to it"):
        try:
            parser.read_string((files.read(file) or b"").decode("utf-8"))
            section = parser["DefaultGenome"]
            n_inputs, n_outputs = section.getint("num_inputs"), section.getint("num_outputs")
            feed_forward = section.getboolean("feed_forward", fallback=True)
        except (configparser.Error, ValueError, KeyError) as error:
            detail = " ".join(str(error).split())[:200]
            raise UsageError(f"it is not a configuration of neat-python ({detail})") from error
        if not feed_forward:
            raise UsageError("it allows recurrent networks, which are not supported")
        if n_inputs is None or n_outputs is None or not 0 < n_inputs <= 100_000 > n_outputs > 0:
            raise UsageError("num_inputs or num_outputs is missing or invalid")
    return [-1 - i for i in range(n_inputs)], list(range(n_outputs))
