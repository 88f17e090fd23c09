"""One network a policy that tells its states from those of the others (the paper's Section 5.1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, Positive
from pivec.characterizations.descriptions import Description, Descriptions
from pivec.characterizations.network_method import NetworkCharacterization, in_key_order, set_key
from pivec.parallel import run_tasks
from pivec.states import VisitedStates
from pivec.terminal import Progress

if TYPE_CHECKING:
    from pivec.characterizations.torch_mlp import Discriminators


@dataclass(eq=False, repr=False)
class Discriminator(NetworkCharacterization):
    """Density ratios of each policy against the others, learned by one network a policy.

    The network D_i of a policy is trained to tell its states from those of the other policies of
    the fit; r_i = D_i / (1 - D_i) is then how much more likely a state is under this policy. The
    distance is E_j[1 / r_i] + E_i[1 / r_j]. All networks are trained together as one batched
    network.

    The paper's scripts take states as they are, average over all of them, and leave what the
    formula gives for a policy and itself: ``standardise=False, max_background=None,
    max_states=None, zero_diagonal=False``. By default it is otherwise, for comparing policies: the
    units of features decide nothing, a description stays small, and policies with exactly the same
    states have distance 0, as by every other characterization, which maps rest on.

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
    standardise : bool
        Give each feature mean 0 and deviation 1 over all states of the fit.
    max_background : int or None
        States of the fit to keep, drawn at random: the others that policies are told from. None
        keeps all.
    max_states : int or None
        States of each policy that the distance averages over, drawn at random. None takes all.
    zero_diagonal : bool
        Put 0 where the states are the same. Otherwise that is what the formula gives: a little
        more than 0, as the network tells them from others.
    device : {"cpu", "cuda", "auto"}
        Where the networks are trained; the results agree but for rounding. "auto" is the graphics
        card where there is one.
    learning_rate, random_state, progress
        As of `pivec.characterizations.network_method.NetworkCharacterization`.

    Attributes
    ----------
    background_ : (n, n_features) float32 array
        States of the fit, one policy after another, standardised if asked for.
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
    standardise: bool = True
    max_background: Count | None = 100_000
    max_states: Count | None = 1000
    zero_diagonal: bool = True
    device: str = "cpu"

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
        from pivec.characterizations import torch_mlp as train
        from pivec.characterizations.torch_mlp import n_values, starting_values
        from pivec.parallel import single_threaded_torch

        networks, keys = self._networks(), _keys(data)
        seen = {key: i for i, key in reversed(list(enumerate(self.keys_.tolist())))}
        counts = np.diff(data.state_starts)
        # Networks with as many updates go together; then by key, so that the order of the
        # policies changes no numbers.
        order = np.lexsort((keys, -counts))
        size = networks.group_size()
        weights = np.empty((len(data), n_values(networks.sizes)), dtype=np.float32)
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
                start.append(starting_values(rng, networks.sizes))
                own = train.left_out(self.background_starts_, seen.get(key))
                batches.append(train.Batches(rng, count, len(self.background_), own))
            weights[members] = networks.train(np.stack(start), states, batches, self.background_)
            bar.advance(len(members))

        bar = Progress("discriminators", len(data), unit="policies", show=self.progress)
        with bar, single_threaded_torch():
            run_tasks(work, -(-len(data) // size))
        packed = {"states": kept, "states.starts": starts}
        return None, None, packed | {"weights": weights, "keys": keys}

    def _distances(self, a: Descriptions, b: Descriptions) -> NDArray[np.float64]:
        self._require_torch()
        ratios = self._networks().mean_inverse_ratios
        result = ratios(a.arrays["weights"], b.rows("states"))
        result = result + (result if b is a else ratios(b.arrays["weights"], a.rows("states"))).T
        if self.zero_diagonal:  # the same states are the same policy
            result[a.arrays["keys"][:, None] == b.arrays["keys"]] = 0.0
        return result

    def _networks(self) -> Discriminators:
        from pivec.characterizations.torch_mlp import Discriminators

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
