"""From what a user names (paths, globs, ``random``, ``module:object``, objects) to policies.

- `load_policies`, `name_policies`: find, read and label policies; equal ones count once
- `read_paths`: labels, groups and training steps from file names
- `group_names`, `rows_of_runs`: which training runs form a group
- `CheckpointWatcher`: checkpoints that appear while training runs
"""

from __future__ import annotations

import contextlib
import difflib
import glob
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from pivec.errors import MissingExtra, PivecError, PivecWarning, UsageError
from pivec.files import broken_link
from pivec.policies.callables import (
    IMPORTABLE,
    UniformPolicy,
    as_policy,
    import_policy,
    user_code,
)
from pivec.policies.formats import ASSUMED, FORMATS, is_policy_file, read_file, readable, well_known
from pivec.policies.policy import (
    ALSO,
    RUNS_IN,
    NamedPolicy,
    Policy,
    PolicyInfo,
    also_called,
    fingerprint_of,
    first_names,
    natural_key,
    other_names,
)

Spec = str | os.PathLike[str]
Patterns = Mapping[str, str | Sequence[str]]
Stamp = tuple[int, int]  # size and modification time of a file

_NAMED = 5  # copies in a warning
_RANDOM = re.compile(r"random(?::(\d{1,6}))?")
# hf:OWNER/NAME[:REVISION][/PATH], wandb:ENTITY/PROJECT/ARTIFACT[:VERSION]
HUB = re.compile(r"(hf|wandb):([^/:@]+/[^/:@]+)(?::([^/@]+))?(?:/(.+))?")
_NOT_FETCHED = ("*.mp4", "*.gif", "*tfevents*")
_SNAPSHOT = re.compile(r".*/models--(.+?)--([^/]+)/snapshots/[^/]+")  # in the cache of the Hub
# Folders whose names say nothing about their content; the folder above names the run.
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
# Folders of RLlib and Orbax between a checkpoint and the weights of a policy.
_WRAPPING = ("learner_group", "learner", "rl_module", "policies", "default_policy", "default")
_ZOO_RUN = re.compile(r".+-v\d+_\d+(?:_[0-9a-f-]{36})?")
# ppo-0, ppo_seed3, a2c/run_2, CartPole-v1_1_<uuid>; an environment's version does not count.
_NUMBER = re.compile(
    r"(?:(?:^|[-_./ ]+)(?:runs?|seed|trial|s|id))?[-_./ ]*(?<!-v)(?<!\d)\d+(?:_[0-9a-f-]{36})?$",
    re.IGNORECASE,
)


def load_policies(
    specs: Spec | Sequence[Spec],
    trust: bool = False,
    without_normaliser: bool = False,
    skip_unreadable: bool = False,
) -> list[NamedPolicy]:
    """Load policies; labels are derived from their paths.

    Parameters
    ----------
    specs : str, path or sequence of these
        A file, a folder (all policy files below it), a glob (``**`` crosses folders), ``random``
        (``random:3`` for three of them), ``module:object``, ``hf:OWNER/NAME`` (a repository of the
        Hugging Face Hub, or a path in it) or ``wandb:ENTITY/PROJECT/ARTIFACT``. The order is kept;
        the files of a folder or glob are sorted so that step 9000 comes before 10000. A file that
        is named twice counts once. Other files in a folder (logs, statistics, arrays without a
        description) are ignored.
    trust : bool
        Whether code in the files may run, which some formats need: TorchScript, torch.export and
        pickles of unknown classes.
    without_normaliser : bool
        Whether policies may run without observation statistics that they are known to need.
    skip_unreadable : bool
        Whether unreadable files are skipped with a warning, as long as any policy is left.

    Raises
    ------
    UsageError
        If a name matches nothing, or is not a known kind of policy.
    BadPolicyFile
        If a file is damaged, not supported, needs ``trust``, or lacks its statistics.

    Warns
    -----
    PivecWarning
        Once for everything that had to be assumed about files: activation, statistics.

    Notes
    -----
    ``named.info.metadata`` holds facts from the file. Its ``normaliser``, if there is one, names
    the statistics applied to observations; its ``assumed`` lists what had to be assumed.

    Examples
    --------
    >>> [named.info.label for named in load_policies(["random", "random:2"])]
    ['random', 'random-0', 'random-1']
    """
    given = [specs] if isinstance(specs, str | os.PathLike) else specs
    candidates = [_Candidate(source) for spec in given for source in _find_policies(spec)]
    return _load(candidates, trust, without_normaliser, skip_unreadable)


