"""VisitedStates: the states of many policies, cut into episodes; immutable, never copied twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.errors import UsageError
from pivec.options import TableOptions
from pivec.policies import Policy, other_names
from pivec.results import policies_table
from pivec.states.record import PolicyRecord, check_unique, overlapping, starts_of

# -----------------------------------------------------------------------------
# Which policies of many are meant: by numbers, labels, a mask or their groups.


_NAMED = 8  # groups that an error names


def chosen_policies(
    number: Callable[[Any], int],
    known: Sequence[str],
    policies: Sequence[int | str] | NDArray[Any] | None,
    groups: str | Sequence[str] | None,
) -> NDArray[np.intp]:
    """Give the numbers of policies; ``number`` gives that of a label, ``known`` has all groups."""
    chosen = np.arange(len(known))
    if policies is not None:
        array = np.asarray(policies)
        if array.dtype == bool:
            if array.shape != (len(known),):
                raise UsageError(
                    f"a mask needs one value for each of the {len(known)} policies, but has shape "
                    f"{array.shape}"
                )
            chosen = np.flatnonzero(array)
        else:
            chosen = np.array([number(key) for key in array.tolist()], dtype=np.intp)
    if groups is not None:
        wanted = {groups} if isinstance(groups, str) else set(groups)
        unknown = wanted - set(known)
        if unknown:
            raise UsageError(
                f"no policy is of group {sorted(unknown)[0]!r}; there are "
                + ", ".join(repr(group) for group in sorted(set(known))[:_NAMED])
            )
        chosen = np.array([i for i in chosen.tolist() if known[i] in wanted], dtype=np.intp)
    if not len(chosen):
        raise UsageError("no policy is left: select at least one")
    return chosen


class VisitedStates:
    """The states that policies visited, in three levels: policies, episodes, states.

    Usually made by `pivec.collect`, `pivec.load` or `VisitedStates.from_arrays`. The states of
    one policy lie in one array, which may be mapped from a file that is opened when it is needed;
    picking policies copies nothing.

    Parameters
    ----------
    records : sequence of PolicyRecord
        All that is kept of each policy.
    feature_names : sequence of str
    environment : str
    states : (n_states, n_features) float32 array, optional
        All states, where the records' are views of one array.

    Attributes
    ----------
    n_policies, n_episodes, n_states, n_features : int
        An episode belongs to a policy, a state to an episode; it has that many features.
    has_actions : bool
        Whether actions are kept.
    policies : tuple of PolicyInfo
        What is known of each policy; from it ``labels``, ``groups`` (runs) and ``steps``.
    policy_starts : (n_policies + 1,) int array
        Where each policy begins, counted in episodes.
    state_starts : (n_policies + 1,) int array
        Where each policy begins, counted in states.
    episode_starts : (n_episodes + 1,) int array
        Where each episode begins, counted in states over all policies; the last is their number.
    lengths : (n_episodes,) int array
        States in each episode.
    returns, seeds, terminated, truncated : (n_episodes,) arrays

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
        *,
        states: NDArray[np.float32] | None = None,
    ) -> None:
        self.records = tuple(records)
        self.policies = tuple(record.info for record in self.records)
        self.labels = tuple(info.label for info in self.policies)
        self.groups = tuple(info.group for info in self.policies)
        self.steps = tuple(info.step for info in self.policies)
        self.feature_names = tuple(feature_names)
        self.environment = environment
        self.has_actions = all(record.has_actions for record in self.records)
        self._flat = states
        episodes = np.concatenate([record.episodes for record in self.records])
        self.lengths = _frozen(episodes["length"])
        self.returns = _frozen(episodes["return"])
        self.seeds = _frozen(episodes["seed"])
        self.terminated = _frozen(episodes["terminated"])
        self.truncated = _frozen(episodes["truncated"])
        self.episode_starts = _frozen(starts_of(self.lengths))
        self.policy_starts = _frozen(starts_of([len(record.episodes) for record in self.records]))
        self.state_starts = _frozen(self.episode_starts[self.policy_starts])
        self.n_policies, self.n_features = len(self.records), len(self.feature_names)
        self.n_episodes, self.n_states = len(episodes), int(self.episode_starts[-1])
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
    ) -> VisitedStates:
        """Build from plain arrays, with nothing to run.

        Parameters
        ----------
        policies : sequence or dict of sequences of (n_steps, n_features) arrays
            For each policy the list of its episodes; the keys of a dict are labels.
        labels, groups : sequences of str, optional
            A name (unique) and a run for each policy.
        returns : sequence of sequences of float, optional
            For each policy the returns of its episodes, or one number for all of them.
        steps : sequence of int or None, optional
            The training step of each policy.
        actions : as ``policies``, optional
            One action fewer than states in each episode.
        feature_names : sequence of str, optional
        environment : str
        """
        from pivec.states.arrays import from_arrays

        return from_arrays(
            policies, labels, groups, returns, steps, actions, feature_names, environment
        )

    @classmethod
    def from_pandas(cls, frame: Any, *, environment: str = "", **columns: Any) -> VisitedStates:
        """Build from a table with a row a state: a pandas or polars DataFrame, a pyarrow Table.

        Columns are found by name: ``policy`` (or label, agent), ``group``, ``training_step``,
        ``episode``, ``step`` (or time, t), ``return`` or ``reward``, ``seed``, ``terminated``,
        ``truncated``, ``action`` (action_0, ...); the other numbers are features.

        Parameters
        ----------
        frame : DataFrame or Table
        environment : str
        **columns
            Fields of `pivec.options.TableOptions`, where names do not tell:
            ``policy_column="who"``, ``feature_columns=["x", "y"]``, ``episode_length=50``.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"agent": list("aab"), "t": [0, 1, 0], "x": [0.0, 0.5, 1.0]})
        >>> VisitedStates.from_pandas(table)
        VisitedStates(2 policies, 2 episodes, 3 states of 1 features)
        """
        from pivec.states.recorded import Recordings
        from pivec.states.tables import recorded_of, table_of

        sources = recorded_of(table_of(frame), TableOptions(**columns))
        return Recordings(sources, environment=environment).run()

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
        """Mean return of each policy; NaN where returns are not known."""
        sums = np.add.reduceat(self.returns, self.policy_starts[:-1])
        return np.asarray(sums / np.diff(self.policy_starts))

    # ---- states ----

    @property
    def states(self) -> NDArray[np.float32]:
        """All states in one array, (n_states, n_features) float32, C-contiguous, read-only.

        Data mapped from several files are copied into memory the first time.
        """
        if self._flat is None:
            pieces = [record.read_arrays()[0] for record in self.records]
            flat = np.ascontiguousarray(_one_array(pieces))
            flat.flags.writeable = False
            self._flat = flat
        return self._flat

    @property
    def actions(self) -> NDArray[Any] | None:
        """All actions in one array, one fewer an episode than states; None if not kept."""
        if not self.has_actions:
            return None
        pieces = [record.read_arrays()[1] for record in self.records]
        return np.concatenate([actions for actions in pieces if actions is not None])

    def policy(self, number: int) -> Policy:
        """Return one policy itself, for descriptions that ask it or look at its parameters."""
        policy = self.records[number].read_policy()
        if policy is None:
            raise UsageError(
                f"the policy {self.labels[number]!r} itself is not kept with its states: collect "
                "with --policies (from Python keep_policies=True); only networks can be kept"
            )
        return policy

    def policy_states(self, policy: int) -> NDArray[np.float32]:
        """States of one policy, without touching those of the others."""
        return self.records[policy].read_arrays()[0]

    def episodes(self) -> Iterator[NDArray[np.float32]]:
        """Go through the states of one episode after another."""
        for record in self.records:
            states = record.read_arrays()[0]
            for begin, end in pairwise(starts_of(record.episodes["length"]).tolist()):
                yield states[begin:end]

    def blocks(self, rows: int) -> Iterator[NDArray[np.float32]]:
        """Go through all states in blocks of ``rows``, in order; the last may be smaller."""
        return (self.rows(first, first + rows) for first in range(0, self.n_states, rows))

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """States ``first`` to ``last - 1``, or to the end, touching none of the others.

        States inside one policy are a view; of small policies they are put together.
        """
        if self._flat is not None:
            return self._flat[first:last]
        starts = self.state_starts
        return _one_array(
            [
                self.policy_states(policy)[max(first - starts[policy], 0) : last - starts[policy]]
                for policy in range(*overlapping(starts, first, min(last, self.n_states)))
            ]
        )

    def take(self, rows: ArrayLike) -> NDArray[np.float32]:
        """Take single states by their sorted numbers, (n, n_features)."""
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
        """Return a pandas DataFrame of one row for each of the "states", "episodes" or "policies".

        Beside the values of a state its row names policy, group, training step, episode and step,
        and the action taken in it, where actions are kept.
        """
        from pivec.states.export import to_pandas

        return to_pandas(self, level)

    # ---- smaller ones ----

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the array of all states: the records have them, or read them from their files.
        return VisitedStates, (self.records, self.feature_names, self.environment)

    def without_policies(self) -> VisitedStates:
        """Give the same data without the policies themselves: what other processes can be sent."""
        records = [record.without_policy() for record in self.records]
        return VisitedStates(records, self.feature_names, self.environment, states=self._flat)

    def __getitem__(self, key: int | str | slice) -> VisitedStates:
        """One policy by number or label (or another name it has), or several by a slice."""
        if isinstance(key, slice):
            return self.select(np.arange(self.n_policies)[key])
        return self.select([self._number(key)])

    def select(
        self,
        policies: Sequence[int | str] | NDArray[Any] | None = None,
        *,
        groups: str | Sequence[str] | None = None,
    ) -> VisitedStates:
        """Pick policies, by numbers, labels or a mask, or all those of some groups.

        Examples
        --------
        >>> data = VisitedStates.from_arrays([[[[0.0]]], [[[1.0]]]], groups=["a", "b"])
        >>> data.select(groups="b").states
        array([[1.]], dtype=float32)
        """
        chosen = chosen_policies(self._number, self.groups, policies, groups)
        records = [self.records[i] for i in chosen]
        return VisitedStates(records, self.feature_names, self.environment)

    def sample_episodes(
        self, n: int, rng: np.random.Generator, *, at_most: bool = False
    ) -> VisitedStates:
        """Draw ``n`` episodes of every policy at random, without putting back.

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
                f"{counts[fewest]}; ask for 1 to {counts.min()}"
            )
        records = [
            record.only(np.sort(rng.choice(count, size=min(n, count), replace=False)))
            for record, count in zip(self.records, counts, strict=True)
        ]
        return VisitedStates(records, self.feature_names, self.environment)

    def _number(self, key: int | str) -> int:
        if isinstance(key, str):
            if key not in self._index:
                raise UsageError(f"no policy is called {key!r}: see `labels`")
            return self._index[key]
        number = int(key)
        if not -self.n_policies <= number < self.n_policies:
            raise IndexError(f"policy {number} of {self.n_policies}")
        return number % self.n_policies


def _one_array(pieces: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _frozen(values: NDArray[Any]) -> NDArray[Any]:
    array = values.copy()
    array.flags.writeable = False
    return array
