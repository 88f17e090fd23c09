"""Which runs make a group: by their names, by algorithm, or as given."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from pivec.errors import UsageError
from pivec.policies.paths import natural_key
from pivec.policies.policy import PolicyInfo

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
