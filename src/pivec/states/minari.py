"""Minari datasets that are on this disk: read as recorded episodes, and written from a store.

Nothing is downloaded. Where Minari looks for datasets is set by MINARI_DATASETS_PATH.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, MissingExtra, UsageError
from pivec.files import read_regular
from pivec.policies import PolicyInfo
from pivec.rollouts import Environment, Episode, close
from pivec.states.record import Recorded
from pivec.states.store import sum_of
from pivec.states.visited import VisitedStates

_METADATA = "metadata.json"


def find_minari(name: str) -> list[Recorded]:
    """Find the policies of a dataset, named ``CartPole/expert-v0`` or by the path of its folder.

    That is one; with ``#key`` there is one for each value of this key in the episodes' metadata.
    """
    where, _, key = name.partition("#")
    dataset = _open(where)
    label = str(dataset.spec.dataset_id)
    group, source = "minari", f"minari:{label}"
    environment = "" if dataset.env_spec is None else str(dataset.env_spec.id)
    digest = _fingerprint(Path(dataset.storage.data_path))
    indices = np.asarray(dataset.episode_indices)
    names: list[Any] = [label] * len(indices)
    metadata: list[Any] = [{}]
    if key:
        group, source = label, f"{source}#{key}"
        metadata = list(dataset.storage.get_episode_metadata(indices))
        names = [entry.get(key) for entry in metadata]
    if None in names:
        raise UsageError(
            f"not every episode of {label} has {key!r} in its metadata: leave #{key} out, and the "
            "dataset counts as one policy"
        )
    names = [_text(name) for name in names]
    return [
        Recorded(
            _info(policy, group, source, digest, metadata[names.index(policy) if key else 0]),
            partial(_episodes, dataset, indices[[name == policy for name in names]]),
            dataset.observation_space,
            environment,
        )
        for policy in dict.fromkeys(names or [label])
    ]


def _info(
    policy: str, group: str, source: str, digest: str, entry: Mapping[str, Any]
) -> PolicyInfo:
    """Name a policy; ``entry`` is the metadata of an episode, as `write_minari` writes it too."""
    group = _text(entry["group"]) if "group" in entry else group
    step = int(entry["training_step"]) if "training_step" in entry else None
    # Policies of one dataset are told apart by their names.
    digest = sum_of([digest, policy]) if entry else digest
    return PolicyInfo(policy, group, step, source, {}, digest)


def _text(name: Any) -> str:
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def _episodes(dataset: Any, indices: NDArray[Any]) -> Iterator[Episode]:
    metadata = dataset.storage.get_episode_metadata(indices)
    for episode, entry in zip(dataset.iterate_episodes(indices), metadata, strict=True):
        actions = episode.actions
        yield Episode(
            episode.observations,
            np.asarray(actions) if isinstance(actions, np.ndarray | list) else None,
            float(np.sum(episode.rewards)),
            -1 if entry.get("seed") is None else int(entry["seed"]),
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
    metadata: list[dict[str, Any]] = []
    for record in data.records:
        for episode in record.as_episodes():
            steps = len(episode.states) - 1
            last = np.arange(steps) == steps - 1
            buffers.append(
                EpisodeBuffer(
                    id=len(buffers),
                    seed=episode.seed if episode.seed >= 0 else None,
                    observations=episode.states,
                    actions=episode.actions,
                    rewards=np.where(last, episode.total_reward, 0.0),
                    terminations=last & episode.terminated,
                    truncations=last & episode.truncated,
                    infos={},
                )
            )
            metadata.append({"policy": record.info.label, "group": record.info.group})
            if record.info.step is not None:
                metadata[-1]["training_step"] = record.info.step
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
    folders = []
    for path in sorted(folder.rglob(_METADATA)):
        if path.parent.name != "data":
            continue
        with contextlib.suppress(OSError, ValueError, RecursionError):
            known = json.loads(read_regular(path))
            if isinstance(known, dict) and {"dataset_id", "minari_version"} <= known.keys():
                folders.append(path.parent.parent)
    return folders


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
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    known = [(path.relative_to(folder).as_posix(), path.stat()) for path in files]
    return sum_of([(name, stat.st_size, stat.st_mtime_ns) for name, stat in known])
