"""Going through states in parts, which are cut by the data alone, wherever the engine has workers.

A part is a range of rows or of policies; what goes back and forth are its numbers and what comes
of it. The states themselves are read where the part is worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.engines.engine import Engine, current, make_engine
from pivec.states.visited import VisitedStates

Span = tuple[int, int]
_VALUES = 1 << 23  # float32 numbers of a run of policies: 32 MB


@dataclass(frozen=True)
class Sent:
    """Something to read states from, which goes to other processes without the policies.

    Data of a store are the paths of its files then, and others are sent whole.
    """

    source: Any

    def __reduce__(self) -> tuple[Any, ...]:
        strip = getattr(self.source, "without_policies", lambda: self.source)
        return Sent, (strip(),)


def engine_for(parts: Sequence[Any]) -> Engine:
    """Give the engine for these parts: a single one is not worth the way to another process."""
    return current() if len(parts) > 1 else make_engine("serial")


def over_policies(
    function: Callable[..., Any],
    data: VisitedStates,
    *arguments: Any,
    runs: Sequence[Span] | None = None,
) -> Iterator[Any]:
    """Give ``function(run, *arguments)`` for one run of policies after another.

    ``runs`` are the first and the last policy, less one, of each; by default they have about 32 MB
    of states. The function is at the top level of a module.
    """
    most = max(1, _VALUES // data.n_features)
    parts = runs_of(data.state_starts, most) if runs is None else runs
    engine = engine_for(parts)
    shared = engine.share(Sent(data)), engine.share(arguments)
    return engine.in_order(_over_run, parts, function, *shared)


def _over_run(
    run: Span, function: Callable[..., Any], sent: Sent, arguments: tuple[Any, ...]
) -> Any:
    return function(sent.source.select(range(*run)), *arguments)


def runs_of(starts: NDArray[np.int64], most: int) -> list[Span]:
    """Cut policies, which begin at ``starts``, into runs of at most so much, or of one policy.

    Examples
    --------
    >>> runs_of(np.array([0, 3, 5, 20, 22]), 6)
    [(0, 2), (2, 3), (3, 4)]
    """
    runs: list[Span] = []
    first = 0
    while first < len(starts) - 1:
        last = int(np.searchsorted(starts, starts[first] + most, side="right")) - 1
        runs.append((first, max(last, first + 1)))
        first = runs[-1][1]
    return runs
