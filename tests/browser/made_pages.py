"""Policies whose places, runs and distances are known, and the reports that show them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import pivec
from pivec.characterizations import Descriptions, Measured, Space, characterization, measure
from pivec.policies import PolicyInfo
from pivec.report import Findings
from pivec.run_log import RunLog
from pivec.states import VisitedStates

FEATURES = ("cart position", "cart velocity", "pole angle", "pole velocity")
# What a file may be called, and what must never run, load or break a page.
HOSTILE = (
    "<img src=x onerror=document.title='broken'>",
    "</script><script>document.title='broken'</script>",
    "'\"><b>bold</b>&amp;{{script}}",
    "javascript:alert(1)",
    "a\u202eb\x1b[31m\x00\n=1+1",
    '=HYPERLINK("http://example.org")',
    "https://example.org/x.png",
    "long " * 40,
)


def walking(n=48, *, runs=6, episodes=8, length=40, seed=0, hostile=False):
    """Policies of runs that walk away from a common start: states, and the space fitted on them.

    Every run goes its own way, but the last two stay together: their checkpoints cannot be told
    apart. The last two policies belong to no run.
    """
    rng = np.random.default_rng(seed)
    of_run = [min(i * runs // n, runs - 1) for i in range(n)]
    steps = [1000 * of_run[:i].count(run) for i, run in enumerate(of_run)]
    angles = 2 * np.pi * np.minimum(np.arange(runs), runs - 2) / (runs - 1)
    ways = np.stack([np.cos(angles), np.sin(angles), angles / 9, 0 * angles], axis=1)
    places = [ways[run] * step / 1500 for run, step in zip(of_run, steps, strict=True)]
    walks = [
        [rng.normal(place, 1.0, (length, 4)).astype(np.float32) for _ in range(episodes)]
        for place in places
    ]
    groups = [f"runs/{'ab'[run % 2]}2c-{run}" for run in of_run]
    labels = [f"{group}/{step:06d}" for group, step in zip(groups, steps, strict=True)]
    groups[-2:], labels[-2:], alone = ["", ""], ["lone one", "lone two"], [None, None]
    if hostile:
        labels[: len(HOSTILE)] = HOSTILE
        groups[:8] = [HOSTILE[0]] * 8
    data = VisitedStates.from_arrays(
        walks,
        labels=labels,
        groups=groups,
        steps=[*steps[:-2], *alone],
        returns=[(100 * place[0] + rng.normal(0, 5, episodes)).tolist() for place in places],
        feature_names=FEATURES if not hostile else [HOSTILE[0], *FEATURES[1:]],
        environment="Walk-v0",
    )
    method = characterization("visitation", n_components=8).fit(data)
    described = method.describe(data, influences=True)
    positions = np.array([place[:2] for place in places]) * 20 + rng.normal(size=(n, 2))
    space = Space(method, described, positions, {"environment": "Walk-v0"})
    return SimpleNamespace(data=data, space=space, report=report_of(space))


ODD_EPISODE = 11  # of the policy "one": it goes elsewhere


def playing(folder):
    """Compare three policies with episodes of several kinds, and keep their states."""
    rng = np.random.default_rng(0)

    def places(*centres):
        return [rng.normal(centres[e % len(centres)], 1.0, (40, 2)) for e in range(24)]

    episodes = {"<i>both": places(0.0, 6.0), "one": places(0.0), "three": places(0.0, 6.0, 12.0)}
    episodes["one"][ODD_EPISODE][:20] += 12.0
    returns = [np.arange(24.0), np.full(24, np.nan), np.arange(24.0) / 7]
    data = VisitedStates.from_arrays(episodes, returns=returns)
    return pivec.compare(data, out=folder, components=8)


def drawn(n, *, regions=64, run_length=25, seed=0):
    """Give a space of many policies, drawn without any states; runs are random walks.

    Where the time goes follows from a few hidden values a policy, as it does of trained ones, so
    that the points are as hard to pack as real ones.
    """
    rng = np.random.default_rng(seed)
    n_runs, hidden, d = max(1, n // run_length), 6, len(FEATURES)
    run, step = np.minimum(np.arange(n) // run_length, n_runs - 1), np.arange(n)
    step -= np.searchsorted(run, run)
    moves = rng.normal(size=(n, hidden)) * 0.35
    moves[step == 0] *= 2.0
    walked = np.cumsum(moves, axis=0)
    first = np.searchsorted(run, np.arange(n_runs))
    z = walked - (walked[first] - moves[first])[run]
    logits = z @ rng.normal(size=(hidden, regions)) + rng.normal(size=(n, regions)) * 0.3
    shares = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares[shares < 1e-3] = 0.0  # most policies never come to most regions
    shares /= shares.sum(axis=1, keepdims=True)
    middles = np.tanh(z @ rng.normal(size=(hidden, regions * d)) * 0.3).reshape(n, regions, d)
    flat = [(shares[:, :, None] * values).reshape(n, -1) for values in (middles, 1 + middles**2)]
    sums = np.concatenate([shares, *flat], axis=1)
    method = characterization("visitation", n_components=regions, of="states")
    mixture = {
        "weights": np.full(regions, 1 / regions),
        "means": rng.normal(size=(regions, d)),
        "variances": np.full((regions, d), 0.1),
        "center": np.zeros(d),
        "scale": np.ones(d),
        "n_iter": np.array(1),
        "features": np.arange(d),
    }
    method.restore(FEATURES, mixture)
    names = [f"runs/ppo-{r:05d}" for r in range(n_runs)]
    infos = tuple(
        PolicyInfo(f"{names[r]}/step_{1000 * s}", names[r], 1000 * int(s), f"{names[r]}.zip")
        for r, s in zip(run.tolist(), step.tolist(), strict=True)
    )
    returns = 100 * np.tanh(z[:, 0]) + rng.normal(size=n)
    described = Descriptions(
        method.name,
        infos,
        None,
        method._coordinates(sums),
        {"counts": sums[:, :regions]},
        returns,
        np.full(n, 5.0),
        np.full(n, 20, np.int64),
        np.full(n, 4000, np.int64),
    )
    # Runs lie side by side, and fill the plane, as on a map by t-SNE.
    islands = rng.random((n_runs, 2)) * 2.5 * np.sqrt(n_runs)
    positions = islands[run] + z[:, :2] + rng.normal(size=(n, 2)) * 0.2
    return Space(method, described, positions, {"environment": "Walk-v0"})


def report_of(space, measured=None):
    """Put a space into a report; of many policies no distances are measured beforehand."""
    n = len(space.descriptions)
    if measured is None:
        none = np.zeros((n, 0))
        few = n <= 500
        measured = (
            measure(space.method, space.descriptions)
            if few
            else Measured(None, none.astype(int), none)
        )
    log = RunLog("nowhere", "pivec compare Walk-v0 runs/*.zip")
    log.settings = {"seed": 0, "map": "tsne", "method": space.method.name}
    return Findings.of(space, measured, log)
