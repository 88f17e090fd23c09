"""Minari datasets on this disk: read as recorded episodes, and written from a store.

Nothing is downloaded. MINARI_DATASETS_PATH sets where Minari looks for datasets.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import BadData, MissingExtra, UsageError
from pivec.files import read_regular, regular_files
from pivec.policies import PolicyInfo
from pivec.rollouts import Environment, Episode, close
from pivec.states.readers import check_hdf5, open_hdf5
from pivec.states.recorded import RecordedPolicy
from pivec.states.store import json_digest
from pivec.states.visited import VisitedStates

_METADATA = "metadata.json"


def find_dataset(name: str) -> tuple[Path, int]:
    """Return the folder of a dataset, given by name or folder, and the size of its files."""
    given = Path(name).expanduser()
    default = Path.home() / ".minari" / "datasets"  # as in Minari, which takes long to import
    local = Path(os.environ.get("MINARI_DATASETS_PATH", default))
    folder = next((f for f in (given, local / name) if (f / "data" / _METADATA).is_file()), None)
    if folder is None:
        known = [path.relative_to(local).as_posix() for path in datasets_in(local)[:5]]
        if given.is_dir():
            raise UsageError(f"{given} is not a Minari dataset: it has no data/{_METADATA}")
        there = f"found: {', '.join(known)}" if known else "found: none"
        raise UsageError(
            f"the Minari dataset {name!r} is not on this disk ({there}): download it with "
            f"`minari download {name}`, or set MINARI_DATASETS_PATH"
        )
    return folder, sum(file.stat().st_size for file in regular_files(folder / "data"))


def find_minari(folder: Path, name: str) -> list[RecordedPolicy]:
    """Find the policies of a dataset in a folder, called ``CartPole/expert-v0`` or by its path.

    A dataset is one policy; with ``#key`` there is one per value of this key in the episodes'
    metadata.
    """
    key = name.partition("#")[2]
    dataset = _open(folder / "data")
    label = str(dataset.spec.dataset_id)
    environment = "" if dataset.env_spec is None else str(dataset.env_spec.id)
    # Names, sizes and times of the files: datasets may be too large to read twice.
    known = [(path, path.stat()) for path in regular_files(folder / "data")]
    digest = json_digest(
        [
            (path.relative_to(folder / "data").as_posix(), s.st_size, s.st_mtime_ns)
            for path, s in known
        ]
    )
    indices = np.asarray(dataset.episode_indices)
    if not key:
        info = PolicyInfo(label, "minari", None, f"minari:{label}", {}, digest)
        policies = [(info, indices)]
    else:
        metadata = list(dataset.storage.get_episode_metadata(indices))
        if any(entry.get(key) is None for entry in metadata):
            raise UsageError(
                f"not every episode of {label} has {key!r} in its metadata: without #{key} the "
                "dataset is one policy"
            )
        names = np.array([_text(entry[key]) for entry in metadata])
        policies = []
        for policy in dict.fromkeys(names.tolist()):
            rows = np.flatnonzero(names == policy)
            entry = metadata[rows[0]]  # as `write_minari` writes it, or another program
            info = PolicyInfo(
                policy,
                _text(entry.get("group", label)),
                int(entry["training_step"]) if "training_step" in entry else None,
                f"minari:{label}#{key}",
                {},
                json_digest([digest, policy]),
            )
            policies.append((info, indices[rows]))
    return [
        RecordedPolicy(
            info, partial(_episodes, dataset, mine), dataset.observation_space, environment
        )
        for info, mine in policies
    ]


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
    """Write all episodes into a new dataset; the metadata of each have the label of its policy.

    A store has no rewards of single steps: the last step gets the return.
    """
    from gymnasium import spaces

    minari = _minari()
    from minari.data_collector import EpisodeBuffer

    if not data.has_actions:
        raise UsageError(
            "a Minari dataset needs actions, but these states have none: collect with --actions "
            "(from Python actions=True)"
        )
    if thinned := [record.info.label for record in data.records if record.every > 1]:
        raise UsageError(
            f"a Minari dataset needs every step, but the states of {thinned[0]!r} are thinned: "
            "collect without --max-states-per-policy"
        )
    if name in minari.list_local_datasets():
        raise UsageError(f"the Minari dataset {name!r} already exists: choose another name")
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
        raise UsageError(f"Minari rejected the dataset {name!r}: {error}") from error
    finally:
        close(env, environment.name)


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


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise MissingExtra("reading and writing Minari datasets", "minari") from error
    return minari


def _open(folder: Path) -> Any:
    """Open a dataset whose files refer to nothing outside of it."""
    minari = _minari()
    metadata = json.loads(read_regular(folder / _METADATA))
    for key in ("observation_space", "action_space"):
        # Minari would create the environment to get the space, which can run any code.
        if not isinstance(metadata.get(key), str):
            raise BadData(f"its {_METADATA} lacks {key}: write it again with Minari 0.5 or later")
    for file in folder.glob("*.hdf5"):
        with open_hdf5(file) as content:
            check_hdf5(content)
    try:
        return minari.MinariDataset(str(folder))
    except (ValueError, KeyError, OSError, ImportError, AssertionError) as error:
        raise BadData(f"Minari cannot read it: {error}") from error