def name_policies(
    policies: Any,
    trust: bool = False,
    without_normaliser: bool = False,
    skip_unreadable: bool = False,
) -> list[NamedPolicy]:
    """Turn anything a Python user may pass as policies into policies with unique labels.

    Policies with equal fingerprints are one: copies are dropped with a warning, and their names
    kept in the metadata as ``also``. Functions and objects without a ``fingerprint`` are identified
    by their name: the label in a mapping, or module and name.

    ``policies`` are one of these, a sequence of them, or a mapping from labels to them: what
    `load_policies` takes, a policy, a callable, an object with ``act`` or ``predict``, a
    `NamedPolicy`. A label for many files becomes the prefix of their labels.

    Examples
    --------
    >>> import numpy as np
    >>> def still(observations):
    ...     return np.zeros(len(observations), int)
    >>> named = name_policies({"lazy": still, "chance": "random"})
    >>> [policy.info.label for policy in named]
    ['lazy', 'chance']
    """
    candidates: list[_Candidate] = []
    if isinstance(policies, Mapping):
        for label, thing in policies.items():
            if not isinstance(label, str) or not label:
                raise UsageError(f"labels of policies must be text, but one is {label!r}")
            sources = _find_any(thing, label)
            candidates += [_Candidate(source, label, len(sources) == 1) for source in sources]
    else:
        single = (
            isinstance(policies, str | os.PathLike | NamedPolicy)
            or not isinstance(policies, Iterable)
            or any(hasattr(policies, name) for name in ("__call__", "act", "predict"))
        )
        for i, thing in enumerate([policies] if single else policies):
            label = thing.info.label if isinstance(thing, NamedPolicy) else ""
            candidates += [_Candidate(source, label) for source in _find_any(thing, f"policy-{i}")]
    named = _load(candidates, trust, without_normaliser, skip_unreadable)
    kept = {info.label: info for info in _merge_copies([each.info for each in named])}
    if len(kept) < len(named):
        before = {each.info.label: each.info for each in named}
        merged = [info for label, info in kept.items() if info is not before[label]]
        warn_of_copies(
            f"{len(named) - len(kept)} of {len(named)} policies are copies of others", merged
        )
    return [replace(each, info=kept[each.info.label]) for each in named if each.info.label in kept]


def warn_of_copies(words: str, merged: Sequence[PolicyInfo]) -> None:
    """Warn that policies were merged with copies of them; ``words`` say how many there are."""
    names = [f"{info.label} ({also_called(info)})" for info in merged]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    warnings.warn(
        f"{words}, with the same weights and settings, counted once: {', '.join(names[:_NAMED])}"
        f"{more}",
        PivecWarning,
        stacklevel=4,
    )


def _merge_copies(infos: Sequence[PolicyInfo]) -> list[PolicyInfo]:
    """Keep one of those with equal fingerprints, with the names of the others as metadata.

    Their episodes would be the same, not independent samples. The name with a training step stays,
    then that of a policy with a known step, then the first in natural order.
    """

    def precedence(info: PolicyInfo) -> tuple[Any, ...]:
        unnamed = read_step(info.label.rpartition("/")[2]) is None
        return unnamed, info.step is None, natural_key(info.label)

    same: dict[str, list[PolicyInfo]] = {}
    for info in infos:
        same.setdefault(info.identity, []).append(info)
    result = []
    for copies in same.values():
        first, *others = sorted(copies, key=precedence)
        names = [name for info in others for name in (info.label, *other_names(info))]
        also = [name for name in dict.fromkeys(names + other_names(first)) if name != first.label]
        if others and also:
            first = replace(first, metadata={**first.metadata, ALSO: also})
        result.append(first)
    return result


