"""One network a policy that tells its states from those of the others (the paper's Section 5.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive, Seed
from pivec.characterizations.base import Characterization
from pivec.characterizations.descriptions import Descriptions
from pivec.characterizations.networks import require_torch
from pivec.characterizations.networks.canonical import in_key_order, set_key
from pivec.characterizations.ragged import pack, unpack
from pivec.characterizations.views import View, center_and_scale
from pivec.states.visited import VisitedStates


class Discriminator(Characterization):
    """Density ratios of each policy against the others, learned by one network a policy.

    The network D_i of a policy is trained to tell its states from those of the other policies of
    the fit; r_i = D_i / (1 - D_i) is then how much more likely a state is under this policy. The
    distance is E_j[1 / r_i] + E_i[1 / r_j], and 0 between policies with exactly the same states.
    All networks are trained together as one batched network.

    A policy of the fit is known by its states, and its own are left out of the others; one that
    the fit has not seen is told from all of the fit. With a single policy in the fit there are no
    others, and its own states stand for them.

    Parameters
    ----------
    n_units, n_layers : int
        Hidden tanh units in each layer, and hidden layers.
    epochs : float
        Passes over a policy's own states. Distances grow with them and depend on them: fewer are
        faster, but do not give the same distances.
    batch_size : int
        States of the policy, and as many of the others, in a batch.
    learning_rate : float
        Of Adam.
    clip : float
        Logits are clipped to ± this.
    max_background : int
        States of the fit to keep, drawn at random: the others for policies described later.
    max_states : int
        States of each policy that the distance averages over, drawn at random.
    random_state : int
        Seed.
    device : {"cpu", "cuda", "auto"}
        Where the networks are trained; the results agree but for rounding. "auto" is the graphics
        card where there is one.
    progress : bool
        Draw a bar while the networks are trained.

    Attributes
    ----------
    background_ : (n, n_features) float32 array
        Standardised states of the fit, one policy after another.
    background_starts_ : (n_policies + 1,) int array
    center_, scale_ : (n_features,) arrays
    keys_ : (n_policies,) uint64 array
        What the policies of the fit are known by.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> data = VisitedStates.from_arrays([[rng.normal(m, 1, (200, 2))] for m in (0, 0, 3)])
    >>> d = Discriminator(n_units=16, learning_rate=0.01).fit(data).distances(data)
    >>> bool(d[0, 2] > 2 * d[0, 1])
    True
    """

    name: ClassVar[str] = "discriminator"
    explanation: ClassVar[str] = (
        "For each policy a neural network is trained to tell its states from those of all other "
        "policies; its odds say how much more likely a state is under this policy than under the "
        "others. The distance of two policies is the mean of one over these odds on the states of "
        "the other policy, summed both ways: smallest for policies that visit the same states "
        "(at most about 2), larger the more clearly the networks tell them apart."
    )
    formula: ClassVar[str] = "d(p, q) = E_q[(1 − D_p) / D_p] + E_p[(1 − D_q) / D_q]"

    def __init__(
        self,
        n_units: Count = 256,
        *,
        n_layers: Count = 3,
        epochs: Positive = 30,
        batch_size: Count = 128,
        learning_rate: Positive = 1e-3,
        clip: Positive = 10.0,
        max_background: Count = 100_000,
        max_states: Count = 1000,
        random_state: Seed = 0,
        device: str = "cpu",
        progress: bool = False,
    ) -> None:
        self.n_units = n_units
        self.n_layers = n_layers
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.clip = clip
        self.max_background = max_background
        self.max_states = max_states
        self.random_state = random_state
        self.device = device
        self.progress = progress

    def _fit(self, data: VisitedStates) -> None:
        require_torch("the discriminator characterization")
        rng = np.random.default_rng(self.random_state)
        self.center_, self.scale_ = center_and_scale(View("states"), data)
        rows = np.arange(data.n_states)
        if data.n_states > self.max_background:
            rows = np.sort(rng.choice(data.n_states, self.max_background, replace=False))
        self.background_ = self._standardised(data.take(rows))
        self.background_starts_ = np.searchsorted(rows, data.state_starts)
        keys = [set_key(data.policy_states(i)) for i in range(len(data))]
        self.keys_ = np.array(keys, dtype=np.uint64)

    def _describe(
        self, data: VisitedStates
    ) -> tuple[NDArray[Any] | None, NDArray[Any] | None, dict[str, NDArray[Any]]]:
        require_torch("the discriminator characterization")
        from pivec.characterizations.networks import discriminators as train
        from pivec.characterizations.networks.batched_mlp import n_values, starting_values

        how = self._settings()
        others = train.Others(self.background_, self.background_starts_)
        keys = [set_key(data.policy_states(i)) for i in range(len(data))]
        seen = {key: i for i, key in reversed(list(enumerate(self.keys_.tolist())))}
        counts = np.diff(data.state_starts).tolist()
        # Networks with as many updates go together; then by key, so that the order of the
        # policies changes no numbers.
        order = sorted(range(len(data)), key=lambda i: (-counts[i], keys[i]))
        size = train.group_size(how)
        groups = [order[at : at + size] for at in range(0, len(order), size)]
        weights = np.empty((len(data), n_values(how.sizes)), dtype=np.float32)
        kept: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(data)

        def work(group: int) -> None:
            members, states, batches, start = groups[group], [], [], []
            for i in members:
                rng = np.random.default_rng([self.random_state, keys[i]])
                states.append(self._standardised(in_key_order(data.policy_states(i))))
                n = min(self.max_states, counts[i])
                kept[i] = states[-1][rng.choice(counts[i], n, replace=False)]
                start.append(starting_values(rng, how.sizes))
                leave = others.without(seen.get(keys[i]))
                batches.append(train.Batches(rng, counts[i], len(others.states), leave))
            weights[members] = train.train_group(
                np.stack(start), states, batches, others.states, how
            )

        train.run_groups(work, [len(group) for group in groups], self.progress)
        arrays: dict[str, NDArray[Any]] = pack("states", kept)
        arrays |= {"weights": weights, "keys": np.array(keys, dtype=np.uint64)}
        return None, None, arrays

    def _distances(self, a: Descriptions, b: Descriptions | None) -> NDArray[np.float64]:
        from pivec.characterizations.networks.discriminators import mean_inverse_ratios

        how = (self._settings().sizes, self.clip, self.device)
        other = a if b is None else b
        result = mean_inverse_ratios(a.arrays["weights"], unpack(other.arrays, "states"), *how)
        if b is None:
            result = result + result.T
        else:
            result += mean_inverse_ratios(b.arrays["weights"], unpack(a.arrays, "states"), *how).T
        # The same states are the same policy, as on the diagonal.
        result[a.arrays["keys"][:, None] == other.arrays["keys"]] = 0.0
        return result

    def _settings(self) -> Any:
        require_torch("the discriminator characterization")
        from pivec.characterizations.networks.batched_mlp import layer_sizes
        from pivec.characterizations.networks.discriminators import Settings

        sizes = layer_sizes(len(self.center_), self.n_units, self.n_layers)
        how = (self.epochs, self.batch_size, self.learning_rate, self.clip, self.device)
        return Settings(tuple(sizes), *how)

    def _standardised(self, states: NDArray[Any]) -> NDArray[np.float32]:
        return np.asarray((states - self.center_) / self.scale_, dtype=np.float32)

    def _learned(self) -> dict[str, NDArray[Any]]:
        return {
            "center": self.center_,
            "scale": self.scale_,
            "background": self.background_,
            "background_starts": self.background_starts_,
            "keys": self.keys_,
        }

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.center_, self.scale_ = arrays["center"], arrays["scale"]
        self.background_ = arrays["background"]
        self.background_starts_ = arrays["background_starts"]
        self.keys_ = arrays["keys"]
