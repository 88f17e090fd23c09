"""VisitedStates: the states of many policies, divided into episodes; immutable and not copied."""

from __future__ import annotations

import hashlib
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import BadData, UsageError
from pivec.options import TableOptions, takes_options
from pivec.policies import Policy, PolicyInfo, other_names
from pivec.results import policies_table
from pivec.rollouts import (
    Episode,
    Offsets,
    PlayedPolicy,
    is_wide,
    kept_lengths,
    lost_features,
    offset_names,
    row_times,
)
from pivec.terminal import printable

# What is known about an episode besides its states; an unknown seed is -1.
EPISODE = np.dtype(
    [
        ("return", "f8"),
        ("length", "i8"),  # states that are kept
        ("seed", "i8"),
        ("terminated", "?"),
        ("truncated", "?"),
        ("steps", "i8"),  # that were taken: one fewer than states, unless these are thinned
    ]
)

# Metadata of policies that were found in their states: how these are thinned, and how far apart
# recorded ones are, unless that is one step.
OF_STATES = ("kept_every", "steps_apart", "time_apart")

# The states of one policy, all episodes concatenated, and its actions if they are kept: one fewer
# per episode.
Arrays = tuple[NDArray[np.float32], NDArray[Any] | None]


@dataclass(frozen=True)
class PolicyRecord:
    """What is kept of one policy; ``episodes`` has one row of `EPISODE` per episode.

    Further fields of ``episodes`` are outcomes: numbers (NaN where unknown) or texts (empty there).
    States and actions are read on demand, and so is the policy itself, which is None if it is not
    kept.
    """

    info: PolicyInfo
    episodes: NDArray[Any]
    has_actions: bool
    read_arrays: Callable[[], Arrays]
    read_policy: Callable[[], Policy | None]

    @classmethod
    def in_memory(
        cls, info: PolicyInfo, episodes: NDArray[Any], arrays: Arrays, policy: Policy | None = None
    ) -> PolicyRecord:
        """Create a record of arrays in memory."""
        has_actions = arrays[1] is not None
        return cls(info, episodes, has_actions, partial(_value, arrays), partial(_value, policy))

    def as_episodes(self, rows: Sequence[int] | None = None) -> Iterator[Episode]:
        """Return all or some episodes, as views of the arrays."""
        states, actions = self.read_arrays()
        known, starts = self.episodes.tolist(), starts_of(self.episodes["length"]).tolist()
        names, n_fields = outcome_names(self.episodes.dtype), len(EPISODE.names or ())
        for row in range(len(known)) if rows is None else rows:
            total, _, seed, terminated, truncated, steps = known[row][:n_fields]
            begin, end = starts[row : row + 2]
            moves = None if actions is None else actions[begin - row : end - row - 1]
            given = zip(names, known[row][n_fields:], strict=True)
            yield Episode(
                states[begin:end],
                moves,
                total,
                seed,
                terminated,
                truncated,
                steps,
                outcomes={name: value for name, value in given if not _is_unknown(value)},
            )

    @property
    def every(self) -> int:
        """Thinning: one state in k is kept, in pairs; 1 if all are."""
        return int(self.info.metadata.get("kept_every", 1))

    @property
    def times(self) -> NDArray[np.int64]:
        """The step of each state in its episode, from 0."""
        lengths = self.episodes["length"]
        starts = np.repeat(starts_of(lengths)[:-1], lengths)
        steps = np.repeat(self.episodes["steps"], lengths)
        rows = np.arange(len(starts)) - starts
        return row_times(rows, np.repeat(lengths, lengths), steps, self.every)

    def first(self, episodes: int) -> PolicyRecord:
        """Return the first episodes, without copying states."""
        return self if episodes >= len(self.episodes) else self.only(np.arange(episodes))

    def extended(self, more: PolicyRecord) -> PolicyRecord:
        """Append later episodes, after thinning these as those are."""
        episodes = [*self.thinned(more.every).as_episodes(), *more.as_episodes()]
        return record_of(more.info, episodes, more.every, more.read_policy())

    def thinned(self, every: int) -> PolicyRecord:
        """Keep one state in ``every``, or fewer if these are thinned more already."""
        if every <= self.every:
            return self
        factor, episodes = every // self.every, self.episodes.copy()
        episodes["length"] = kept_lengths(episodes["length"], factor)
        info = replace(self.info, metadata={**self.info.metadata, "kept_every": every})
        read = partial(_read_thinned, self.without_policy(), factor)
        return replace(self, info=info, episodes=episodes, read_arrays=read)

    def only(self, rows: NDArray[Any]) -> PolicyRecord:
        """Return some episodes; unless they are the first, states are copied on demand."""
        read = partial(_read_some, self.without_policy(), rows.tolist())
        return replace(self, episodes=self.episodes[rows], read_arrays=read)

    def loaded(self) -> PolicyRecord:
        """Return the record with its arrays in memory."""
        return replace(self, read_arrays=partial(_value, self.read_arrays()))

    def without_policy(self) -> PolicyRecord:
        """Return the record without the policy itself, which may be large or not picklable."""
        return replace(self, read_policy=partial(_value, None))