def split_environment(thing: Any) -> tuple[Any, Any]:
    """Separate what is given for a policy, and the environment of its own, if it has one.

    That is ``POLICY@ENV``, or (policy, environment). Existing paths, and patterns that match some,
    stay whole.

    Examples
    --------
    >>> split_environment("random@CartPole-v1"), split_environment("random")
    (('random', 'CartPole-v1'), ('random', None))
    """
    if isinstance(thing, tuple) and len(thing) == 2:
        return thing
    text = thing if isinstance(thing, str) else ""
    place = len(text) if not _exists(text) else 0
    while (place := text.rfind("@", 0, place)) > 0:
        before = text[:place]
        if _exists(before) or any(kind.fullmatch(before) for kind in (_RANDOM, HUB, IMPORTABLE)):
            return before, text[place + 1 :]
    return thing, None


def _exists(text: str) -> bool:
    """Whether there is a path, or one that matches the pattern."""
    path = os.path.expanduser(text)
    with contextlib.suppress(ValueError):  # of text that is no path
        return os.path.lexists(path) or any(glob.iglob(path, recursive=True))
    return False


def _find_any(thing: Any, fallback: str) -> list[Path | NamedPolicy]:
    """As `_find_policies`, and objects too, which are called ``fallback`` if they have no name."""
    if isinstance(thing, str | os.PathLike):
        return _find_policies(thing)
    if isinstance(thing, NamedPolicy):
        own = thing.info.fingerprint or str(getattr(thing.policy, "fingerprint", ""))
        return [replace(thing, info=replace(thing.info, fingerprint=own))]
    name = getattr(thing, "__name__", "")
    label = name if isinstance(name, str) and name.isidentifier() else fallback
    module = getattr(thing, "__module__", "") or type(thing).__module__
    return [_named(as_policy(thing, label), label, label, f"{module}:{label}")]


def _find_policies(spec: Spec) -> list[Path | NamedPolicy]:
    """Find what one spec stands for, without reading files."""
    text = os.path.expanduser(os.fspath(spec))
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError(f"expected the name of a policy, but got {spec!r}")
    if match := HUB.fullmatch(text):
        text = os.fspath(_fetched(text, *match.groups("")))
    if match := _RANDOM.fullmatch(text):
        count = match.group(1)
        labels = ["random"] if count is None else [f"random-{i}" for i in range(int(count))]
        if not labels:
            raise UsageError("random:0 means no policy: expected a number of at least 1")
        # Several are independent samples of one policy, each with its own fingerprint.
        return [_named(UniformPolicy(), label, "random", "random", label) for label in labels]
    path = Path(text)
    with readable(text):
        if path.is_dir():
            return [*_policy_files(_files_below(path), f"the folder {path}", "")]
        if path.exists():
            return [path]
    if glob.has_magic(text):
        paths = list(map(Path, glob.glob(text, recursive=True)))
        files = [path for path in paths if path.is_file()]
        # Or maybe checkpoints that are folders.
        files = files or [file for path in paths for file in _files_below(path)]
        if not files:
            while glob.has_magic(str(path)):
                path = path.parent
            raise UsageError(
                f"the pattern {text!r} matches no file{_suggestion(path / 'any')}: check it, and "
                "quote it so that the shell does not expand it"
            )
        return [*_policy_files(files, f"the pattern {text!r}", Path(text).suffix.lower())]
    if IMPORTABLE.fullmatch(text):
        return [_named(import_policy(text), text, text.partition(":")[0], text, text)]
    raise UsageError(
        broken_link(path)
        or f"there is no policy {text!r}: expected a file, a folder, a glob, random or "
        f"module:object{_suggestion(path)}"
    )


