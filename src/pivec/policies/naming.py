"""Labels, groups and training steps of policies, read off the paths of their files."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pivec.errors import UsageError
from pivec.policies.policy import PolicyInfo

# Folders that tell nothing about what is in them; the folder above names the run.
UNINFORMATIVE = frozenset(
    {
        *("checkpoint", "checkpoints", "ckpt", "ckpts", "files", "log", "logs", "model", "models"),
        *("nn", "out", "output", "outputs", "policies", "policy", "save", "saved", "saved_models"),
        *("saves", "snapshots", "weights", "zips"),
    }
)
_WORDS = (
    "steps?|timesteps?|ckpt|checkpoint|iter|iteration|it|epoch|gen|generation|update|episode|ep|t"
)
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}
_AMOUNT = r"(\d+(?:\.\d+)?)([km]?)"
# In order: 40000_steps, step_40000 (also 40k), model-40000, 40000, and any_name_40000.
_STEM_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:.*[^a-z0-9.])?{_AMOUNT}[-_. ]?(?:time)?steps?",
        rf"(?:.*[^a-z])?(?:{_WORDS})[-_.= ]?{_AMOUNT}",
        rf"(?:.*[^a-z])?model[-_.= ]?{_AMOUNT}",
        rf"{_AMOUNT}",
    )
)
_FOLDER_PATTERNS = _STEM_PATTERNS[:2]
# A bare number behind another word is a step only when too large to count runs or seeds.
_LARGE = re.compile(r".*[-_](\d{4,})")
_RUNS = re.compile(
    r"(?:.*[^a-z])?(?:run|seed|trial|fold|rank|worker|env|id)[-_]?\d+", re.IGNORECASE
)
# Folders that RLlib and Orbax have between a checkpoint and the weights of a policy.
_WRAPPING = ("learner_group", "learner", "rl_module", "policies", "default_policy", "default")
_ZOO_RUN = re.compile(r".+-v\d+_\d+(?:_[0-9a-f-]{36})?")


def read_paths(paths: Sequence[str | os.PathLike[str]]) -> list[PolicyInfo]:
    """Label, group and step of each path, for paths that are compared with each other.

    Different paths have different labels: the group and the file's name without its extension, and
    more of the path only where that is needed. A group is the folder of the file, or the nearest
    one above with a telling name.

    Examples
    --------
    >>> for info in read_paths(["a/run_3/rl_model_40000_steps.zip", "a/run_4/best_model.zip"]):
    ...     print(info.label, info.group, info.step)
    run_3/rl_model_40000_steps run_3 40000
    run_4/best_model run_4 None
    """
    given = [_telling_path(Path(os.path.abspath(path))) for path in paths]
    whole = list(dict.fromkeys(given))
    steps, folders = [], []
    for path in whole:
        step, folder = read_step(path.stem), path.parent
        if step is None and (step := _step_of(folder.name, _FOLDER_PATTERNS)) is not None:
            folder = folder.parent
        while folder.name.lower() in UNINFORMATIVE:
            folder = folder.parent
        # Nothing but uninformative names up to the root: then the nearest one has to do.
        steps.append(step)
        folders.append(folder if folder.name else path.parent)
    groups = _group_names(folders)
    levels = []
    for path, folder, group in zip(whole, folders, groups, strict=True):
        between = path.parent.parts[len(folder.parts) :]
        # A folder that tells the step stays in the label.
        telling = [part for part in between if part.lower() not in UNINFORMATIVE]
        levels.append(
            [
                "/".join(filter(None, (group, *telling, path.stem))),
                "/".join(filter(None, (group, *between, path.stem))),
                "/".join(filter(None, (group, *between, path.name))),
                path.as_posix(),
            ]
        )
    labels = _shortest_distinct(levels)
    names = dict(zip(whole, zip(labels, groups, steps, strict=True), strict=True))
    return [PolicyInfo(*names[path]) for path in given]


def _telling_path(path: Path) -> Path:
    """Give what names a policy: its file, or of a checkpoint that is a folder that folder."""
    if path.name not in ("module_state.pkl", "policy_state.pkl", "_METADATA"):
        return path
    folder, agent = path.parent, ""
    if folder.name not in _WRAPPING and folder.parent.name in _WRAPPING:  # of several agents
        folder, agent = folder.parent, folder.name
    while folder.name in _WRAPPING:
        folder = folder.parent
    return folder / agent


def read_step(stem: str) -> int | None:
    """Read the training step in a file's name without extension; None if there is none."""
    if _RUNS.fullmatch(stem):
        return None
    step = _step_of(stem, _STEM_PATTERNS)
    if step is None and (match := _LARGE.fullmatch(stem)):
        return int(match.group(1))
    return step


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Give a sorting key under which step_9000 comes before step_10000."""
    pieces = re.split(r"(\d{1,18})", text)
    return tuple((0, int(p), p) if i % 2 else (1, 0, p) for i, p in enumerate(pieces) if p)


def _step_of(text: str, patterns: Sequence[re.Pattern[str]]) -> int | None:
    for pattern in patterns:
        match = pattern.fullmatch(text)
        if match:
            value = float(match.group(1)) * _SCALES[match.group(2).lower()]
            # Through float only where a point or letter asks for it: large numbers stay exact.
            exact = "." not in match.group(1) and not match.group(2)
            return int(match.group(1)) if exact else round(value)
    return None


def _group_names(folders: Sequence[Path]) -> list[str]:
    """Name each folder, with folders above it where different ones share a name."""
    different = list(dict.fromkeys(folders))
    levels = []
    for folder in different:
        parts = folder.parts[1:]
        telling = [part for part in parts if part.lower() not in UNINFORMATIVE] or list(parts)
        # RL Zoo counts runs of an environment; the folder above names the algorithm.
        shortest = 2 if _ZOO_RUN.fullmatch(folder.name) and len(telling) > 1 else 1
        tails = ["/".join(telling[-k:]) for k in range(shortest, len(telling) + 1)]
        levels.append([*tails, "/".join(parts)])
    names = dict(zip(different, _shortest_distinct(levels), strict=True))
    return [names[folder] for folder in folders]


def _shortest_distinct(levels: Sequence[Sequence[str]]) -> list[str]:
    """For each list of ever longer names, the first that no other has taken."""
    at = [0] * len(levels)
    while True:
        names = [level[i] for level, i in zip(levels, at, strict=True)]
        times = Counter(names)
        movable = [i for i, name in enumerate(names) if times[name] > 1 and levels[i][at[i] + 1 :]]
        if not movable:
            return names
        for i in movable:
            at[i] += 1


# -----------------------------------------------------------------------------
# Which runs make a group: by their names, by algorithm, or as given.


Patterns = Mapping[str, str | Sequence[str]]

# ppo-0, ppo_seed3, a2c/run_2, CartPole-v1_1_<uuid>; the version of an environment is no number.
_NUMBER = re.compile(
    r"(?:(?:^|[-_./ ]+)(?:runs?|seed|trial|s|id))?[-_./ ]*(?<!-v)(?<!\d)\d+(?:_[0-9a-f-]{36})?$",
    re.IGNORECASE,
)


def group_names(
    policies: Sequence[PolicyInfo], groups: Patterns | None = None
) -> tuple[dict[str, str], str]:
    """Tell the group of each run that has one, and in words how the groups came about.

    Without patterns, runs are a group whose names differ in the number at their end, or those of
    an algorithm if names give fewer than two groups; a run that is alone is in no group.

    Examples
    --------
    >>> runs = ["ppo-0", "ppo-1", "a2c_seed0", "a2c_seed1", "mine"]
    >>> infos = [PolicyInfo(run, group=run) for run in runs]
    >>> group_names(infos)[0]
    {'ppo-0': 'ppo', 'ppo-1': 'ppo', 'a2c_seed0': 'a2c', 'a2c_seed1': 'a2c'}
    >>> group_names(infos, {"PPO": "ppo-*", "other": ["a2c_*", "mine"]})[0]["mine"]
    'other'
    """
    runs = list(dict.fromkeys(info.group for info in policies if info.group))
    if not runs:
        raise UsageError(
            "expected policies of training runs, but none belongs to a run: a run is a folder of "
            "checkpoints, or what `groups` says where states come from Python"
        )
    if groups:
        return _by_patterns(runs, groups), "as given"
    algorithms: dict[str, set[str]] = {run: set() for run in runs}
    for info in policies:
        if info.group:
            algorithms[info.group].add(str(info.metadata.get("algorithm") or ""))
    by_algorithm = {
        run: kinds.pop() if len(kinds) == 1 else "" for run, kinds in algorithms.items()
    }
    by_name = {run: _NUMBER.sub("", run) or by_algorithm[run] for run in runs}
    named, of_algorithm = _of_several(by_name), _of_several(by_algorithm)
    if len(set(named.values())) < min(2, len(set(of_algorithm.values()))):
        return of_algorithm, "by algorithm"
    if not named:
        raise UsageError(
            "expected groups of several runs, but the names of the runs do not tell any: say which "
            "runs belong together, as in --group ppo='ppo-*'"
        )
    return named, "by the names of the runs without the number at their end"


def _of_several(names: Mapping[str, str]) -> dict[str, str]:
    """Keep the runs that share the name of their group with others."""
    times = Counter(names.values())
    return {run: name for run, name in names.items() if name and times[name] > 1}


def _by_patterns(runs: Sequence[str], groups: Patterns) -> dict[str, str]:
    names: dict[str, str] = {}
    for name, given in groups.items():
        patterns = [given] if isinstance(given, str) else list(given)
        matching = [run for run in runs if any(fnmatchcase(run, part) for part in patterns)]
        if not matching:
            known = ", ".join(runs[:8]) + (", ..." if len(runs) > 8 else "")
            raise UsageError(
                f"no run matches {' or '.join(patterns)!r} of group {name!r}: the runs are {known}"
            )
        for run in matching:
            if run in names:
                raise UsageError(
                    f"expected each run in one group, but {run!r} matches those of {names[run]!r} "
                    f"and of {name!r}"
                )
            names[run] = name
    return names


def rows_of_runs(
    policies: Sequence[PolicyInfo], names: Mapping[str, str], last: int | None
) -> list[int]:
    """Find the policies to look at, group by group and run by run, whatever order they came in."""
    runs: dict[str, list[int]] = {}
    for i, info in enumerate(policies):
        if info.group in names:
            runs.setdefault(info.group, []).append(i)
    rows = []
    for run in sorted(runs, key=lambda run: (natural_key(names[run]), natural_key(run), run)):
        own = sorted(runs[run], key=lambda i: policies[i].label)
        if last is not None:
            own = [i for i in own if policies[i].step is not None]
            if not own:
                raise UsageError(
                    f"the last checkpoints were asked for, but those of {run!r} have no training "
                    "step: look at all policies"
                )
            own = sorted(own, key=lambda i: policies[i].step or 0)[-last:]
        rows += own
    return rows