# Functions of a module, because records are sent to other processes.
def _value(value: Any) -> Any:
    return value


def _read_some(record: PolicyRecord, rows: list[int]) -> Arrays:
    if rows != list(range(len(rows))):
        return _concatenated(list(record.as_episodes(rows)))
    states, actions = record.read_arrays()
    end = int(record.episodes["length"][: len(rows)].sum())
    return states[:end], None if actions is None else actions[: end - len(rows)]


def _read_thinned(record: PolicyRecord, factor: int) -> Arrays:
    episodes = list(record.as_episodes())
    for episode in episodes:
        episode.thin(factor)
    return _concatenated(episodes)


def record_of(
    info: PolicyInfo, episodes: Sequence[Episode], every: int = 1, policy: Policy | None = None
) -> PolicyRecord:
    """Create the record of one policy from its episodes; the metadata say if they are thinned."""
    if every > 1:
        info = replace(info, metadata={**info.metadata, "kept_every": every})
    known = [
        (e.total_reward, len(e.states), e.seed, e.terminated, e.truncated, e.n_steps)
        for e in episodes
    ]
    table = with_outcomes(
        np.array(known, dtype=EPISODE), columns_of([episode.outcomes for episode in episodes])
    )
    return PolicyRecord.in_memory(info, table, _concatenated(episodes), policy)


