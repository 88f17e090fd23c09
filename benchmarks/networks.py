"""Discriminators and trajectory encoders against the loops of the paper's scripts.

The peers are plain scripts: one network after another, autograd and torch's Adam; one trajectory
after another through torch's bidirectional LSTM. The data are 100 stochastic controllers of
CartPole-v1 between poor and good, collected once and kept under benchmarks/data/. The loop over
discriminators is measured on every tenth policy, against the states of all, and counted tenfold;
the encoders run on few episodes of every fifth policy. Peers are given the better of one and of
all threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from measure import in_process, serve, table, write_section

DATA = Path(__file__).parent / "data" / "cartpole_controllers.npz"
POLICIES, EPISODES, EVERY = 100, 20, 10
ENCODED_EVERY, ENCODED_EPISODES = 5, 16
BATCH, EPOCHS, CLIP = 128, 30, 10.0
FAST = {"epochs": 6, "learning_rate": 5e-3}


def controller(i: int) -> Callable[..., Any]:
    rng = np.random.default_rng(i)
    skill = 3.0 * (i + 1) / POLICIES
    gains = np.array([0.3, 0.6, 3.0, 1.0]) * rng.uniform(0.3, 1.7, 4) * skill
    gains += rng.normal(0, 0.5, 4)

    def act(observations: Any, rng: np.random.Generator) -> Any:
        push = 1.0 / (1.0 + np.exp(-observations @ gains))
        return (rng.random(len(observations)) < push).astype(np.int64)

    return act


def load() -> Any:
    """The controllers' states, as the arrays they are made of."""
    import pivec

    if not DATA.exists():
        data = pivec.collect("CartPole-v1", list(map(controller, range(POLICIES))), EPISODES)
        DATA.parent.mkdir(exist_ok=True)
        np.savez(DATA, states=data.states, starts=data.episode_starts, returns=data.returns)
    kept = np.load(DATA)
    episodes = np.split(kept["states"], kept["starts"][1:-1])
    cut = range(0, POLICIES * EPISODES, EPISODES)
    return pivec.VisitedStates.from_arrays(
        [episodes[at : at + EPISODES] for at in cut],
        returns=[kept["returns"][at : at + EPISODES] for at in cut],
    )


def encoded(data: Any) -> Any:
    some = data.select(np.arange(0, POLICIES, ENCODED_EVERY))
    return some.sample_episodes(ENCODED_EPISODES, np.random.default_rng(0))


# ---- discriminators ----


def discriminator_peer(seed: int, threads: int) -> dict[str, Any]:
    """One network after another, as the paper's scripts train and use them."""
    import torch

    data = load()
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(seed)
    start = time.perf_counter()
    mean, scale = data.states.mean(axis=0), data.states.std(axis=0)
    sets = [torch.from_numpy((data.policy_states(i) - mean) / scale) for i in range(POLICIES)]
    chosen = range(0, POLICIES, EVERY)
    distances = np.zeros((POLICIES, POLICIES))
    for i in chosen:
        others = torch.cat([sets[j] for j in range(POLICIES) if j != i])
        network = torch.nn.Sequential(
            torch.nn.Linear(others.shape[1], 256), torch.nn.Tanh(),
            torch.nn.Linear(256, 256), torch.nn.Tanh(),
            torch.nn.Linear(256, 256), torch.nn.Tanh(),
            torch.nn.Linear(256, 1),
        )  # fmt: skip
        optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
        for _ in range(EPOCHS):
            order = torch.randperm(len(sets[i]))
            for at in range(0, len(order), BATCH):
                rows = order[at : at + BATCH]
                drawn = torch.randint(len(others), (len(rows),))
                own = torch.sigmoid(network(sets[i][rows]).clamp(-CLIP, CLIP))
                other = torch.sigmoid(network(others[drawn]).clamp(-CLIP, CLIP))
                loss = -torch.log(own).mean() - torch.log(1.0 - other).mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        with torch.no_grad():
            for j in range(POLICIES):
                logits = network(sets[j]).clamp(-CLIP, CLIP).double()
                distances[i, j] += float(torch.exp(-logits).mean())
    seconds = (time.perf_counter() - start) * EVERY
    part = distances[np.ix_(chosen, chosen)]
    return {"seconds": seconds, "distances": (part + part.T).tolist()}