def _fetched(text: str, client: str, project: str, revision: str, inside: str) -> Path:
    """Local folder of a repository of the Hugging Face Hub, or an artifact of Weights & Biases.

    Their clients keep copies: what is there is not downloaded again.
    """
    with user_code(f"{text} cannot be fetched"):
        try:
            if client == "hf":
                import huggingface_hub

                folder = huggingface_hub.snapshot_download(
                    project, revision=revision or None, ignore_patterns=list(_NOT_FETCHED)
                )
                return Path(folder, inside)
            import wandb

            version = "" if ":" in inside else ":latest"
            return Path(wandb.Api().artifact(f"{project}/{inside}{version}").download())
        except ImportError as error:
            raise MissingExtra(f"the source {text}", "hub") from error


def _named(
    policy: Policy, label: str, group: str, source: str, specification: str = ""
) -> NamedPolicy:
    """Name a policy, identified by ``specification`` if it has no fingerprint of its own."""
    fingerprint = str(getattr(policy, "fingerprint", ""))
    if specification and not fingerprint:
        fingerprint = fingerprint_of(specification)
    return NamedPolicy(policy, PolicyInfo(label, group, None, source, {}, fingerprint))


def _files_below(folder: Path) -> list[Path]:
    """All files below a folder, without hidden files and folders."""
    files = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(where, name) for name in names if not name.startswith(".")]
    return files


def _policy_files(files: list[Path], what: str, suffix: str) -> list[Path]:
    """Files that have a reader, in natural order; ``suffix`` is the extension asked for, if any."""
    known = [path for path in files if is_policy_file(path, named=path.suffix.lower() == suffix)]
    if not known:
        for path in files:
            if kind := well_known(path, b""):
                raise UsageError(f"{what} holds no policy file: {path.name} in it is {kind}")
        kinds = ", ".join(sorted(FORMATS))
        raise UsageError(f"{what} holds no policy file: expected some that end in {kinds}")
    return sorted(known, key=lambda path: [natural_key(part) for part in path.parts])


def _suggestion(path: Path) -> str:
    """A few policy files near a path that does not exist, as the end of a sentence."""
    folder = path.parent
    if not folder.is_dir():
        return f" ({folder} does not exist)"
    names = [file.name for file in folder.iterdir() if is_policy_file(file) or file.is_dir()]
    near = difflib.get_close_matches(path.name, names, n=3, cutoff=0.6)
    near = near or sorted((n for n in names if is_policy_file(Path(n))), key=natural_key)[:3]
    return f"; {folder} holds {', '.join(near)}" if near else ""


class _Candidate(NamedTuple):
    """A file to be read, or a policy in memory."""

    source: Path | NamedPolicy
    label: str = ""  # given by the user; may be empty
    alone: bool = True  # whether that label is for this one only


def _load(
    candidates: list[_Candidate], trust: bool, without_normaliser: bool, skip_unreadable: bool
) -> list[NamedPolicy]:
    """Read the files and give every policy its label."""
    if not candidates:
        raise UsageError("expected at least one policy: a path, a glob, random or module:object")
    unique: dict[tuple[str, object], _Candidate] = {}
    for item in candidates:  # the same file counts once, and so does the same random policy
        key: object = id(item)
        if isinstance(item.source, Path):
            key = item.source.resolve()
        elif item.source.info.source == "random":
            key = item.source.info.label
        unique.setdefault((item.label, key), item)
    sources = [item.source for item in unique.values()]
    policies = []
    taken: dict[str, bool] = {}
    objects: dict[str, bool] = {}
    read = _read_all(sources, trust, without_normaliser, skip_unreadable)
    for named, (_, given, alone) in zip(read, unique.values(), strict=True):
        if named is None:
            continue
        info = named.info
        label = given if given and alone else f"{given}/{info.label}" if given else info.label
        label = _free_label(label, taken, bool(given))
        # Functions of one name may differ: those without a label of their own get a number.
        fingerprint = info.fingerprint or fingerprint_of(
            f"called {label}" if given else _free_label(info.source, objects, False)
        )
        policies.append(replace(named, info=replace(info, label=label, fingerprint=fingerprint)))
    _warn_of_assumptions(policies)
    return policies


