"""Characterizations that train networks: discriminators, classifiers, encoders.

`PolicyEncoder` is the paper's Section 5.2: one Gaussian per policy over the latents of its
trajectories. `TrajectoryEncoder` is Table 1's method (Wang et al. 2017), without that Gaussian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, NotNegative, Positive, Seed
from pivec.characterizations.base import Array, Traits
from pivec.characterizations.descriptions import Description, Descriptions, pack
from pivec.characterizations.distributions import gaussian_distances, gaussians
from pivec.characterizations.rows import Averaged, Cuts, Floats, RowMeans, Standardised
from pivec.parallel import require_torch, run_tasks, using
from pivec.states import VisitedStates
from pivec.statistics import euclidean
from pivec.terminal import Progress

if TYPE_CHECKING:
    from pivec.characterizations.torch_networks import Discriminators

Keys = NDArray[np.uint64]


@dataclass(eq=False, repr=False)
class NetworkCharacterization(Standardised):
    """A characterization that trains a network on standardized rows, with Adam.

    Parameters
    ----------
    n_units : int
        Hidden units (of each layer, if there are several).
    batch_size : int
        Rows, trajectories or policies in a batch.
    learning_rate : float
    random_state : int
    progress : bool
        Show a progress bar while networks are trained.

    Attributes
    ----------
    center_, scale_ : (n_columns,) arrays
        The standardization: (row - center_) / scale_.
    weights_ : array, or dict of arrays
        All weights of the network, if it is the same for all policies.
    """

    n_units: Count = 256
    _: KW_ONLY
    batch_size: Count = 256
    learning_rate: Positive = 1e-3
    random_state: Seed = 0
    progress: bool = False

    def _check_has(self, data: VisitedStates) -> None:
        require_torch(f"the {self.name} characterization")
        super()._check_has(data)

    def _described(self, data: VisitedStates, influences: bool = False) -> Descriptions:
        # The last digits of a network's outputs depend on the number of threads of a worker.
        with using("serial"):
            return super()._described(data, influences)

    def array_sizes(self) -> dict[str, int]:
        layers = self._layers()
        n_weights = sum((below + 1) * above for below, above in pairwise(layers))
        return super().array_sizes() | {"W": n_weights}

    def _layers(self) -> list[int]:
        """Widths of its perceptron, if it has one."""
        return []

    def _sizes(self, n_layers: int, n_outputs: int) -> list[int]:
        """Widths of a perceptron from its inputs to its outputs."""
        return [len(self.center_), *[self.n_units] * n_layers, n_outputs]


# A network that starts at random is described again with the same numbers only if its random stream
# depends on the policy's own states, and not on its place among the others: keys hash the data.

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)


def row_keys(rows: NDArray[Any]) -> Keys:
    """One 64-bit key for each row of float32 values; equal rows have equal keys."""
    # Adding 0 makes -0.0 and 0.0 the same bits.
    words = np.ascontiguousarray(rows, dtype=np.float32) + np.float32(0.0)
    keys = np.full(len(words), _ODD)
    for column in words.view(np.uint32).T:
        keys = _mixed(keys ^ column.astype(np.uint64))
    return keys


def set_key(rows: NDArray[Any]) -> int:
    """One key for a set of rows in any order."""
    total = np.add.reduce(_mixed(row_keys(rows)), dtype=np.uint64)
    return int(_mixed(np.array([total ^ np.uint64(len(rows))]))[0])


def sequence_key(rows: NDArray[Any]) -> int:
    """One key for a sequence of rows, which depends on their order."""
    places = np.arange(1, len(rows) + 1, dtype=np.uint64) * _ODD
    return int(np.add.reduce(_mixed(row_keys(rows) ^ places), dtype=np.uint64))


def in_key_order(rows: NDArray[Any]) -> NDArray[Any]:
    """Sort rows by their keys: the same array for the same rows in any order."""
    return rows[np.argsort(row_keys(rows), kind="stable")]


def _mixed(keys: Keys) -> Keys:
    # Overflow is intended; arrays of unsigned integers wrap around without a warning.
    keys = keys * _ODD
    keys ^= keys >> _SHIFT
    keys = keys * _MIX
    return np.asarray(keys ^ (keys >> _SHIFT))


@dataclass(eq=False, repr=False)
class Discriminator(NetworkCharacterization):
    """Density ratios of each policy against the others, learned by one network per policy.

    The paper's Section 5.1. The network D_i of a policy is trained to distinguish its states from
    those of the other policies of the fit; r_i = D_i / (1 - D_i) is then how much more likely a
    state is under this policy. The distance is E_j[1 / r_i] + E_i[1 / r_j].

    The paper's scripts take states as they are, average over all of them, and keep what the formula
    gives for a policy and itself: ``standardise=False, max_background=None, max_states=None,
    zero_diagonal=False``. With the defaults, units of features do not matter, descriptions stay
    small, and policies with identical states have distance 0, which maps rely on.

    A policy of the fit is recognized by its states, which are left out of the others; any other
    policy is compared with all of the fit. With a single policy in the fit, its own states take the
    place of the others.

    Parameters
    ----------
    n_layers : int
        Hidden layers of ``n_units`` tanh units.
    epochs : float
        Passes over a policy's own states. Distances grow with them.
    batch_size : int
        States of the policy, and as many of the others, in a batch.
    clip : float
        Logits are clipped to ± this.
    standardise : bool
        Give each feature mean 0 and deviation 1 over all states of the fit.
    max_background : int or None
        States of the fit to keep as the others, drawn at random. None keeps all.
    max_states : int or None
        States of each policy that the distance averages over, drawn at random. None takes all.
    zero_diagonal : bool
        Set the distance of identical states to 0. Otherwise it is what the formula gives, slightly
        more than 0.
    device : {"cpu", "cuda", "auto"}
        Where the networks are trained; results agree up to rounding. "auto" uses the GPU if there
        is one.
    others
        See `NetworkCharacterization`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(m, 1, (200, 2))] for m in (0, 0, 3)])
    >>> d = Discriminator(n_units=16, learning_rate=0.01).fit(data).distances(data)
    >>> bool(d[0, 2] > 2 * d[0, 1])
    True
    """

    name = "discriminator"
    layout = Standardised.layout | {
        "learned.keys": "u8 Q",
        "learned.background_starts": "i8>=0 Q+1",
        "learned.background": "f4 B D",
        "described.states": "f4 *N D",
        "described.weights": "f4 P W",
        "described.keys": "u8 P",
    }

    _: KW_ONLY
    n_layers: Count = 3
    epochs: Positive = 30
    batch_size: Count = 128
    clip: Positive = 10.0
    standardise: bool = True
    max_background: Count | None = 100_000
    max_states: Count | None = 1000
    zero_diagonal: bool = True
    device: str = "cpu"

    @property
    def traits(self) -> Traits:
        """The diagonal depends on ``zero_diagonal``."""
        reason = (
            "describing a policy trains a network, which would have to be repeated for every "
            "sample of its episodes; use skill-discriminator, whose network is trained once"
        )
        return Traits(
            "For each policy a neural network is trained to distinguish its states from those of "
            "all other policies; its odds say how much more likely a state is under this policy "
            "than under the others. The distance between two policies is the mean of one over "
            "these odds on the states of the other policy, summed both ways: smallest for policies "
            "that visit the same states (at most about 2), larger the more clearly the networks "
            "distinguish them.",
            "d(p, q) = E_q[(1 − D_p) / D_p] + E_p[(1 − D_q) / D_q]",
            no_intervals=reason,
            no_test=reason,
            zero_diagonal=self.zero_diagonal,
            slow=True,
        )

    def _fit(self, data: VisitedStates) -> None:
        super()._fit(data)
        if not self.standardise:
            self.center_, self.scale_ = np.zeros(data.n_features), np.ones(data.n_features)
        rng = np.random.default_rng(self.random_state)
        rows = np.arange(data.n_states)
        if self.max_background is not None and data.n_states > self.max_background:
            rows = np.sort(rng.choice(data.n_states, self.max_background, replace=False))
        self.background_starts_ = np.searchsorted(rows, data.state_starts)
        spans = pairwise(self.background_starts_.tolist())
        self.background_ = np.concatenate(
            [self._standardise(data.take(rows[first:last])) for first, last in spans]
        )
        self.keys_ = _keys(data)

    def _describe(self, data: VisitedStates) -> Description:
        from pivec.characterizations import torch_networks
        from pivec.parallel import single_threaded_torch

        networks, keys = self._networks(), _keys(data)
        fitted = {key: i for i, key in reversed(list(enumerate(self.keys_.tolist())))}
        counts = np.diff(data.state_starts)
        # Networks with as many updates go together; then by key, so that the order of the
        # policies changes no numbers.
        order = np.lexsort((keys, -counts))
        size = networks.group_size()
        weights = np.empty((len(data), torch_networks.n_values(networks.sizes)), dtype=np.float32)
        most = data.n_states if self.max_states is None else self.max_states
        starts = np.concatenate([[0], np.cumsum(np.minimum(counts, most))])
        kept = np.empty((starts[-1], data.n_features), dtype=np.float32)

        def work(group: int) -> None:
            members, states, batches, start = order[group * size :][:size], [], [], []
            for i in members:
                key, count = int(keys[i]), int(counts[i])
                rng = np.random.default_rng([self.random_state, key])
                states.append(self._standardise(in_key_order(data.policy_states(i))))
                chosen = rng.choice(count, min(most, count), replace=False)
                kept[starts[i] : starts[i + 1]] = states[-1][chosen]
                start.append(torch_networks.starting_values(rng, networks.sizes))
                own = (0, 0)  # nothing to leave out of the others
                if key in fitted and len(self.keys_) > 1:
                    own = tuple(self.background_starts_[fitted[key] :][:2].tolist())
                others = len(self.background_)
                batches.append(torch_networks.Batches(rng, count, others, own))
            weights[members] = networks.train(np.stack(start), states, batches, self.background_)
            bar.advance(len(members))

        bar = Progress("discriminators", len(data), unit="policies", show=self.progress)
        with bar, single_threaded_torch():
            run_tasks(work, -(-len(data) // size))
        packed = {"states": kept, "states.starts": starts}
        return None, None, packed | {"weights": weights, "keys": keys}

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        require_torch(f"the {self.name} characterization")
        ratios = self._networks().mean_inverse_ratios
        result = ratios(a.arrays["weights"], b.rows("states"))
        result = result + (result if b is a else ratios(b.arrays["weights"], a.rows("states"))).T
        if self.zero_diagonal:  # identical states are the same policy
            result[a.arrays["keys"][:, None] == b.arrays["keys"]] = 0.0
        return result

    def _networks(self) -> Discriminators:
        from pivec.characterizations.torch_networks import Discriminators

        how = self.epochs, self.batch_size, self.learning_rate, self.clip, self.device
        return Discriminators(self._layers(), *how)

    def _layers(self) -> list[int]:
        return self._sizes(self.n_layers, 1)


def _keys(data: VisitedStates) -> Keys:
    """One key for the states of each policy, in any order."""
    keys = [set_key(data.policy_states(i)) for i in range(len(data))]
    return np.array(keys, dtype=np.uint64)


@dataclass(eq=False, repr=False)
class SkillDiscriminator(NetworkCharacterization, RowMeans):
    """Which policies of the fit a classifier takes a policy's states for, on average.

    One network with a softmax over the policies of the fit (in their canonical order) learns which
    of them a state is from, as DIAYN's does for skills (Eysenbach 2018). A policy is described by
    the mean of these probabilities over its states. The distance is the Jensen-Shannon divergence
    of two such means, from 0 to log 2: a lower bound of that between the states of the two
    policies, because a channel from states to names cannot make distributions differ more.

    Parameters
    ----------
    n_layers : int
        Hidden layers of ``n_units`` tanh units.
    epochs : float
        Passes over as many states as the fit has; every policy is drawn equally often.
    max_updates : int
        Maximum number of updates, however many states there are.
    others
        See `NetworkCharacterization`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(m, 1, (200, 2))] for m in (0, 0, 3)])
    >>> d = SkillDiscriminator(n_units=16, learning_rate=0.01).fit(data).distances(data)
    >>> bool(d[0, 2] > 5 * d[0, 1])
    True
    """

    name = "skill-discriminator"
    layout = Standardised.layout | {
        "learned.n_policies": "i8>0",
        "learned.weights": "f4 W",
        "described.probabilities": "f8>=0 P n_policies_",
    }
    traits = Traits(
        "One neural network is trained to predict which policy visited a state. A policy is "
        "described by the probabilities that the network gives to each policy, averaged over its "
        "states. The distance between two policies is the Jensen-Shannon divergence of these "
        "averages: 0 for policies that visit the same states, at most log 2 = 0.69 for policies "
        "that the network never confuses.",
        "d(p, q) = JS(E_p[P(· | s)], E_q[P(· | s)])",
        additive=True,
        slow=True,
    )

    _: KW_ONLY
    n_layers: Count = 2
    epochs: Positive = 30
    max_updates: Count = 5000

    def _fit(self, data: VisitedStates) -> None:
        from pivec.characterizations.torch_networks import SingleMLP, train_classifier

        super()._fit(data)
        self.n_policies_ = len(data)
        wanted = int(np.ceil(self.epochs * data.n_states / self.batch_size))
        rng = np.random.default_rng(self.random_state)
        self.weights_ = train_classifier(
            SingleMLP(list(self._standardised(data)), self._layers(), rng),
            self.batch_size,
            n_updates=min(self.max_updates, wanted),
            learning_rate=self.learning_rate,
            progress=self.progress,
        )

    def _layers(self) -> list[int]:
        return self._sizes(self.n_layers, self.n_policies_)

    def _sums(self, rows: Floats, cuts: Cuts) -> Array:
        from pivec.characterizations.torch_networks import sum_outputs

        x = self._standardise(rows)
        return sum_outputs(self.weights_, self._layers(), x, cuts, softmax=True)

    def _of_means(self, means: Array) -> Description:
        return means, None, {"probabilities": means}

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        return jensen_shannon(a.arrays["probabilities"], b.arrays["probabilities"])


def jensen_shannon(a: Array, b: Array) -> Array:
    """Jensen-Shannon divergences, in nats, of all rows of ``a`` to all of ``b``."""
    from scipy.special import rel_entr

    result = np.empty((len(a), len(b)))
    for i, p in enumerate(a):
        middle = 0.5 * (p + b)
        result[i] = 0.5 * (rel_entr(p, middle) + rel_entr(b, middle)).sum(axis=1)
    return np.maximum(result, 0.0)  # negative values are rounding errors


@dataclass(eq=False, repr=False)
class StateActions(NetworkCharacterization, RowMeans):
    """A learned embedding of (state, action) pairs, averaged over a policy's pairs.

    After Grover et al. 2018, who learn embeddings of agents from pieces of their episodes. A
    network embeds pairs, and a set of pairs is embedded as their mean. It is trained so that a set
    of one policy is nearer to another set of the same policy than to sets of other policies. A
    policy is described by the mean over all its pairs; the distance is the squared Euclidean one.
    With a single policy in the fit the network is not trained.

    Parameters
    ----------
    n_layers : int
        Hidden layers of ``n_units`` tanh units.
    n_values : int
        Size of an embedding.
    set_size : int
        Pairs in a set.
    batch_size : int
        Policies in a batch, two sets of each.
    n_updates : int
        Updates of the network.
    others
        See `NetworkCharacterization`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(0, 1, (101, 2))] for _ in range(3)]
    >>> moves = [[(rng.random(100) < p).astype(int)] for p in (0.2, 0.2, 0.9)]
    >>> data = VisitedStates.from_arrays(walks, actions=moves)
    >>> d = StateActions(n_units=16, n_values=4, n_updates=50).fit(data).distances(data)
    >>> bool(d[0, 2] > d[0, 1])
    True
    """

    name = "state-actions"
    layout = Standardised.layout | {"learned.weights": "f4 W", "points": "f8 P n_values"}
    traits = Traits(
        "A neural network embeds pairs of a state and the action taken there, and is trained so "
        "that sets of pairs of one policy lie near each other and far from those of other "
        "policies. A policy is described by the mean embedding of its pairs. The distance between "
        "two policies is the squared Euclidean distance of these means.",
        "d(p, q) = ‖E_p[φ(s, a)] − E_q[φ(s, a)]‖²",
        additive=True,
        influences=True,
        needs=frozenset({"actions"}),
        slow=True,
    )
    of = "state-actions"

    n_units: Count = 128
    _: KW_ONLY
    n_layers: Count = 2
    n_values: Count = 32
    set_size: Count = 64
    batch_size: Count = 16
    n_updates: Count = 1000

    def _fit(self, data: VisitedStates) -> None:
        from pivec.characterizations.torch_networks import SingleMLP, train_encoder

        super()._fit(data)
        rng = np.random.default_rng(self.random_state)
        self.weights_ = train_encoder(
            SingleMLP(list(self._standardised(data)), self._layers(), rng),
            self.batch_size,
            self.set_size,
            n_updates=self.n_updates,
            learning_rate=self.learning_rate,
            progress=self.progress,
        )

    def _layers(self) -> list[int]:
        return self._sizes(self.n_layers, self.n_values)

    def _sums(self, rows: Floats, cuts: Cuts) -> Array:
        from pivec.characterizations.torch_networks import sum_outputs

        return sum_outputs(self.weights_, self._layers(), self._standardise(rows), cuts)

    def _of_means(self, means: Array) -> Description:
        return means, means, {}


@dataclass(eq=False, repr=False)
class TrajectoryNetwork(NetworkCharacterization):
    """A characterization by a variational autoencoder of trajectories.

    The encoder is an LSTM of ``n_units`` that reads a trajectory from its end; the decoder predicts
    the next row from the row before and the latent.

    Parameters
    ----------
    n_latent : int
        Values of a latent.
    epochs : int
        Passes over the trajectories of the fit.
    kl_weight : float
        Weight of the divergence of the latents from the standard normal. At the paper's 1, latents
        may carry no information (posterior collapse), and distances are then noise; 0.01 avoids it.
    device : {"cpu", "cuda", "auto"}
        Where the autoencoder is trained; results agree up to rounding. "auto" uses the GPU if
        there is one.
    others
        See `NetworkCharacterization`.
    """

    layout = Standardised.layout | {
        "learned.weights.input": "f4 4*n_units D",
        "learned.weights.recurrent": "f4 4*n_units n_units",
        "learned.weights.input_offset": "f4 4*n_units",
        "learned.weights.recurrent_offset": "f4 4*n_units",
        "learned.weights.latent_mean": "f4 n_latent n_units",
        "learned.weights.latent_mean_offset": "f4 n_latent",
        "learned.weights.latent_deviation": "f4 n_latent n_units",
        "learned.weights.latent_deviation_offset": "f4 n_latent",
        "learned.weights.next_mean": "f4 D n_latent+D",
        "learned.weights.next_mean_offset": "f4 D",
        "learned.weights.next_deviation": "f4 D n_latent+D",
        "learned.weights.next_deviation_offset": "f4 D",
    }

    _: KW_ONLY
    n_latent: Count = 256
    epochs: Count = 5
    batch_size: Count = 8
    kl_weight: NotNegative = 1.0
    device: str = "cpu"

    def _fit(self, data: VisitedStates) -> None:
        from pivec.characterizations.torch_networks import starting_weights, train_autoencoder

        super()._fit(data)
        rng = np.random.default_rng(self.random_state)
        self.weights_ = train_autoencoder(
            starting_weights(rng, len(self.center_), self.n_units, self.n_latent),
            [sequence for policy in self._trajectories(data) for sequence in policy],
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            kl_weight=self.kl_weight,
            rng=rng,
            device=self.device,
            progress=self.progress,
        )

    def _trajectories(self, data: VisitedStates) -> list[list[Floats]]:
        """Standardised rows of each policy's episodes; episodes without rows are left out."""
        result = []
        for i, rows in enumerate(self._standardised(data)):
            cuts = self.view_.cuts(data, i)
            result.append([rows[begin:end] for begin, end in pairwise(cuts) if end > begin])
        return result

    def _encode(self, policies: list[list[Floats]]) -> list[tuple[Floats, Floats, list[int]]]:
        """Means and deviations of the latents and the keys of each policy's trajectories.

        Equal trajectories are encoded once, so that they have equal latents to the last digit, and
        in the order of length and key, so that the order of the policies changes no numbers.
        """
        from pivec.characterizations.torch_networks import encode

        keys = [[sequence_key(sequence) for sequence in sequences] for sequences in policies]
        different = {
            key: sequence
            for own, sequences in zip(keys, policies, strict=True)
            for key, sequence in zip(own, sequences, strict=True)
        }
        order = sorted(different, key=lambda key: (len(different[key]), key))
        means, deviations = encode(self.weights_, [different[key] for key in order], self.device)
        places = {key: i for i, key in enumerate(order)}
        rows = [[places[key] for key in own] for own in keys]
        return [(means[i], deviations[i], own) for i, own in zip(rows, keys, strict=True)]