def discriminator_ours(seed: int, **settings: float) -> dict[str, Any]:
    import torch  # noqa: F401, as the peer, not counted

    import pivec

    data = load()
    method = pivec.characterization("discriminator", random_state=seed, **settings)
    start = time.perf_counter()
    distances = method.fit(data).distances(data)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "distances": distances[::EVERY, ::EVERY].tolist()}


def scores(distances: Any, reference: Any, returns: Any) -> list[float]:
    """Correlation with the return distances; Pearson and rank correlation with the reference."""
    from scipy.stats import spearmanr

    upper = np.triu_indices(len(returns), 1)
    d, r = np.array(distances)[upper], np.array(reference)[upper]
    gaps = np.abs(returns[:, None] - returns)[upper]
    by_return = np.corrcoef(d, gaps)[0, 1]
    return [float(by_return), float(np.corrcoef(d, r)[0, 1]), float(spearmanr(d, r)[0])]


def discriminators() -> str:
    data = load()
    returns = data.mean_returns[::EVERY]
    runs = {
        "loop, 1 thread": in_process(__file__, "discriminator_peer", {"seed": 0, "threads": 1}),
        "loop, all threads": in_process(__file__, "discriminator_peer", {"seed": 1, "threads": 0}),
        "pivec, paper's settings": in_process(__file__, "discriminator_ours", {"seed": 0}),
        "pivec, 6 epochs at 0.005": in_process(__file__, "discriminator_ours", {"seed": 0, **FAST}),
    }
    reference = runs["loop, 1 thread"]["distances"]
    peer = min(runs[name]["seconds"] for name in runs if name.startswith("loop"))
    rows = []
    for name, run in runs.items():
        by_return, pearson, rank = scores(run["distances"], reference, returns)
        rows.append(
            [name, run["seconds"], peer / run["seconds"], run["peak_mb"], by_return, pearson, rank]
        )
    head = ["", "seconds", "times as fast", "peak MB", "corr. with returns"]
    head += ["corr. with the first loop", "rank corr."]
    title = (
        f"Discriminators of {POLICIES} policies, {data.n_states:,} states (3 x 256 units, batches "
        f"of 2 x 128). The loop is measured on every tenth policy and counted tenfold; the two "
        "loops differ in their seed, so the second row's correlations are the noise. The last row "
        "trains less: where its correlations fall below the noise, it is no substitute:"
    )
    return f"{title}\n\n{table(head, rows)}"


# ---- encoders ----


def encoder_peer(threads: int) -> dict[str, Any]:
    """One trajectory after another through the LSTM, eight to an update."""
    import torch

    data = encoded(load())
    if threads:
        torch.set_num_threads(threads)
    torch.manual_seed(0)
    start = time.perf_counter()
    mean, scale = data.states.mean(axis=0), data.states.std(axis=0)
    trajectories = [torch.from_numpy((e - mean) / scale) for e in data.episodes()]
    width = data.n_features
    lstm = torch.nn.LSTM(width, 256, bidirectional=True)
    heads = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(2))
    decoder = torch.nn.ModuleList(torch.nn.Linear(width + 256, width) for _ in range(2))
    modules = torch.nn.ModuleList([lstm, heads, decoder])
    optimiser = torch.optim.Adam(modules.parameters(), lr=1e-3)
    softplus = torch.nn.functional.softplus

    def encode(states: Any) -> Any:
        average = lstm(states[:, None])[0][:, 0, 256:].mean(dim=0)
        return torch.distributions.Normal(heads[0](average), softplus(heads[1](average)) + 1e-6)

    def loss_of(states: Any) -> Any:
        latent = encode(states)
        z = latent.rsample().expand(len(states) - 1, -1)
        context = torch.cat([states[:-1], z], dim=1)
        after = torch.distributions.Normal(
            decoder[0](context), softplus(decoder[1](context)) + 1e-6
        )
        normal = torch.distributions.Normal(0.0, 1.0)
        divergence = torch.distributions.kl_divergence(latent, normal).sum()
        return divergence - after.log_prob(states[1:]).sum(dim=1).mean()

    for _ in range(5):
        order = torch.randperm(len(trajectories)).tolist()
        for at in range(0, len(order), 8):
            batch = order[at : at + 8]
            loss = sum(loss_of(trajectories[i]) for i in batch) / len(batch)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    trained = time.perf_counter()
    with torch.no_grad():
        for trajectory in trajectories:
            encode(trajectory).sample()
        done = time.perf_counter()
        final = float(sum(loss_of(t) for t in trajectories)) / len(trajectories)
    return {"training": trained - start, "encoding": done - trained, "loss": final}


