"""Generations of a population: proposed, played in lock-step; replayed from a ledger after a stop.

Everything random follows from the seed, so the fitness of every generation is all that a stopped
run needs: it proposes the same generations again, takes their fitness from the ledger instead of
playing, and goes on bit for bit. A checksum of each generation tells if that ever fails.
"""

from __future__ import annotations

import configparser
import hashlib
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from pivec.errors import BadData, PivecError, UsageError
from pivec.policies import (
    DISTRIBUTIONS,
    NEAT_ACTIVATIONS,
    ActionDistribution,
    Graph,
    NetworkPolicy,
    Node,
    Options,
    Stack,
    make_distribution,
    make_graph,
    save_genome,
    save_policy,
    split_vector,
)
from pivec.rollouts import Environment, Layout, action_stream, episode_seeds, make_lanes
from pivec.rollouts import observations as spaces
from reproduction.training.runs import Report, Run, TrainedRun, drawn, neat_sections, wanted

Float = NDArray[np.float64]
Answer = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[Any]]
"""From observations (individuals, episodes, in) to actions (individuals, episodes, ...).

Beside the observations it gets the random numbers (individuals, episodes, noise size) of the head.
"""


def spaces_of(environment: Environment) -> tuple[Any, Any]:
    """Give the spaces of observations and actions."""
    with closing(environment.make()) as made:
        return made.observation_space, made.action_space


@dataclass(frozen=True)
class Architecture:
    """Networks whose vector holds layer by layer the weights, row by row, then the biases.

    With ``first_biases`` only the first layer has biases in it; those of the others are 0.
    """

    sizes: tuple[int, ...]  # widths of the layers, input and output included
    head: str  # what the outputs are, see `pivec.policies.networks.NetworkPolicy`
    options: Options
    arrays: dict[str, Any]  # the box of real actions, low and high, and log_std of their noise
    activation: str = "tanh"  # of the hidden layers
    first_biases: bool = False

    @classmethod
    def of(
        cls,
        observation_space: Any,
        action_space: Any,
        hidden: Sequence[int] = (),
        activation: str = "tanh",
        *,
        action_noise: float = 0.0,
        discrete: str = "epsilon_greedy",
        first_biases: bool = False,
    ) -> Architecture:
        """Fit the spaces of an environment; real actions get Gaussian noise."""
        known = [name for name, head in DISTRIBUTIONS.items() if head.space == "Discrete"]
        if discrete not in known:
            raise UsageError(f"discrete must be one of {', '.join(known)}, but is {discrete!r}")
        n_inputs = len(spaces.feature_names(observation_space))
        if isinstance(action_space, Discrete) and action_space.start == 0:
            sizes = (n_inputs, *hidden, int(action_space.n))
            return cls(sizes, discrete, Options(), {}, activation, first_biases)
        if not (isinstance(action_space, Box) and action_space.dtype.kind == "f"):
            raise UsageError(
                "populations need discrete actions from 0 or a box of real ones, but the "
                f"environment expects {action_space}"
            )
        shape = action_space.shape
        head, n_outputs = "deterministic", int(np.prod(shape))
        arrays: dict[str, Any] = {"low": action_space.low.ravel()}
        arrays["high"] = action_space.high.ravel()
        if action_noise > 0:
            head, arrays["log_std"] = "gaussian", np.full(n_outputs, np.log(action_noise))
        options = Options(shape=shape if len(shape) > 1 else None)
        sizes = (n_inputs, *hidden, n_outputs)
        return cls(sizes, head, options, arrays, activation, first_biases)

    @cached_property
    def _free(self) -> NDArray[np.bool_]:
        """Which weights and biases of all layers are in a vector."""
        parts = [
            (np.ones(n_in * n_out, bool), np.full(n_out, i == 0 or not self.first_biases))
            for i, (n_in, n_out) in enumerate(pairwise(self.sizes))
        ]
        return np.concatenate([array for layer in parts for array in layer])

    @cached_property
    def rule(self) -> ActionDistribution:
        """What makes actions of outputs."""
        return make_distribution(self.head, self.sizes[-1], self.options, self.arrays)

    @property
    def n_weights(self) -> int:
        """Count weights and biases."""
        return int(self._free.sum())

    def policy(self, vector: Float) -> NetworkPolicy:
        """Make the policy of a vector."""
        values = np.zeros(len(self._free))
        values[self._free] = vector
        return NetworkPolicy(
            split_vector(values, list(self.sizes)),
            self.activation,
            self.head,
            options=self.options,
            **self.arrays,
        )

    def first_vector(self, rng: np.random.Generator) -> Float:
        """Draw weights as Conti et al. do: each unit's of length 1, outputs' 0.01; biases 0."""
        parts = []
        for i, (n_in, n_out) in enumerate(pairwise(self.sizes)):
            weights = rng.standard_normal((n_in, n_out))
            length = 0.01 if i == len(self.sizes) - 2 else 1.0
            weights *= length / np.sqrt((weights**2).sum(axis=0))
            parts += [weights.ravel(), np.zeros(n_out)]
        return np.concatenate(parts)