def _free_label(label: str, taken: dict[str, bool], given: bool) -> str:
    """``label``, with a number if it is taken; labels from the user must not clash."""
    if label in taken and given and taken[label]:
        raise UsageError(f"two policies are labelled {label!r}: labels must be unique")
    free, count = label, 1
    while free in taken:
        count += 1
        free = f"{label}-{count}"
    taken[free] = given
    return free


def _read_all(
    sources: Sequence[Path | NamedPolicy], trust: bool, without_normaliser: bool, skip: bool
) -> list[NamedPolicy | None]:
    """Read files into policies; those that are skipped are None."""
    names = iter(read_paths([source for source in sources if isinstance(source, Path)]))
    result: list[NamedPolicy | None] = []
    errors: dict[Path, PivecError] = {}
    is_read = False
    for source in sources:
        if isinstance(source, NamedPolicy):
            result.append(source)
            continue
        try:
            result.append(_read_named(source, next(names), trust, without_normaliser))
            is_read = True
        except PivecError as error:
            errors[source] = error
            result.append(None)
        if errors and not skip and is_read:
            break  # it is known that another one is readable
    if errors and not (skip and any(result)):
        first = next(iter(errors.values()))
        hint = f"nor can the other {len(errors) - 1} files be read" if len(errors) > 1 else ""
        if is_read:
            hint = "--skip-unreadable, in Python skip_unreadable=True, skips such files"
        first.args = (f"{first} ({hint})" if hint else str(first),)
        raise first
    reasons: dict[str, list[str]] = {}
    for path, text in ((path, str(error)) for path, error in errors.items()):
        reason = text.removeprefix(str(path)) if text.startswith(f"{path} ") else f": {text}"
        reasons.setdefault(reason, []).append(str(path))
    for reason, paths in reasons.items():
        warnings.warn(f"{', '.join(paths)}{reason}; skipped", PivecWarning, stacklevel=4)
    return result


def _read_named(
    path: Path, names: PolicyInfo, trust: bool = False, without_normaliser: bool = False
) -> NamedPolicy:
    """Read a file; label, run and step are those of ``names``."""
    policy, metadata, fingerprint = read_file(path, trust, without_normaliser)
    step = metadata.get("step") if names.step is None else names.step
    step = step if type(step) is int else None
    metadata = {key: value for key, value in metadata.items() if key != RUNS_IN}
    info = PolicyInfo(names.label, names.group, step, str(path), metadata, fingerprint)
    return NamedPolicy(policy, info)


def _warn_of_assumptions(policies: Sequence[NamedPolicy]) -> None:
    """Warn of assumptions, once for all files that share one."""
    sources: dict[str, list[str]] = {}
    for named in policies:
        for what in named.info.metadata.get(ASSUMED, ()):
            sources.setdefault(what, []).append(named.info.source)
    for what, files in sources.items():
        first = files[0] if len(files) == 1 else f"{len(files)} files (first: {files[0]})"
        warnings.warn(f"{first}: {what}", PivecWarning, stacklevel=4)