def encoder_ours() -> dict[str, Any]:
    import torch

    import pivec
    from pivec.characterizations import torch_networks as vae

    data = encoded(load())
    method = pivec.characterization("encoder")
    start = time.perf_counter()
    method.fit(data)
    trained = time.perf_counter()
    method.describe(data)
    done = time.perf_counter()
    center, scale, weights = method.center_, method.scale_, method.weights_
    sequences = [((e - center) / scale).astype(np.float32) for e in data.episodes()]
    sequences.sort(key=len, reverse=True)
    noise = np.random.default_rng(0).normal(size=(len(sequences), 256)).astype(np.float32)
    with torch.no_grad():
        loss = (
            vae.SequenceVAE.of(weights)
            .losses(vae.Padded.of(sequences), torch.from_numpy(noise))
            .mean()
        )
    return {"training": trained - start, "encoding": done - trained, "loss": float(loss)}


def encoders() -> str:
    data = encoded(load())
    runs = {
        "loop, 1 thread": in_process(__file__, "encoder_peer", {"threads": 1}),
        "loop, all threads": in_process(__file__, "encoder_peer", {"threads": 0}),
        "pivec": in_process(__file__, "encoder_ours"),
    }
    best = {
        part: min(runs[name][part] for name in runs if name.startswith("loop"))
        for part in ("training", "encoding")
    }
    rows = [
        [
            name,
            *(x for part in best for x in (run[part], best[part] / run[part])),
            run["peak_mb"],
            run["loss"],
        ]
        for name, run in runs.items()
    ]
    head = ["", "training s", "times as fast", "encoding s", "times as fast", "peak MB", "loss"]
    title = (
        f"Encoder (LSTM of 256 units, 256 latent values, 5 epochs, 8 trajectories a batch) on "
        f"{data.n_episodes} trajectories, {data.n_states:,} states:"
    )
    return f"{title}\n\n{table(head, rows)}"


# ---- Adam ----


def adam(own: bool) -> dict[str, Any]:
    """Eight networks of the paper's shape, stacked, on one thread."""
    import torch

    from pivec.characterizations import torch_networks as mlp
    from pivec.characterizations.torch_networks import Adam

    torch.set_num_threads(1)
    sizes, rng = [24, 256, 256, 256, 1], np.random.default_rng(0)
    start = np.stack([mlp.starting_values(rng, sizes) for _ in range(8)])
    layers, slopes = (mlp.stacked(start + noise, sizes) for noise in (0.0, np.float32(0.1)))
    begin = time.perf_counter()
    if own:
        optimiser: Any = Adam(layers, 1e-3)
    else:
        for layer, slope in zip(layers, slopes, strict=True):
            layer.grad = slope
        optimiser = torch.optim.Adam(layers, 1e-3)
    arguments = [slopes] if own else []
    optimiser.step(*arguments)
    first, steps = time.perf_counter(), 200
    for _ in range(steps):
        optimiser.step(*arguments)
    done = time.perf_counter()
    weights = float(sum(layer.double().sum() for layer in layers))
    return {"first": first - begin, "step": (done - first) / steps * 1e3, "weights": weights}


def adams() -> str:
    runs = {
        "torch.optim.Adam": in_process(__file__, "adam", {"own": False}),
        "pivec": in_process(__file__, "adam", {"own": True}),
    }
    rows = [[name, run["first"], run["step"], run["weights"]] for name, run in runs.items()]
    title = "Adam of eight stacked networks (24, 3 x 256, 1), one thread, in a process of its own:"
    head = ["", "first step with imports, s", "ms a step", "sum of the weights"]
    return f"{title}\n\n{table(head, rows)}"


PARTS = {
    "adam": adam,
    "discriminator_peer": discriminator_peer,
    "discriminator_ours": discriminator_ours,
    "encoder_peer": encoder_peer,
    "encoder_ours": encoder_ours,
}


def main() -> None:
    load()
    text = f"{discriminators()}\n\n{encoders()}\n\n{adams()}"
    print(text)
    write_section("networks", text)


if __name__ == "__main__" and not serve(PARTS):
    main()
