"""Novelty search: ES and NSR-ES of Conti et al. 2018, with any characterization as behaviour.

Each generation one parent is chosen, moved by mirrored noise, and updated towards the better half
of what came of it: better by return (ES), or by return and novelty (NSR-ES). The updated policy
joins the archive, beside which others are new or not. Everything random follows from the seed and
the number of the generation, and episodes from the policies' labels, so a stopped run needs only
the weights to go on exactly. `search` runs one in its folder.
"""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Characterization
from pivec.errors import BadData, PivecError
from pivec.files import atomic_write
from pivec.integrations import BehaviourArchive
from pivec.options import CollectOptions
from pivec.parallel import threads
from pivec.policies import NamedPolicy, PolicyInfo, save_policy
from pivec.rollouts import Environment, play_here
from pivec.rollouts import observations as spaces
from pivec.states import VisitedStates, record_of
from reproduction.training.evolution import Architecture, spaces_of
from reproduction.training.runs import (
    Report,
    Run,
    TrainedRun,
    behaviour_named,
    read_arrays,
    settings_for,
    wanted,
    write_arrays,
)

Float = NDArray[np.float64]


def centred_ranks(values: Float) -> Float:
    """Replace numbers by their ranks, from -0.5 for the least to 0.5; equal ones share theirs."""
    from scipy.stats import rankdata

    ranks = rankdata(values).reshape(values.shape)
    return np.asarray((ranks - 1) / max(values.size - 1, 1) - 0.5)


def ascent(scores: Float, noise: Float) -> Float:
    """Estimate the direction in which scores rise (Salimans et al. 2017, section 2.1)."""
    return np.asarray((scores[0] - scores[1]) @ noise / scores.size)


def adam_step(learner: Any, gradient: Any, count: int, rate: float, epsilon: float) -> None:
    """Make step number ``count`` (from 1) of Adam (Kingma and Ba 2015, algorithm 1), in place."""
    learner[1] = 0.9 * learner[1] + (1.0 - 0.9) * gradient
    learner[2] = 0.999 * learner[2] + (1.0 - 0.999) * gradient * gradient
    size, root = rate / (1.0 - 0.9**count), np.sqrt(1.0 - 0.999**count)
    learner[0] -= size * learner[1] / (np.sqrt(learner[2]) / root + epsilon)


_EPSILON = 1e-8  # Adam's
_STREAM = 0xE5  # tells the streams of the search from others of the same seed
GENERATIONS = "generations.csv"
_STATE = "search.npz"
_SECONDS = 2.0  # between writing what is needed to go on


class Generation(NamedTuple):
    """What came of a generation."""

    number: int
    steps: int  # of the environment, so far
    parent: int  # the member of the population that was updated
    mean_return: float  # of the updated policy
    best_return: float  # the best of these so far
    novelty: float  # of the parent before, NaN for ES
    batch_return: float  # mean over the policies around the parent


