"""MAP-Elites of QDax by visited states, around the wall of a deceptive point.

Needs: pip install pivec qdax

Run it in a clone: the environment is in reproduction/.

Straight up ends in a pocket, with a return of 0.65. Descriptors are the two main directions in
which random networks differ by the states they visit, so the repertoire keeps what *behaves*
differently, and finds the way around, above 3. With `n_measures=None` they are whole vectors.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from qdax.core.containers.mapelites_repertoire import compute_cvt_centroids
from qdax.core.emitters.mutation_operators import isoline_variation
from qdax.core.emitters.standard_emitters import MixingEmitter
from qdax.core.map_elites import MAPElites
from qdax.utils.metrics import default_qd_metrics

import pivec
from pivec.integrations import BehaviourMeasures

sys.path.append(str(Path(__file__).parents[1]))  # of the repository, for reproduction/
import reproduction.worlds  # noqa: F401  registers the environment

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--smoke", action="store_true", help="a few seconds only")
options = parser.parse_args()
HIDDEN, BATCH = 8, 90
SIZE = 4 * HIDDEN + 1  # weights and biases of a network from (x, y) to a direction


def play(genotypes: jax.Array) -> pivec.VisitedStates:
    """Let all networks play an episode side by side."""
    solutions = np.asarray(genotypes, dtype=np.float64)
    n = len(solutions)
    env = gymnasium.make_vec("pivec/DeceptivePoint-v0", num_envs=n)
    w1, b1, w2, b2 = np.split(solutions, [2 * HIDDEN, 3 * HIDDEN, 4 * HIDDEN], axis=1)
    observations, _ = env.reset(seed=0)
    states, returns = [observations], np.zeros(n)
    for _ in range(100):
        hidden = np.tanh(np.einsum("ni,nih->nh", observations, w1.reshape(n, 2, HIDDEN)) + b1)
        actions = np.tanh((hidden * w2).sum(axis=1, keepdims=True) + b2)
        observations, rewards, *_ = env.step(actions.astype(np.float32))
        states.append(observations)
        returns += rewards
    return pivec.VisitedStates.from_arrays(
        [[episode] for episode in np.stack(states, axis=1)], returns=list(returns)
    )


key, first, tiles, emitting = jax.random.split(jax.random.key(options.seed), 4)
genotypes = jax.random.normal(first, (100, SIZE))
random = play(genotypes)
measures = BehaviourMeasures.fit(random, parameters={"n_components": 8})
low, high = zip(*measures.ranges(), strict=True)
centroids = compute_cvt_centroids(
    num_descriptors=measures.n_measures,
    num_init_cvt_samples=5_000,
    num_centroids=400,
    minval=list(low),
    maxval=list(high),
    key=tiles,
)
emitter = MixingEmitter(
    mutation_fn=lambda x, key: (x, key),
    variation_fn=partial(isoline_variation, iso_sigma=0.2, line_sigma=0.2),
    variation_percentage=1.0,
    batch_size=BATCH,
)
elites = MAPElites(None, emitter, partial(default_qd_metrics, qd_offset=0.0))
repertoire, state, metrics = elites.init_ask_tell(
    genotypes,
    jnp.asarray(random.mean_returns)[:, None],
    jnp.asarray(measures(random)),
    centroids,
    emitting,
)
for generation in range(5 if options.smoke else 60):
    key, asked = jax.random.split(key)
    genotypes, more = elites.ask(repertoire, state, asked)
    played = play(genotypes)
    repertoire, state, metrics = elites.tell(
        genotypes,
        jnp.asarray(played.mean_returns)[:, None],
        jnp.asarray(measures(played)),
        repertoire,
        state,
        extra_info=more,
    )
    if generation % 10 == 9:
        print(f"{generation + 1:3d} generations, best return {float(metrics['max_fitness']):.2f}")
print(
    f"Compared {100 + (generation + 1) * BATCH} networks by the states they visit: "
    f"{int((repertoire.fitnesses > -np.inf).sum())} kinds of behaviour kept, best return "
    f"{float(metrics['max_fitness']):.2f} (straight up gives 0.65)"
)