class CmaEs:
    """Asks pycma for vectors of weights, and tells it their fitness.

    ``values`` are the settings ``population``, ``sigma`` and ``flat_generations``.
    """

    suffix = ".safetensors"

    def __init__(self, architecture: Architecture, values: Mapping[str, Any], seed: int) -> None:
        import cma

        self.architecture = architecture
        rng = np.random.default_rng([seed, 0xC3A])
        self._strategy: Any = cma.CMAEvolutionStrategy(
            rng.random(architecture.n_weights),
            values["sigma"],
            {
                "popsize": values["population"],
                "randn": lambda *shape: rng.standard_normal(shape),
                "seed": np.nan,  # do not touch the global generator
                # At first all individuals may fail alike (Acrobot). pycma would stop at once; given
                # some generations, one of them finds a way out.
                "tolfun": 0.0,
                "tolflatfitness": values["flat_generations"],
                "verbose": -9,
                "verb_log": 0,
            },
        )

    def ask(self) -> list[Any]:
        """Propose the next generation."""
        return [np.asarray(vector) for vector in self._strategy.ask()]

    def checksum(self, population: Sequence[Any]) -> str:
        """Give a digest that tells whether a replayed generation is the same."""
        return hashlib.sha256(np.stack(population).tobytes()).hexdigest()[:16]

    def tell(self, population: Sequence[Any], fitness: Float) -> None:
        """Take in the fitness, of which more is better."""
        self._strategy.tell(list(population), (-fitness).tolist())

    def stopped(self) -> str | None:
        """Tell why pycma would end here, if it would: fitness stagnates, or steps vanish."""
        reasons = sorted(self._strategy.stop())
        return f"CMA-ES stopped by itself ({', '.join(reasons)})" if reasons else None

    def answer(self, population: Sequence[Any], individuals: int, episodes: int) -> Answer:
        """Answer with stacked weights for an arena of ``individuals``."""
        policies = [self.architecture.policy(vector) for vector in population]
        stack = Stack(individuals, episodes, policies[0])
        for slot, policy in enumerate(policies):
            stack.put(slot, policy)
        return stack.respond

    def save(self, individual: Any, path: Path, about: Mapping[str, Any]) -> None:
        """Write the policy of one individual."""
        save_policy(self.architecture.policy(individual), path, about)


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

    def tell(self, population: Sequence[Any], fitness: Float) -> None:
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

        def act(observations: NDArray[np.float32], noise: NDArray[np.float32]) -> NDArray[Any]:
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

    if not values["feed_forward"] or values["activation_mutate_rate"] > 0:
        raise UsageError(
            "networks are feed-forward and their outputs linear: feed_forward must be true and "
            "activation_mutate_rate 0"
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
    genes = genome.connections.items()
    connections = [(*ends, gene.weight) for ends, gene in genes if gene.enabled]
    return make_graph(rules.input_keys, rules.output_keys, nodes, connections)


class _Level(NamedTuple):
    """Nodes that are computed together: columns ``first`` to ``last`` from those before."""

    first: int
    last: int
    weights: Float  # (individuals, first, last - first), times the node's response
    biases: Float  # (individuals, 1, last - first)
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

    def outputs(self, observations: NDArray[Any]) -> Float:
        """Outputs (individuals, rows, k) for observations (individuals, rows, inputs)."""
        values = np.zeros((self.n, observations.shape[1], self._width))
        values[:, :, : self.n_inputs] = observations
        with np.errstate(all="ignore"):  # an infinite value makes a bad individual, no failure
            for level in self._levels:
                sums = values[:, :, : level.first] @ level.weights + level.biases
                mine = values[:, :, level.first : level.last]
                for name, where in level.activations:
                    result = NEAT_ACTIVATIONS[name](sums)
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


LEDGER = "generations.jsonl"

Noise = Callable[[np.random.Generator, int], NDArray[np.float32]]


class Arena:
    """Environments for ``individuals`` times ``episodes``, kept from generation to generation.

    The fitness is the mean return of an individual's episodes, cut after ``max_steps``. Their seeds
    follow from ``seed`` and the number of the generation, and so do the random numbers that
    discrete actions are drawn by: an episode has the same ones for all individuals. ``noise`` gives
    those of some steps from a generator.
    """

    def __init__(
        self,
        environment: Environment,
        individuals: int,
        episodes: int,
        seed: int = 0,
        max_steps: int = 10_000,
        noise: Noise = lambda _, n: np.zeros((n, 0), np.float32),
    ) -> None:
        self.individuals, self.episodes = individuals, episodes
        self._name, self._seed, self._max_steps = environment.name, seed, max_steps
        self._noise = noise
        self._lanes = make_lanes(environment, "gymnasium", Layout(individuals, episodes))
        self._action_shape = self._lanes.action_space.shape or ()

    def play(self, answer: Answer, generation: int, n: int | None = None) -> tuple[Float, int]:
        """Play one generation; all individuals play the same episodes."""
        n = self.individuals if n is None else n
        lanes = self._lanes
        seeds = episode_seeds(self._seed, f"generation {generation}", self.episodes)
        for individual in range(n):
            for episode in range(self.episodes):
                lanes.reset(individual * self.episodes + episode, int(seeds[episode]))
        returns = np.zeros(n * self.episodes)
        active = np.arange(n * self.episodes)
        streams = [action_stream(int(seed)) for seed in seeds]
        steps = 0
        for _ in range(self._max_steps):
            flat = spaces.flatten(lanes.observation_space, lanes.observations)
            seen = flat.reshape(self.individuals, self.episodes, -1)
            noise = np.stack([self._noise(stream, 1)[0] for stream in streams])
            noise = np.broadcast_to(noise, (self.individuals, *noise.shape))
            actions = answer(seen, noise).reshape(lanes.n, *self._action_shape)
            rewards, terminated, truncated = lanes.step(active, actions)
            returns[active] += rewards
            steps += len(active)
            active = active[~(terminated | truncated)]
            if not len(active):
                break
        if not np.isfinite(returns).all():
            seed = seeds[int(np.flatnonzero(~np.isfinite(returns))[0]) % self.episodes]
            raise BadData(
                f"an episode of {self._name} (seed {seed}) has a return that is not finite: check "
                "the environment's rewards"
            )
        return returns.reshape(n, self.episodes).mean(axis=1), steps

    def close(self) -> None:
        """Close the environments."""
        self._lanes.close()


class Played(NamedTuple):
    """A generation that was played."""

    checksum: str
    fitness: Float
    steps: int


def read_ledger(path: Path) -> list[Played]:
    """Read the generations so far, a line of JSON each; one that was cut off is taken out."""
    generations: list[Played] = []
    if not path.exists():
        return generations
    whole = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            row = json.loads(line)
            fitness = np.array(row["fitness"], dtype=np.float64)
            generations.append(Played(str(row["checksum"]), fitness, int(row["steps"])))
        except (ValueError, KeyError, TypeError):
            break  # cut off in the middle when the run was killed
        whole += len(line)
    os.truncate(path, whole)
    return generations


def evolve(run: Run, report: Report) -> TrainedRun:
    """Run a search to its end, from where it stands."""
    values, total = run.settings, run.settings["generations"]
    kept = wanted(run.checkpoints, total - 1, values["keep_every"])
    before = read_ledger(run.state / LEDGER)
    steps, best, reason = 0, -np.inf, "all generations are done"
    shape = Architecture.of(
        *spaces_of(run.environment),
        values.get("hidden", ()),
        "sigmoid",
        discrete=values["discrete"],
        first_biases=True,
    )
    kind = CmaEs if run.algorithm == "cmaes" else NeatSearch
    search = kind(shape, values, run.seed)
    places = (run.environment, values["population"], values["episodes"])
    with closing(Arena(*places, run.seed, values["max_steps"], shape.rule.noise)) as arena:
        for generation in range(total):
            population = search.ask()
            played = _played(run, search, arena, population, generation, before)
            steps += played.steps
            best = float(played.fitness.max())
            if generation in kept:
                folder = run.path / f"generation_{generation}"
                folder.mkdir(exist_ok=True)
                for number in drawn(len(population), values["keep_share"], run.seed, generation):
                    path = folder / f"individual_{number}{search.suffix}"
                    fitness = float(played.fitness[number])
                    if not path.exists():
                        about = run.about(generation, fitness, environment_steps=steps)
                        search.save(population[number], path, about)
            search.tell(population, played.fitness)
            report(generation + 1, steps, best)
            stopped = search.stopped()
            if stopped is None and 0 < values["steps"] <= steps:
                stopped = "all steps are done"
            if stopped is not None:
                reason = stopped
                break
    return run.finish(steps, best, reason)


def _played(
    run: Run,
    search: CmaEs | NeatSearch,
    arena: Arena,
    population: Sequence[Any],
    generation: int,
    ledger: Sequence[Played],
) -> Played:
    """Play a generation, in parts if it is larger than the arena, or look up what came of it."""
    checksum = search.checksum(population)
    if generation < len(ledger):
        before = ledger[generation]
        if before.checksum != checksum or len(before.fitness) != len(population):
            raise PivecError(
                f"{run.path} cannot go on: generation {generation} comes out differently than "
                "before, most likely since other versions of packages are installed; remove the "
                "folder to train anew"
            )
        return before
    fitness, steps = [], 0
    for first in range(0, len(population), arena.individuals):
        part = population[first : first + arena.individuals]
        answer = search.answer(part, arena.individuals, arena.episodes)
        part_fitness, part_steps = arena.play(answer, generation, len(part))
        fitness.append(part_fitness)
        steps += part_steps
    played = Played(checksum, np.concatenate(fitness), steps)
    row = played._asdict() | {"fitness": played.fitness.tolist()}
    with open(run.state / LEDGER, "a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return played
