"""Minari datasets that are on this disk: read as recorded episodes, and written from a store.

Nothing is downloaded. Where Minari looks for datasets is set by MINARI_DATASETS_PATH.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from pivec.errors import BadData, MissingExtra, UsageError
from pivec.policies.policy import PolicyInfo
from pivec.reading import naming, read_regular
from pivec.rollouts.environment import Environment, close
from pivec.states.raw import RawEpisode, raw_episodes
from pivec.states.visited import VisitedStates

_METADATA = "metadata.json"


class MinariSource:
    """A dataset, or those of its episodes whose metadata agree in one key.

    Parameters
    ----------
    name : str
        The name of a dataset, ``CartPole/expert-v0``, or the path of its folder; with ``#key`` the
        episodes that differ in this key of their metadata count as different policies.
    """

    def __init__(self, name: str) -> None:
        self._where, _, self.key = name.partition("#")
        self._dataset = _open(self._where)
        self.name = str(self._dataset.spec.dataset_id)

    @property
    def space(self) -> Any:
        """The space of the observations."""
        return self._dataset.observation_space

    @property
    def environment(self) -> str:
        """The id of the environment it was recorded in, empty if not known."""
        spec = self._dataset.env_spec
        return "" if spec is None else str(spec.id)

    def policies(self) -> list[tuple[PolicyInfo, Any]]:
        """List what counts as one policy, each with the numbers of its episodes."""
        indices = np.asarray(self._dataset.episode_indices)
        source, digest = f"minari:{self.name}", _fingerprint(Path(self._dataset.storage.data_path))
        if not self.key:
            return [(PolicyInfo(self.name, "minari", None, source, {}, digest), indices)]
        values = [
            _text(entry.get(self.key))
            for entry in self._dataset.storage.get_episode_metadata(indices)
        ]
        if any(value is None for value in values):
            raise UsageError(
                f"not every episode of {self.name} has {self.key!r} in its metadata: leave #"
                f"{self.key} out, and the dataset counts as one policy"
            )
        found = []
        for value in dict.fromkeys(values):
            mine = indices[[other == value for other in values]]
            info = PolicyInfo(str(value), self.name, None, f"{source}#{self.key}", {}, digest)
            found.append((info, mine))
        return found

    def episodes(self, indices: Any) -> Iterator[RawEpisode]:
        """Go through some of the episodes."""
        with naming(f"minari:{self._where}", "recorded episodes", BadData):
            yield from self._episodes(indices)

    def _episodes(self, indices: Any) -> Iterator[RawEpisode]:
        metadata = self._dataset.storage.get_episode_metadata(indices)
        for episode, entry in zip(self._dataset.iterate_episodes(indices), metadata, strict=True):
            actions = episode.actions
            seed = entry.get("seed")
            yield RawEpisode(
                episode.observations,
                np.asarray(actions) if isinstance(actions, np.ndarray | list) else None,
                float(np.sum(episode.rewards)),
                -1 if seed is None or int(seed) < 0 or int(seed) >= 2**63 else int(seed),
                bool(np.any(episode.terminations[-1:])),
                bool(np.any(episode.truncations[-1:])),
            )


def write_minari(data: VisitedStates, name: str, environment: Environment) -> None:
    """Write all episodes into a new dataset; the label of its policy is in each one's metadata.

    Rewards of single steps are not kept in a store: the last step gets the whole return.
    """
    from gymnasium import spaces

    minari = _minari()
    from minari.data_collector import EpisodeBuffer

    if not data.has_actions:
        raise UsageError(
            "a Minari dataset needs actions, which these states were collected without: collect "
            "with --actions (from Python actions=True)"
        )
    if name in minari.list_local_datasets():
        raise UsageError(f"there is a Minari dataset {name!r} already: choose another name")
    env = environment.make()
    box = spaces.Box(-np.inf, np.inf, (data.n_features,), np.float32)
    buffers: list[Any] = []
    metadata: list[dict[str, str]] = []
    for policy in range(data.n_policies):
        for raw in raw_episodes(data[policy]):
            steps = len(raw.observations) - 1
            last = np.arange(steps) == steps - 1
            buffers.append(
                EpisodeBuffer(
                    id=len(buffers),
                    seed=raw.seed if raw.seed >= 0 else None,
                    observations=raw.observations,
                    actions=raw.actions,
                    rewards=np.where(last, raw.total_reward, 0.0),
                    terminations=last & raw.terminated,
                    truncations=last & raw.truncated,
                    infos={},
                )
            )
            metadata.append({"policy": data.labels[policy], "group": data.groups[policy]})
    try:
        dataset = minari.create_dataset_from_buffers(
            name,
            buffers,
            env=env.spec,
            eval_env=env.spec,
            observation_space=box,
            action_space=env.action_space,
            algorithm_name=", ".join(sorted(set(data.groups))) or "unknown",
            author="unknown",
            author_email="unknown",
            code_permalink="unknown",
            description="States visited by policies, collected with pivec",
            data_format="arrow",
        )
        dataset.storage.update_episode_metadata(metadata)
    except (ValueError, AssertionError) as error:
        raise UsageError(f"Minari refuses the dataset {name!r}: {error}") from error
    finally:
        close(env, environment.name)


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise MissingExtra("reading and writing Minari datasets", "minari") from error
    return minari


def datasets_in(folder: Path) -> list[Path]:
    """Find the folders of Minari datasets below a folder."""
    found = []
    for path in sorted(folder.rglob(_METADATA)):
        if path.parent.name != "data":
            continue
        with contextlib.suppress(OSError, ValueError, RecursionError):
            known = json.loads(read_regular(path))
            if isinstance(known, dict) and {"dataset_id", "minari_version"} <= known.keys():
                found.append(path.parent.parent)
    return found


def _open(name: str) -> Any:
    minari = _minari()
    folder = Path(name).expanduser() / "data"
    try:
        if (folder / _METADATA).is_file():
            return minari.MinariDataset(str(folder))
        return minari.load_dataset(name)
    except FileNotFoundError as error:
        known: list[str] = []
        with contextlib.suppress(Exception):
            known = sorted(minari.list_local_datasets())
        there = f"there are {', '.join(known[:5])}" if known else "there are none"
        raise UsageError(
            f"no Minari dataset {name!r} is on this disk ({there}): download it with "
            f"`minari download {name}`, or set MINARI_DATASETS_PATH"
        ) from error
    except (ValueError, KeyError, OSError, ImportError, AssertionError) as error:
        raise BadData(f"the Minari dataset {name!r} cannot be read: {error}") from error


def _fingerprint(folder: Path) -> str:
    """Digest names, sizes and times of the files: datasets may be too large to read twice."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            known = path.stat()
            digest.update(
                f"{path.relative_to(folder)} {known.st_size} {known.st_mtime_ns}\n".encode()
            )
    return digest.hexdigest()


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return None if value is None else str(value)