class NoveltySearch:
    """ES, or with a behaviour NSR-ES, one generation at a time; `search` runs it to its end.

    The behaviour is any characterization; this object is fitted anew as the archive grows. Without
    one, only returns count (ES). ``settings`` replace values of `settings_for`. ``archive`` holds
    the behaviours, if any, and ``history`` a `Generation` for each.
    """

    def __init__(
        self,
        env: str | Environment | Callable[[], Any],
        behaviour: Characterization | None = None,
        *,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._environment = Environment.of(env)
        algorithm = "es" if behaviour is None else "nsr-es"
        values = settings_for(algorithm, self._environment.name, settings)
        self._values, self._seed = values, seed
        seen, actions = spaces_of(self._environment)
        self._names = spaces.feature_names(seen)
        noise = values["action_noise"]
        self.architecture = Architecture.of(seen, actions, values["hidden"], action_noise=noise)
        self._needs = frozenset() if behaviour is None else behaviour.traits.needs
        self.archive = behaviour and BehaviourArchive(behaviour, values["neighbours"])
        self.history: list[Generation] = []
        rng = np.random.default_rng([seed, 0, _STREAM])
        first = [self.architecture.first_vector(rng) for _ in range(values.get("population", 1))]
        # Of each member the weights and Adam's moments, the updates so far, and its newest entry.
        self._members = np.stack([[vector, 0 * vector, 0 * vector] for vector in first])
        self._updates, self._latest = [0] * len(first), list(range(len(first)))
        self.entries = first  # the vectors of all that joined the archive
        self._steps = 0
        if self.archive is not None:
            data = self._play_entries(first, self._entry_labels())
            self.archive.add(data)
            self._steps = _steps(data)

    def advance(self) -> Generation:
        """Run the next generation."""
        values, number = self._values, len(self.history)
        rng = np.random.default_rng([self._seed, 1 + number, _STREAM])
        parent, novelty = self._choose_parent(rng)
        member = self._members[parent]
        scores, noise, batch = self._try_around(member[0], number, rng)
        gradient = values["l2"] * member[0] - ascent(scores, noise)
        count = self._updates[parent] = self._updates[parent] + 1
        # As Salimans et al. have it, ε stands beside the root that is not corrected for its start.
        epsilon = _EPSILON / np.sqrt(1.0 - 0.999**count)
        adam_step(member, gradient, count, values["learning_rate"], epsilon)
        self.entries = [*self.entries, member[0].copy()]
        self._latest[parent] = len(self.entries) - 1
        label = self._entry_labels()[-1]
        data = self._play_entries(self.entries[-1:], [label])
        self._steps += _steps(data)
        if self.archive is not None:
            self.archive.add(data)
        value = float(data.mean_returns[0])
        best = max([value, *(earlier.best_return for earlier in self.history[-1:])])
        self.history.append(Generation(number, self._steps, parent, value, best, novelty, batch))
        return self.history[-1]

    def _choose_parent(self, rng: np.random.Generator) -> tuple[int, float]:
        """Draw a member in proportion to its novelty."""
        if self.archive is None:
            return 0, float("nan")
        novelty = self.archive.novelty(self._latest)
        total = novelty.sum()
        chances = novelty / total if 0 < total < np.inf else None  # all alike: any of them
        parent = int(rng.choice(len(novelty), p=chances))
        return parent, float(novelty[parent])

    def _try_around(
        self, centre: Float, number: int, rng: np.random.Generator
    ) -> tuple[Float, Float, float]:
        """Play mirrored pairs until there are enough episodes and steps."""
        values = self._values
        pairs, steps = -(-values["batch_episodes"] // 2), 0
        noises: list[Float] = []
        returns: list[Float] = []
        novelties: list[Float] = []
        while pairs:
            noise = rng.standard_normal((pairs, len(centre)))
            moved = np.concatenate([centre + sign * values["sigma"] * noise for sign in (1, -1)])
            labels = [f"generation {number}/{len(noises)}/{i}" for i in range(len(moved))]
            data = self._play(moved, labels, 1)
            noises.append(noise)
            returns.append(data.returns.reshape(2, pairs))
            if self.archive is not None:
                novelties.append(self.archive.novelty(data).reshape(2, pairs))
            steps += _steps(data)
            done = sum(map(len, noises))
            pairs = max(0, int(np.ceil((values["batch_steps"] - steps) * done / steps)))
        self._steps += steps
        played = np.concatenate(returns, axis=1)
        scores = centred_ranks(played)
        if novelties:
            weight = values["novelty_weight"]
            novel = centred_ranks(np.concatenate(novelties, axis=1))
            scores = (1 - weight) * scores + weight * novel
        return scores, np.concatenate(noises), float(played.mean())

    def _play_entries(self, vectors: Sequence[Float], labels: list[str]) -> VisitedStates:
        """Let policies play as they join the archive."""
        episodes, quiet = (self._values[f"behaviour_{name}"] for name in ("episodes", "quiet"))
        return self._play(vectors, labels, episodes, quiet)

    def _play(
        self, vectors: Sequence[Float] | Float, labels: list[str], n: int, quiet: bool = False
    ) -> VisitedStates:
        """Let all policies play ``n`` episodes in lock-step, ``quiet`` without noise on actions."""
        named = [
            NamedPolicy(self.architecture.policy(vector), PolicyInfo(label))
            for vector, label in zip(vectors, labels, strict=True)
        ]
        actions, limit = "actions" in self._needs, self._values["max_steps"]
        given: Any = {"backend": "gymnasium", "deterministic": quiet}
        settings = CollectOptions(n, self._seed, actions=actions, max_steps=limit, **given)
        played = sorted(play_here(self._environment, named, settings), key=lambda p: p.index)
        records = [record_of(p.named.info, p.episodes, policy=p.named.policy) for p in played]
        data = VisitedStates(records, self._names, self._environment.name)
        if not np.isfinite(data.returns).all():
            raise BadData(
                f"an episode of {self._environment.name} has a return that is not finite: check "
                "the environment's rewards"
            )
        return data

    def _entry_labels(self) -> list[str]:
        first = len(self._members)
        return [
            f"first {i}" if i < first else f"generation {i - first}"
            for i in range(len(self.entries))
        ]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Give all that is needed to go on exactly, as plain arrays."""
        return {
            "members": self._members,
            "updates": np.array(self._updates),
            "latest": np.array(self._latest),
            "entries": np.stack(self.entries),
            "history": np.array(self.history).reshape(-1, len(Generation._fields)),
        }

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `arrays` gave; the entries of the archive play their episodes again."""
        self._members = arrays["members"]
        self._updates, self._latest = arrays["updates"].tolist(), arrays["latest"].tolist()
        self.entries = list(arrays["entries"])
        self.history = [
            Generation(int(row[0]), int(row[1]), int(row[2]), *row[3:].tolist())
            for row in arrays["history"]
        ]
        if not self.history:
            return
        self._steps = self.history[-1].steps
        if self.archive is None:
            return
        data = self._play_entries(self.entries, self._entry_labels())
        before = [generation.mean_return for generation in self.history]
        if not np.allclose(data.mean_returns[len(self._members) :], before, rtol=1e-9, atol=1e-9):
            raise PivecError(
                "the policies of the archive play differently than before, most likely since "
                "other versions of packages are installed: begin anew"
            )
        self.archive.data = None
        self.archive.add(data)


def _steps(data: VisitedStates) -> int:
    """Count environment steps: one fewer an episode than states."""
    return data.n_states - data.n_episodes


def search(run: Run, report: Report) -> TrainedRun:
    """Run a search to its end, from where it stands."""
    values, total = run.settings, run.settings["generations"]
    text = values.get("behaviour")
    behaviour = None if text is None else behaviour_named(text, run.seed)
    kept = wanted(run.checkpoints, total - 1, values["keep_every"])
    # A run has one core: workers that share it only get in each other's way.
    with threads(1):
        running = NoveltySearch(run.environment, behaviour, seed=run.seed, settings=values)
        if (run.state / _STATE).exists():
            running.restore(read_arrays(run.state / _STATE))
        last, reason = time.monotonic(), "all generations are done"
        while len(running.history) < total:
            made = running.advance()
            if made.number in kept:
                about = run.about(made.number, made.mean_return, environment_steps=made.steps)
                path = run.path / f"generation_{made.number}.safetensors"
                save_policy(running.architecture.policy(running.entries[-1]), path, about)
            report(made.number + 1, made.steps, made.best_return)
            if time.monotonic() - last > _SECONDS:
                write_arrays(run.state / _STATE, running.arrays())
                last = time.monotonic()
            if 0 < values["steps"] <= made.steps:
                reason = "all steps are done"
                break
    write_arrays(run.state / _STATE, running.arrays())
    with atomic_write(run.path / GENERATIONS, "w") as file:
        csv.writer(file, lineterminator="\n").writerows([Generation._fields, *running.history])
    return run.finish(running.history[-1].steps, running.history[-1].best_return, reason)


def read_generations(run: str | Path) -> list[Generation]:
    """Read what came of each generation of a finished run of ES or NSR-ES."""
    path = Path(run) / GENERATIONS
    if not path.exists():
        raise PivecError(f"{path} is not there: expected the folder of a finished es or nsr-es run")
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [Generation(*map(int, row[:3]), *map(float, row[3:])) for row in rows]