@dataclass(eq=False, repr=False)
class PolicyEncoder(TrajectoryNetwork, Averaged):
    """A diagonal Gaussian over the latents of a policy's trajectories, one sampled for each.

    The distance is KL(a || b) + KL(b || a).

    Parameters
    ----------
    floor : float
        Added to the variances of the latents.
    others
        See `TrajectoryNetwork`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(m, 1, (20, 1)) for _ in range(5)] for m in (0, 0, 5)]
    >>> data = VisitedStates.from_arrays(walks)
    >>> method = PolicyEncoder(n_units=8, n_latent=2, epochs=20, kl_weight=0.01).fit(data)
    >>> d = method.distances(data)
    >>> bool(d[0, 2] > d[0, 1])
    True
    """

    name = "encoder"
    layout = TrajectoryNetwork.layout | {
        "described.means": "f8 P n_latent",
        "described.variances": "f8>0 P n_latent",
    }
    traits = Traits(
        "A recurrent autoencoder is trained on the trajectories of all policies: it summarizes a "
        "trajectory in a latent vector, from which each next state is predicted. A policy is "
        "described by a diagonal Gaussian over the latents of its trajectories. The distance "
        "between two policies is the KL divergence between their Gaussians, summed both ways.",
        "d(p, q) = KL(p ‖ q) + KL(q ‖ p)",
        by_state=False,
        additive=True,
        slow=True,
    )

    _: KW_ONLY
    floor: Positive = 1e-7

    def _statistics(self, data: VisitedStates) -> Array:
        rows = []
        for centers, widths, keys in self._encode(self._trajectories(data)):
            # One latent per trajectory, with random numbers that depend on the trajectory.
            noise = [
                np.random.default_rng([self.random_state, key]).standard_normal(self.n_latent)
                for key in keys
            ]
            sampled = centers + widths * np.stack(noise)
            # Latents are near the standard normal: squares about 0 lose no digits.
            rows.append(np.column_stack([np.ones(len(keys)), sampled, sampled**2]))
        return np.concatenate(rows)

    def _of_means(self, means: Array) -> Description:
        z, squares = np.split(means, 2, axis=1)
        return gaussians(z, np.maximum(squares - z**2, 0.0) + self.floor)

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        return gaussian_distances(a, b)


