"""One network a policy that tells its states from those of the others (the paper's Section 5.1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive
from pivec.characterizations.descriptions import Description, Descriptions, pack
from pivec.characterizations.networks.canonical import in_key_order, set_key
from pivec.characterizations.networks.method import NetworkCharacterization
from pivec.engines.workers import run_tasks
from pivec.progress import Progress
from pivec.states.visited import VisitedStates

if TYPE_CHECKING:
    from pivec.characterizations.networks.discriminators import Discriminators


@dataclass(eq=False, repr=False)
class Discriminator(NetworkCharacterization):
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
    clip : float
        Logits are clipped to ± this.
    max_background : int
        States of the fit to keep, drawn at random: the others for policies described later.
    max_states : int
        States of each policy that the distance averages over, drawn at random.
    device : {"cpu", "cuda", "auto"}
        Where the networks are trained; the results agree but for rounding. "auto" is the graphics
        card where there is one.
    learning_rate, random_state, progress
        As of `pivec.characterizations.networks.method.NetworkCharacterization`.

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

    name = "discriminator"
    explanation = (
        "For each policy a neural network is trained to tell its states from those of all other "
        "policies; its odds say how much more likely a state is under this policy than under the "
        "others. The distance of two policies is the mean of one over these odds on the states of "
        "the other policy, summed both ways: smallest for policies that visit the same states "
        "(at most about 2), larger the more clearly the networks tell them apart."
    )
    formula = "d(p, q) = E_q[(1 − D_p) / D_p] + E_p[(1 − D_q) / D_q]"
    learned = ("center", "scale", "background", "background_starts", "keys")
    no_intervals = no_test = (
        "describing a policy trains a network, which would have to be done again for every sample "
        "of its episodes; use skill-discriminator, whose network is trained once"
    )

    _: KW_ONLY
    n_layers: Count = 3
    epochs: Positive = 30
    batch_size: Count = 128
    clip: Positive = 10.0
    max_background: Count = 100_000
    max_states: Count = 1000
    device: str = "cpu"

    def _fit(self, data: VisitedStates) -> None:
        super()._fit(data)
        rng = np.random.default_rng(self.random_state)
        rows = np.arange(data.n_states)
        if data.n_states > self.max_background:
            rows = np.sort(rng.choice(data.n_states, self.max_background, replace=False))
        self.background_ = self._standardise(data.take(rows))
        self.background_starts_ = np.searchsorted(rows, data.state_starts)
        self.keys_ = _keys(data)

    def _describe(self, data: VisitedStates) -> Description:
        from pivec.characterizations.networks import discriminators as train
        from pivec.characterizations.networks.batched_mlp import n_values, starting_values
        from pivec.engines.devices import single_threaded_torch

        networks, keys = self._networks(), _keys(data)
        seen = {key: i for i, key in reversed(list(enumerate(self.keys_.tolist())))}
        counts = np.diff(data.state_starts)
        # Networks with as many updates go together; then by key, so that the order of the
        # policies changes no numbers.
        order = np.lexsort((keys, -counts))
        size = networks.group_size()
        weights = np.empty((len(data), n_values(networks.sizes)), dtype=np.float32)
        kept: list[NDArray[np.float32]] = [np.empty(0, dtype=np.float32)] * len(data)

        def work(group: int) -> None:
            members, states, batches, start = order[group * size :][:size], [], [], []
            for i in members:
                key, count = int(keys[i]), int(counts[i])
                rng = np.random.default_rng([self.random_state, key])
                states.append(self._standardise(in_key_order(data.policy_states(i))))
                chosen = rng.choice(count, min(self.max_states, count), replace=False)
                kept[i] = states[-1][chosen]
                start.append(starting_values(rng, networks.sizes))
                own = train.left_out(self.background_starts_, seen.get(key))
                batches.append(train.Batches(rng, count, len(self.background_), own))
            weights[members] = networks.train(np.stack(start), states, batches, self.background_)
            bar.advance(len(members))

        bar = Progress("discriminators", len(data), unit="policies", show=self.progress)
        with bar, single_threaded_torch():
            run_tasks(work, -(-len(data) // size))
        return None, None, pack("states", kept) | {"weights": weights, "keys": keys}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        self._require_torch()
        ratios = self._networks().mean_inverse_ratios
        result = ratios(a.arrays["weights"], b.rows("states"))
        result = result + (result if b is a else ratios(b.arrays["weights"], a.rows("states"))).T
        # The same states are the same policy, as on the diagonal.
        result[a.arrays["keys"][:, None] == b.arrays["keys"]] = 0.0
        return result

    def _networks(self) -> Discriminators:
        from pivec.characterizations.networks.discriminators import Discriminators

        return Discriminators(
            self._sizes(self.n_layers, 1),
            self.epochs,
            self.batch_size,
            self.learning_rate,
            self.clip,
            self.device,
        )


def _keys(data: VisitedStates) -> NDArray[np.uint64]:
    """What policies are known by: one key for the states of each, whatever their order."""
    keys = [set_key(data.policy_states(i)) for i in range(len(data))]
    return np.array(keys, dtype=np.uint64)