def read_paths(paths: Sequence[str | os.PathLike[str]]) -> list[PolicyInfo]:
    """Label, group and step of each path, for paths that are compared with each other.

    Different paths have different labels: the group and the file's name without its extension, and
    more of the path only where necessary. The group is the folder of the file, or the nearest one
    above with an informative name.

    Examples
    --------
    >>> for info in read_paths(["a/run_3/rl_model_40000_steps.zip", "a/run_4/best_model.zip"]):
    ...     print(info.label, info.group, info.step)
    run_3/rl_model_40000_steps run_3 40000
    run_4/best_model run_4 None
    """
    given = [_policy_path(os.path.abspath(path)) for path in paths]
    whole = list(dict.fromkeys(given))
    steps, folders = [], []
    for path in whole:
        step, folder = read_step(path.stem), path.parent
        if step is None and (step := _step_of(folder.name, _FOLDER_PATTERNS)) is not None:
            folder = folder.parent
        while folder.name.lower() in UNINFORMATIVE:
            folder = folder.parent
        steps.append(step)
        folders.append(folder if folder.name else path.parent)
    groups = _group_names(folders)
    levels = []
    for path, folder, group in zip(whole, folders, groups, strict=True):
        between = path.parent.parts[len(folder.parts) :]
        # A folder with the step stays in the label.
        informative = [part for part in between if part.lower() not in UNINFORMATIVE]
        parts = ((*informative, path.stem), (*between, path.stem), (*between, path.name))
        levels.append(["/".join(filter(None, (group, *own))) for own in parts])
        levels[-1].append(path.as_posix())
    labels = _shortest_distinct(levels)
    names = dict(zip(whole, zip(labels, groups, steps, strict=True), strict=True))
    return [PolicyInfo(*names[path]) for path in given]


def _policy_path(place: str) -> Path:
    """The path that names a policy: its file, or the folder if a checkpoint is a folder.

    It has owner and name of a repository instead of its place in a cache.
    """
    path = Path(_SNAPSHOT.sub(r"/\1/\2", Path(place).as_posix()))
    if path.name not in ("module_state.pkl", "policy_state.pkl", "_METADATA", "manifest.json"):
        return path
    folder, agent = path.parent, ""
    if folder.name not in _WRAPPING and folder.parent.name in _WRAPPING:  # one of several agents
        folder, agent = folder.parent, folder.name
    while folder.name in _WRAPPING:
        folder = folder.parent
    return folder / agent


def read_step(stem: str) -> int | None:
    """Training step in a file name without extension; None if there is none."""
    if _RUNS.fullmatch(stem):
        return None
    match = _LARGE.fullmatch(stem)
    step = _step_of(stem, _STEM_PATTERNS)
    return int(match.group(1)) if step is None and match else step


def _step_of(text: str, patterns: Sequence[re.Pattern[str]]) -> int | None:
    for pattern in patterns:
        if match := pattern.fullmatch(text):
            number, unit = match.groups()
            if number.isdigit() and not unit:  # large integers stay exact
                return int(number)
            return round(float(number) * _SCALES[unit.lower()])
    return None


def _group_names(folders: Sequence[Path]) -> list[str]:
    """Name each folder, including folders above it where names are not unique."""
    different = list(dict.fromkeys(folders))
    levels = []
    for folder in different:
        parts = folder.parts[1:]
        informative = [part for part in parts if part.lower() not in UNINFORMATIVE] or list(parts)
        # RL Zoo counts runs of an environment; the folder above names the algorithm.
        shortest = 2 if _ZOO_RUN.fullmatch(folder.name) and len(informative) > 1 else 1
        tails = ["/".join(informative[-k:]) for k in range(shortest, len(informative) + 1)]
        levels.append([*tails, "/".join(parts)])
    names = dict(zip(different, _shortest_distinct(levels), strict=True))
    return [names[folder] for folder in folders]


def _shortest_distinct(levels: Sequence[Sequence[str]]) -> list[str]:
    """The first name of each list of ever longer names that is unique."""
    at = [0] * len(levels)
    while True:
        names = [level[i] for level, i in zip(levels, at, strict=True)]
        times = Counter(names)
        movable = [i for i, name in enumerate(names) if times[name] > 1 and levels[i][at[i] + 1 :]]
        if not movable:
            return names
        for i in movable:
            at[i] += 1