@dataclass(eq=False, repr=False)
class TrajectoryEncoder(TrajectoryNetwork):
    """The embeddings of a policy's trajectories of states and actions, compared one by one.

    The rows are (state, action) pairs; an embedding is the mean of its latent. The distance between
    two policies is the mean distance between an embedding of one and one of the other, minus the
    mean distances within each of the two (the energy distance): 0 if the embeddings have the same
    distribution.

    Parameters
    ----------
    max_episodes : int
        Trajectories of each policy to describe, drawn at random.
    others
        See `TrajectoryNetwork`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> walks = [[rng.normal(m, 1, (20, 1)) for _ in range(5)] for m in (0, 0, 5)]
    >>> moves = [[rng.integers(2, size=19) for _ in episodes] for episodes in walks]
    >>> data = VisitedStates.from_arrays(walks, actions=moves)
    >>> method = TrajectoryEncoder(n_units=8, n_latent=2, epochs=20, learning_rate=0.01)
    >>> d = method.fit(data).distances(data)
    >>> bool(d[0, 2] > d[0, 1])
    True
    """

    name = "trajectory-encoder"
    layout = TrajectoryNetwork.layout | {
        "described.within": "f8>=0 P",
        "described.embeddings": "f4 *N n_latent",
    }
    traits = Traits(
        "A recurrent autoencoder is trained on the trajectories, states and actions, of all "
        "policies; each trajectory is described by its embedding. The distance between two "
        "policies is the mean distance between an embedding of one and one of the other, minus the "
        "mean distances within each of the two.",
        "d(p, q) = E‖z_p − z_q‖ − ½ E‖z_p − z′_p‖ − ½ E‖z_q − z′_q‖",
        by_state=False,
        needs=frozenset({"actions"}),
        slow=True,
    )
    of = "state-actions"

    _: KW_ONLY
    max_episodes: Count = 200

    def _describe(self, data: VisitedStates) -> Description:
        drawn = self._trajectories(data)
        for i, sequences in enumerate(drawn):
            if len(sequences) > self.max_episodes:
                rng = np.random.default_rng(self.random_state)
                numbers = rng.choice(len(sequences), self.max_episodes, replace=False)
                drawn[i] = [sequences[j] for j in np.sort(numbers)]
        embeddings = [z for z, _, _ in self._encode(drawn)]
        vectors = np.stack([z.mean(axis=0, dtype=np.float64) for z in embeddings])
        within = np.array([between_means([z], [z])[0, 0] for z in embeddings])
        return vectors, None, {"within": within} | pack("embeddings", embeddings)

    def _distances(self, a: Descriptions, b: Descriptions) -> Array:
        result = between_means(a.rows("embeddings"), b.rows("embeddings"))
        result -= 0.5 * np.add.outer(a.arrays["within"], b.arrays["within"])
        if b is a:
            result = np.triu(result) + np.triu(result, 1).T
        # An energy distance is not negative; what is left below is rounding.
        return np.maximum(result, 0.0)


def between_means(left: Sequence[NDArray[Any]], right: Sequence[NDArray[Any]]) -> Array:
    """Mean Euclidean distance between the rows of each set of ``left`` and each of ``right``."""
    counts = np.array([len(z) for z in right])
    starts = np.cumsum(counts) - counts
    everything = np.concatenate(right).astype(np.float64)
    result = np.empty((len(left), len(right)))
    for i, z in enumerate(left):
        distances = euclidean(z.astype(np.float64), everything)
        result[i] = np.add.reduceat(distances.mean(axis=0), starts) / counts
    return result
