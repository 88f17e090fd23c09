"""Which policies of many are meant: by numbers, labels, a mask or their groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError

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