class CheckpointWatcher:
    """Finds policies repeatedly, and reads those that are new or have been overwritten.

    A file is read once its size and time have not changed for ``settle`` seconds. An unreadable
    one is reported in a warning, and tried again when it or its folder changes. The folder
    ``exclude`` is ignored.

    Attributes
    ----------
    missing : list of str
        Specs for which the last call of `poll` found no file.
    n_incomplete : int
        Files that were still changing at the last call of `poll`.

    Examples
    --------
    >>> watcher = CheckpointWatcher(["random"], settle=5.0)
    >>> [named.info.label for named in watcher.poll()], watcher.poll()
    (['random'], [])
    """

    def __init__(
        self,
        specs: Spec | Sequence[Spec],
        settle: float,
        trust: bool = False,
        without_normaliser: bool = False,
        exclude: Path | None = None,
    ) -> None:
        self._specs = [specs] if isinstance(specs, str | os.PathLike) else list(specs)
        self._settle, self._allowed = settle, (trust, without_normaliser)
        self._exclude = exclude and Path(os.path.abspath(exclude))
        self._unchanged: dict[Path, tuple[Stamp, float]] = {}  # and since when
        self._read: dict[Path, Stamp] = {}
        self._rejected: dict[Path, tuple[Stamp, Stamp | None]] = {}  # and the folder's
        self._assumed: set[str] = set()  # warned of
        self.missing: list[str] = []
        self.n_incomplete = 0

    def poll(self) -> list[NamedPolicy]:
        """Policies that are new since the last call, each named as if it were alone."""
        new: list[NamedPolicy] = []
        files: dict[str, Path] = {}
        self.missing = []
        for spec in list(self._specs):
            text = os.fspath(spec)
            try:
                sources = _find_policies(spec)
            except UsageError:
                if not text or (":" in text and os.sep not in text):  # which cannot appear later
                    raise
                self.missing.append(text)
                continue
            files |= {os.path.abspath(path): path for path in sources if isinstance(path, Path)}
            new += [source for source in sources if isinstance(source, NamedPolicy)]
            if sources and isinstance(sources[0], NamedPolicy):
                self._specs.remove(spec)  # it will not change
        self.n_incomplete = 0
        for absolute, path in files.items():
            if self._exclude not in Path(absolute).parents:
                new += self._read_complete(path)
        assumed = [{*named.info.metadata.get(ASSUMED, ())} for named in new]
        _warn_of_assumptions(
            [named for named, own in zip(new, assumed, strict=True) if not self._assumed >= own]
        )
        self._assumed.update(*assumed)
        return new

    def reject(self, policy: NamedPolicy, reason: PivecError) -> None:
        """Exclude a policy that cannot run, until its file changes."""
        path = Path(policy.info.source)
        if stamp := self._read.pop(path, None):
            self._rejected[path] = stamp, _stamp(path.parent)
        _warn_of_rejection(reason)

    def _read_complete(self, path: Path) -> list[NamedPolicy]:
        """Read a file that is new and has settled."""
        stamp, now = _stamp(path), time.monotonic()
        if stamp is None or self._read.get(path) == stamp:  # removed meanwhile, or known
            return []
        rejected, folder = self._rejected.get(path, (None, None))
        if rejected == stamp and folder == _stamp(path.parent):
            return []
        before, since = self._unchanged.get(path, (None, now))
        self._unchanged[path] = stamp, since if before == stamp else now
        # The clock of a file system may differ; then the file is watched long enough.
        is_old = time.time() - stamp[1] / 1e9 >= self._settle
        if not is_old and not (before == stamp and now - since >= self._settle):
            self.n_incomplete += 1
            return []
        try:
            [names] = read_paths([path])
            named = _read_named(path, names, *self._allowed)
        except PivecError as error:
            self._rejected[path] = stamp, _stamp(path.parent)
            if rejected != stamp and _stamp(path) == stamp:  # not changed while it was read
                _warn_of_rejection(error)
            return []
        self._read[path] = stamp
        return [named]