def outcome_names(dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Return the fields of a table of episodes that are outcomes."""
    return tuple(name for name in dtype.names or () if name not in (EPISODE.names or ()))


def columns_of(rows: Sequence[Mapping[str, float | str]]) -> dict[str, list[Any]]:
    """Return one column per key; what a row lacks is None."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def with_outcomes(episodes: NDArray[Any], outcomes: Mapping[str, Sequence[Any]]) -> NDArray[Any]:
    """Add outcomes to a table of episodes; None is unknown, and truth values become 0 and 1."""
    if not outcomes:
        return episodes
    columns: dict[str, NDArray[Any]] = {}
    for name, values in outcomes.items():
        if name in {*(EPISODE.names or ()), "states", "actions", "network", ""}:
            raise UsageError(f"an outcome cannot be called {name!r}: choose another name")
        if len(values) != len(episodes):
            raise UsageError(
                f"the outcome {name!r} needs one value for each of {len(episodes)} episodes, but "
                f"has {len(values)}"
            )
        known = [value for value in values if value is not None]
        if any(isinstance(value, str) for value in known):
            columns[name] = np.array(
                ["" if value is None else str(value) for value in values], dtype=object
            )
            continue
        try:
            columns[name] = np.array(
                [np.nan if value is None else value for value in values], dtype=np.float64
            )
        except (TypeError, ValueError) as error:
            raise BadData(
                f"the outcome {name!r} must have a number or text per episode, but has "
                f"{str(known[0])[:80]}"
            ) from error
    fields = [*EPISODE.descr, *((name, values.dtype) for name, values in columns.items())]
    table = np.empty(len(episodes), dtype=fields)
    for name in EPISODE.names or ():
        table[name] = episodes[name]
    for name, column in columns.items():
        table[name] = column
    return table


def record_of_played(played: PlayedPolicy) -> PolicyRecord:
    """Create the record of a policy that was run, with the policy itself."""
    named = played.named
    return record_of(named.info, played.episodes, played.every, named.policy)


def _concatenated(episodes: Sequence[Episode]) -> Arrays:
    moves = [episode.actions for episode in episodes if episode.actions is not None]
    states = np.concatenate([episode.states for episode in episodes])
    return states, np.concatenate(moves) if moves else None


class VisitedStates:
    """The states that policies visited, in three levels: policies, episodes, states.

    Usually created by `pivec.collect`, `pivec.load` or `VisitedStates.from_arrays`. The states of
    each policy are one array, which may be memory-mapped on demand; selecting policies does not
    copy states.

    Parameters
    ----------
    records : sequence of PolicyRecord
        The data of each policy.
    feature_names : sequence of str
    environment : str

    Attributes
    ----------
    n_policies, n_episodes, n_states, n_features : int
    has_actions : bool
        Whether actions are stored.
    policies : tuple of PolicyInfo
        What is known about each policy; also as ``labels``, ``groups`` (runs) and ``steps``.
    policy_starts : (n_policies + 1,) int array
        Where each policy starts, counted in episodes.
    state_starts : (n_policies + 1,) int array
        Where each policy starts, counted in states.
    episode_starts : (n_episodes + 1,) int array
        Where each episode starts, counted in states of all policies.
    lengths : (n_episodes,) int array
        States in each episode.
    episode_steps : (n_episodes,) int array
        Steps that were taken in each episode, also where not all of its states are kept.
    returns, seeds, terminated, truncated : (n_episodes,) arrays
    outcomes : dict of (n_episodes,) arrays
        Other numbers (NaN where unknown) or texts (empty where unknown) per episode, by name.

    Examples
    --------
    >>> walks = [[np.zeros((3, 2)), np.ones((2, 2))], [np.full((4, 2), 0.5)]]
    >>> data = VisitedStates.from_arrays(walks, labels=["still", "half"])
    >>> data
    VisitedStates(2 policies, 3 episodes, 9 states of 2 features)
    >>> data["half"].states.shape
    (4, 2)
    """

    def __init__(
        self,
        records: Sequence[PolicyRecord],
        feature_names: Sequence[str],
        environment: str = "",
    ) -> None:
        self.records = tuple(records)
        self.policies = tuple(record.info for record in self.records)
        self.labels = tuple(info.label for info in self.policies)
        self.groups = tuple(info.group for info in self.policies)
        self.steps = tuple(info.step for info in self.policies)
        self.feature_names = tuple(feature_names)
        self.environment = environment
        self.has_actions = all(record.has_actions for record in self.records)
        self._flat: NDArray[np.float32] | None = None  # all states, once they were asked for
        episodes = {
            name: np.concatenate([record.episodes[name] for record in self.records])
            for name in EPISODE.names or ()
        }
        self.lengths, self.returns, self.seeds, self.terminated, self.truncated = (
            _read_only(episodes[name])
            for name in ("length", "return", "seed", "terminated", "truncated")
        )
        self.episode_steps = _read_only(episodes["steps"])
        self.episode_starts = _read_only(starts_of(self.lengths))
        counts = [len(record.episodes) for record in self.records]
        self.policy_starts = _read_only(starts_of(counts))
        self.state_starts = _read_only(self.episode_starts[self.policy_starts])
        self.n_policies, self.n_features = len(self.records), len(self.feature_names)
        self.n_episodes, self.n_states = len(self.lengths), int(self.episode_starts[-1])
        check_unique(self.labels)
        self._index = {label: i for i, label in enumerate(self.labels)}
        for i, info in enumerate(self.policies):
            for name in other_names(info):
                self._index.setdefault(name, i)

    @classmethod
    def from_arrays(
        cls,
        policies: Mapping[str, Sequence[ArrayLike]] | Sequence[Sequence[ArrayLike]],
        labels: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        returns: Sequence[ArrayLike] | None = None,
        *,
        steps: Sequence[int | None] | None = None,
        actions: Sequence[Sequence[ArrayLike]] | None = None,
        feature_names: Sequence[str] | None = None,
        environment: str = "",
        outcomes: Mapping[str, Sequence[Sequence[float | str | None]]] | None = None,
    ) -> VisitedStates:
        """Build from plain arrays; nothing is simulated.

        Parameters
        ----------
        policies : sequence or dict of sequences of (n_steps, n_features) arrays
            The list of episodes of each policy; the keys of a dict are labels.
        labels, groups : sequences of str, optional
            A unique name and a training run for each policy.
        returns : sequence of sequences of float, optional
            The returns of the episodes of each policy, or one number for all of them.
        steps : sequence of int or None, optional
            The training step of each policy.
        actions : as ``policies``, optional
            One action fewer than states in each episode.
        feature_names : sequence of str, optional
        environment : str
        outcomes : dict of sequences of sequences of float or str, optional
            By name, what the episodes of each policy resulted in, such as success or a score.
        """
        if isinstance(policies, Mapping):
            if labels is not None:
                raise UsageError("the keys of the dict are labels already: omit labels")
            labels, policies = list(policies), list(policies.values())
        n = len(policies)
        if n == 0:
            raise BadData("expected at least one policy, but the list is empty")
        given = {"labels": labels, "groups": groups, "returns": returns, "steps": steps}
        for name, values in (given | {"actions": actions} | dict(outcomes or {})).items():
            if values is not None and len(values) != n:
                raise UsageError(
                    f"{name} needs one entry for each of {n} policies, but has {len(values)}"
                )
        labels = [f"policy-{i}" for i in range(n)] if labels is None else list(map(str, labels))
        width = np.shape(policies[0][0])[-1:] if len(policies[0]) else ()
        for label, episodes in zip(labels, policies, strict=True):
            _check_shapes(episodes, label, width)
        whole = [np.asarray(episode) for episodes in policies for episode in episodes]
        offsets = lost_offsets(whole)
        for column, offset in offsets.items():  # they are copies in double precision then
            whole = [rows - np.where(np.arange(*width) == column, offset, 0.0) for rows in whole]
        flat = np.concatenate(whole, dtype=np.float32, casting="unsafe")
        flat.flags.writeable = False
        records = []
        begin = 0
        for i, (label, episodes) in enumerate(zip(labels, policies, strict=True)):
            rows = np.zeros(len(episodes), dtype=EPISODE)
            rows["length"], rows["seed"] = [np.shape(episode)[0] for episode in episodes], -1
            rows["steps"] = rows["length"] - 1
            total = np.asarray(np.nan if returns is None else returns[i], dtype=np.float64)
            if total.shape not in ((), rows.shape):
                raise UsageError(
                    f"returns of {label} must be one number, or one for each of its {len(rows)} "
                    f"episodes, but have shape {total.shape}"
                )
            rows["return"] = total
            own = {name: values[i] for name, values in (outcomes or {}).items()}
            moves = None if actions is None else _actions(actions[i], label, rows["length"])
            states = flat[begin : begin + int(rows["length"].sum())]
            begin += len(states)
            group = "" if groups is None else str(groups[i])
            step = None if steps is None else steps[i]
            table = with_outcomes(rows, own)
            digest = content_digest(table, states, moves)
            info = PolicyInfo(label, group, None if step is None else int(step), fingerprint=digest)
            records.append(PolicyRecord.in_memory(info, table, (states, moves)))
            if not np.isfinite(states).all():
                for number, episode in enumerate(records[-1].as_episodes()):
                    check_finite(episode.states, f"episode {number} of {label}")
        data = cls(records, offset_names(names_of(feature_names, *width), offsets), environment)
        data._flat = flat
        return data

    @classmethod
    @takes_options(TableOptions)
    def from_pandas(cls, frame: Any, *, environment: str = "", **columns: Any) -> VisitedStates:
        """Build from a table with one row per state: a pandas or polars DataFrame, a pyarrow Table.

        Columns are found by name: ``policy`` (or label, agent), ``group``, ``training_step``,
        ``episode``, ``step`` (or time, t), ``return`` or ``reward``, ``seed``, ``terminated``,
        ``truncated``, ``action`` (action_0, ...); the other numeric columns are features.

        Parameters
        ----------
        frame : DataFrame or Table
        environment : str

        Returns
        -------
        VisitedStates

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"agent": list("aab"), "t": [0, 1, 0], "x": [0.0, 0.5, 1.0]})
        >>> VisitedStates.from_pandas(table)
        VisitedStates(2 policies, 2 episodes, 3 states of 1 features)
        """
        from pivec.states.readers import table_of, table_policies
        from pivec.states.recorded import RecordedStates

        sources = table_policies(table_of(frame), TableOptions(**columns))
        return RecordedStates(sources, environment=environment).run()

    def __len__(self) -> int:
        return self.n_policies

    def __repr__(self) -> str:
        where = f" of {self.environment}" if self.environment else ""
        return (
            f"VisitedStates({self.n_policies} policies, {self.n_episodes} episodes, "
            f"{self.n_states} states{where} of {self.n_features} features)"
        )

    def _repr_html_(self) -> str:
        """Show the first policies in a notebook; all text is escaped."""
        counts = np.diff(self.policy_starts), np.diff(self.state_starts), self.mean_returns
        return policies_table(repr(self), self.policies, *counts, '.to_pandas("policies")')

    @property
    def mean_returns(self) -> NDArray[np.float64]:
        """Mean return of each policy; NaN where returns are unknown."""
        sums = np.add.reduceat(self.returns, self.policy_starts[:-1])
        return np.asarray(sums / np.diff(self.policy_starts))

    @cached_property
    def outcomes(self) -> Mapping[str, NDArray[Any]]:
        """What episodes resulted in besides their returns; see the class."""
        tables = [record.episodes for record in self.records]
        names = dict.fromkeys(name for table in tables for name in outcome_names(table.dtype))
        columns = {}
        for name in names:
            parts: list[NDArray[Any]] = [
                table[name] if name in (table.dtype.names or ()) else np.full(len(table), np.nan)
                for table in tables
            ]
            if any(part.dtype == object for part in parts):  # numbers become texts as well
                parts = [part if part.dtype == object else _texts(part) for part in parts]
            columns[name] = _read_only(np.concatenate(parts))
        return columns

    # ---- states ----

    @property
    def states(self) -> NDArray[np.float32]:
        """All states in one array, (n_states, n_features) float32, C-contiguous, read-only.

        Data mapped from several files are copied into memory the first time.
        """
        if self._flat is None:
            flat = np.ascontiguousarray(self.rows(0, self.n_states))
            flat.flags.writeable = False
            self._flat = flat
        return self._flat

    @property
    def actions(self) -> NDArray[Any] | None:
        """All actions in one array, one fewer than states per episode; None if not kept."""
        if not self.has_actions:
            return None
        pieces = [record.read_arrays()[1] for record in self.records]
        return np.concatenate([actions for actions in pieces if actions is not None])

    def policy(self, number: int) -> Policy:
        """Return one policy itself, for characterizations that query it or use its parameters."""
        policy = self.records[number].read_policy()
        if policy is None:
            raise UsageError(
                f"the policy {self.labels[number]!r} itself is not kept with its states: collect "
                "with --keep-policies (from Python keep_policies=True); only networks can be kept"
            )
        return policy

    def policy_states(self, policy: int) -> NDArray[np.float32]:
        """Return the states of one policy, without touching those of the others."""
        return self.records[policy].read_arrays()[0]

    def episodes(self) -> Iterator[NDArray[np.float32]]:
        """Iterate over the states of one episode after another."""
        for record in self.records:
            states = record.read_arrays()[0]
            for begin, end in pairwise(starts_of(record.episodes["length"]).tolist()):
                yield states[begin:end]

    def blocks(self, rows: int) -> Iterator[NDArray[np.float32]]:
        """Iterate over all states in blocks of ``rows``, in order; the last may be smaller."""
        return (self.rows(first, first + rows) for first in range(0, self.n_states, rows))

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """Return the states ``first`` to ``last - 1``, or to the end, touching no others.

        States of one policy are a view; those of several are copied.
        """
        if self._flat is not None:
            return self._flat[first:last]
        starts = self.state_starts
        pieces = [
            self.policy_states(policy)[max(first - starts[policy], 0) : last - starts[policy]]
            for policy in range(*overlapping(starts, first, min(last, self.n_states)))
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def take(self, rows: ArrayLike) -> NDArray[np.float32]:
        """Return single states by their sorted numbers, (n, n_features)."""
        wanted = np.asarray(rows, dtype=np.int64)
        if self._flat is not None:
            return self._flat[wanted]
        starts = self.state_starts
        cuts = np.searchsorted(wanted, starts)
        result = np.empty((len(wanted), self.n_features), dtype=np.float32)
        for policy in np.flatnonzero(np.diff(cuts)).tolist():
            mine = slice(cuts[policy], cuts[policy + 1])
            result[mine] = self.policy_states(policy)[wanted[mine] - starts[policy]]
        return result

    def to_pandas(self, level: str = "states") -> Any:
        """Return a pandas DataFrame with one row per state, episode or policy.

        ``level`` is "states", "episodes" or "policies". The row of a state also has policy, group,
        training step, episode, step, and the action taken in it if actions are kept.
        """
        from pivec.states.export import to_pandas

        return to_pandas(self, level)

    # ---- parts ----

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the array of all states: the records have them, or read them from their files.
        return VisitedStates, (self.records, self.feature_names, self.environment)

    def without_policies(self) -> VisitedStates:
        """Return the data without the policies themselves, as sent to other processes."""
        records = [record.without_policy() for record in self.records]
        return VisitedStates(records, self.feature_names, self.environment)

    def in_memory(self) -> VisitedStates:
        """Read all states into memory, once, for algorithms that visit them many times."""
        records = [record.loaded() for record in self.records]
        return VisitedStates(records, self.feature_names, self.environment)

    def __getitem__(self, key: int | str | slice) -> VisitedStates:
        """Return one policy by number or label, or several by a slice."""
        if isinstance(key, slice):
            return self.select(np.arange(self.n_policies)[key])
        return self.select([self._number(key)])

    def select(
        self,
        policies: Sequence[int | str] | NDArray[Any] | None = None,
        *,
        groups: str | Sequence[str] | None = None,
    ) -> VisitedStates:
        """Select policies by numbers, labels or a mask, or all those of some groups.

        Examples
        --------
        >>> data = VisitedStates.from_arrays([[[[0.0]]], [[[1.0]]]], groups=["a", "b"])
        >>> data.select(groups="b").states
        array([[1.]], dtype=float32)
        """
        chosen = list(range(self.n_policies))
        if policies is not None:
            array = np.asarray(policies)
            if array.dtype != bool:
                chosen = [self._number(key) for key in array.tolist()]
            elif array.shape == (self.n_policies,):
                chosen = np.flatnonzero(array).tolist()
            else:
                raise UsageError(
                    f"a mask needs one value for each of the {self.n_policies} policies, but has "
                    f"shape {array.shape}"
                )
        if groups is not None:
            wanted, known = {groups} if isinstance(groups, str) else set(groups), set(self.groups)
            if unknown := sorted(wanted - known):
                raise UsageError(
                    f"no policy is in the group {unknown[0]!r}; there are "
                    + ", ".join(map(repr, sorted(known)[:8]))
                )
            chosen = [i for i in chosen if self.groups[i] in wanted]
        if not chosen:
            raise UsageError("no policy is left: select at least one")
        records = [self.records[i] for i in chosen]
        return VisitedStates(records, self.feature_names, self.environment)

    def sample_episodes(
        self, n: int, rng: np.random.Generator, *, at_most: bool = False
    ) -> VisitedStates:
        """Draw ``n`` episodes of every policy at random, without replacement.

        A policy that has fewer is an error, or with ``at_most`` keeps all it has.

        Examples
        --------
        >>> data = VisitedStates.from_arrays([[[[0.0]], [[1.0]], [[2.0]]]])
        >>> data.sample_episodes(2, np.random.default_rng(0)).n_episodes
        2
        """
        counts = np.diff(self.policy_starts)
        if n < 1 or (n > counts.min() and not at_most):
            fewest = int(counts.argmin())
            raise UsageError(
                f"cannot draw {n} episodes of every policy: {self.labels[fewest]!r} has "
                f"{counts[fewest]}; choose 1 to {counts.min()}"
            )
        records = [
            record.only(np.sort(rng.choice(count, size=min(n, count), replace=False)))
            for record, count in zip(self.records, counts, strict=True)
        ]
        return VisitedStates(records, self.feature_names, self.environment)

    def _number(self, key: int | str) -> int:
        if isinstance(key, str):
            label = printable(key)
            if label not in self._index:
                raise UsageError(f"there is no policy {key!r}: see `labels`")
            return self._index[label]
        number = int(key)
        if not -self.n_policies <= number < self.n_policies:
            raise IndexError(f"policy {number} of {self.n_policies}")
        return number % self.n_policies


def check_states(thing: Any, *others: type) -> None:
    """Raise an error if something is not `VisitedStates`, and say how to create them."""
    if isinstance(thing, (VisitedStates, *others)):
        return
    way = 'VisitedStates.from_arrays({"label": [states of an episode, ...]})'
    if hasattr(thing, "columns") or hasattr(thing, "column_names"):
        way = "VisitedStates.from_pandas(frame)"
    elif isinstance(thing, str | os.PathLike):
        way = "pivec.load(path), or from a table with `pivec import`"
    kind = type(thing).__name__
    expected = " or ".join(["VisitedStates", *(other.__name__ for other in others)])
    raise UsageError(f"expected {expected}, but got {kind}: create them with {way}")


def starts_of(lengths: Any) -> NDArray[np.int64]:
    """Return where consecutive pieces of these lengths start; the last number is their sum."""
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def overlapping(starts: NDArray[np.int64], first: int, last: int) -> tuple[int, int]:
    """Return the range of pieces that have rows from ``first`` to ``last - 1``."""
    begin = int(np.searchsorted(starts, first, side="right")) - 1
    return begin, int(np.searchsorted(starts, last, side="left"))


def names_of(given: Sequence[str] | None, width: int, letter: str = "x") -> tuple[str, ...]:
    """Return the given names of features, or numbered ones."""
    names = [f"{letter}[{i}]" for i in range(width)] if given is None else given
    if len(names) != width:
        raise UsageError(f"feature_names needs {width} names, but has {len(names)}")
    return tuple(map(str, names))


def check_unique(labels: Sequence[str]) -> None:
    """Check that no two policies have the same label."""
    if twice := [label for label, count in Counter(labels).items() if count > 1]:
        raise UsageError(
            f"two policies are named {twice[0]!r}: give one of them another name (from Python "
            "with a dict), or move its file"
        )


def check_finite(states: NDArray[Any], episode: str, names: Sequence[str] | None = None) -> None:
    """Check that states are finite; ``episode`` says in errors which one they belong to."""
    if np.isfinite(states).all():
        return
    step, column = np.argwhere(~np.isfinite(states))[0]
    raise BadData(
        f"step {step} of {episode} has {states[step, column]} in feature "
        f"{feature_text(column, names)}, but states must be finite (within float32): remove or "
        "correct it"
    )


def feature_text(column: int, names: Sequence[str] | None) -> str:
    """Return the name of a feature, or its number."""
    return str(column) if names is None else repr(names[column])


def lost_offsets(episodes: Iterable[ArrayLike]) -> Offsets:
    """Find features so far from zero that float32 would lose their spread."""
    low, high = np.array(np.inf), np.array(-np.inf)
    for episode in episodes:
        rows = np.asarray(episode)
        if not is_wide(rows.dtype) or not len(rows):
            return {}
        low, high = np.minimum(low, rows.min(axis=0)), np.maximum(high, rows.max(axis=0))
    return lost_features(low, high) if np.isfinite([low, high]).all() else {}


def content_digest(episodes: NDArray[Any], states: NDArray[Any], moves: NDArray[Any] | None) -> str:
    """Return a digest of all that is known about a policy: the fingerprint of recorded states."""
    digest = hashlib.sha256()
    for array in (episodes["length"], episodes["return"], states, moves):
        if array is not None:
            digest.update(f"{array.dtype} {array.shape} ".encode())
            digest.update(np.ascontiguousarray(array).data)
    for name in outcome_names(episodes.dtype):
        digest.update(repr((name, episodes[name].tolist())).encode())
    return digest.hexdigest()


def _check_shapes(episodes: Sequence[ArrayLike], label: str, width: tuple[int, ...]) -> None:
    if not len(episodes):
        raise BadData(f"{label} has no episodes: give each policy at least one")
    for number, shape in enumerate(map(np.shape, episodes)):
        if len(shape) != 2 or 0 in shape or shape[1:] != width:
            features = width[0] if width else "n_features"
            raise BadData(
                f"episode {number} of {label} must be an array of shape (n_steps, {features}) that "
                f"is not empty, but has shape {shape}"
            )


def _actions(episodes: Sequence[ArrayLike], label: str, lengths: NDArray[Any]) -> NDArray[Any]:
    arrays = list(map(np.asarray, episodes))
    counts, wanted = [len(array) for array in arrays], (lengths - 1).tolist()
    if counts != wanted:
        raise BadData(
            f"{label} needs one action fewer than states in each episode ({wanted[:5]}...), but "
            f"has {counts[:5]}"
        )
    return np.concatenate(arrays)


def _is_unknown(value: float | str) -> bool:
    return not value if isinstance(value, str) else math.isnan(value)


def _texts(numbers: NDArray[Any]) -> NDArray[Any]:
    texts = ["" if _is_unknown(number) else f"{number:.15g}" for number in numbers.tolist()]
    return np.array(texts, dtype=object)


def _read_only(values: NDArray[Any]) -> NDArray[Any]:
    array = values.copy()
    array.flags.writeable = False
    return array