def named_together(infos: Sequence[PolicyInfo]) -> list[PolicyInfo]:
    """Name policies as if all their files were given at once; equal ones are one policy.

    Of two from the same file the later stays: it was overwritten.

    Examples
    --------
    >>> a, b = PolicyInfo("p", source="x/p.zip"), PolicyInfo("p", source="y/p.zip")
    >>> [info.label for info in named_together([a, b])]
    ['x/p', 'y/p']
    """
    latest: dict[str, PolicyInfo] = {}
    for info in infos:
        is_file = not info.own_environment and is_policy_file(Path(info.source), named=False)
        latest[os.path.abspath(info.source) if is_file else f"{info.source}\0{info.label}"] = info
    files = [path for path in latest if "\0" not in path]
    names = dict(zip(files, read_paths(files), strict=True))
    taken = {info.label for path, info in latest.items() if path not in names}
    renamed = []
    for path, info in latest.items():
        if path in names:
            label, group = names[path].label, names[path].group
            info = replace(info, label=path if label in taken else label, group=group)  # noqa: PLW2901
        renamed.append(info)
    return sorted(_merge_copies(renamed), key=lambda info: natural_key(info.label))


def _stamp(path: Path) -> Stamp | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns


def _warn_of_rejection(reason: PivecError) -> None:
    warnings.warn(f"{reason} (tried again when it changes)", PivecWarning, stacklevel=4)


def group_names(
    policies: Sequence[PolicyInfo], groups: Patterns | None = None
) -> tuple[dict[str, str], str]:
    """Group of each run that has one, and a description of how groups were found.

    Without patterns, runs whose names differ in the number at the end form a group, or runs of one
    algorithm if names give fewer than two groups; a single run is in no group.

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
            "checkpoints, or is set by `groups` for states from Python"
        )
    if groups:
        names: dict[str, str] = {}
        for name, given in groups.items():
            patterns = [given] if isinstance(given, str) else list(given)
            matching = [run for run in runs if any(fnmatchcase(run, part) for part in patterns)]
            if not matching:
                known = f"the runs are {first_names(runs)}"
                raise UsageError(
                    f"no run matches {' or '.join(patterns)!r} of group {name!r}: {known}"
                )
            for run in matching:
                if names.setdefault(run, name) != name:
                    raise UsageError(f"run {run!r} matches groups {names[run]!r} and {name!r}")
        return names, "as given"
    algorithms: dict[str, set[str]] = {run: set() for run in runs}
    ends = dict.fromkeys(runs, "")  # of the names of runs in environments of their own
    for info in policies:
        if info.group:
            algorithms[info.group].add(str(info.metadata.get("algorithm") or ""))
            if info.own_environment:
                ends[info.group] = "@" + info.group.rpartition("@")[2]
    by_algorithm = {
        run: kinds.pop() if len(kinds) == 1 else "" for run, kinds in algorithms.items()
    }
    by_name = {
        run: _NUMBER.sub("", run.removesuffix(ends[run])) or by_algorithm[run] for run in runs
    }
    by_name, by_algorithm = (
        {run: name and name + ends[run] for run, name in names.items()}
        for names in (by_name, by_algorithm)
    )
    named, of_algorithm = _shared(by_name), _shared(by_algorithm)
    if len(set(named.values())) < min(2, len(set(of_algorithm.values()))):
        return of_algorithm, "by algorithm"
    if not named:
        raise UsageError(
            "expected groups of several runs, but the names of the runs do not define any: state "
            "which runs belong together, as in --group ppo='ppo-*'"
        )
    return named, "by name, ignoring the number at the end"


def _shared(names: Mapping[str, str]) -> dict[str, str]:
    """Runs whose group has other runs."""
    times = Counter(names.values())
    return {run: name for run, name in names.items() if name and times[name] > 1}


def rows_of_runs(
    policies: Sequence[PolicyInfo], names: Mapping[str, str], last: int | None
) -> list[int]:
    """Rows of the policies, by group and run; only the ``last`` checkpoints of each run if set."""
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
                    f"cannot select the last checkpoints: those of {run!r} have no training step; "
                    "use all policies"
                )
            own = sorted(own, key=lambda i: policies[i].step or 0)[-last:]
        rows += own
    return rows
