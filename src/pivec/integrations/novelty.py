"""The archive of novelty search: behaviours met so far, and how new others are beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.arguments import Count, checked
from pivec.characterizations import Characterization, Descriptions, characterization
from pivec.errors import UsageError
from pivec.rollouts import split_arguments
from pivec.states import VisitedStates, joined

Float = NDArray[np.float64]


class BehaviourArchive:
    """Policies that were met, described by any characterization.

    Whenever policies join, the characterization is fitted anew on the states of all, and all are
    described anew: for supervectors that is the background model that grows with the archive.

    Parameters
    ----------
    behaviour : Characterization
    neighbours : int
        Novelty is the mean distance to so many nearest (Lehman and Stanley 2011); to all of the
        archive while it is smaller.

    Attributes
    ----------
    data : VisitedStates or None
        The states of all that joined, and ``descriptions`` how they are described now.

    Examples
    --------
    >>> from pivec.characterizations import characterization
    >>> at = lambda *places: VisitedStates.from_arrays(
    ...     [[np.full((2, 1), place)] for place in places], labels=[str(place) for place in places]
    ... )
    >>> archive = BehaviourArchive(characterization("terminal-state"), neighbours=2)
    >>> archive.add(at(0.0, 1.0, 5.0))
    >>> archive.novelty(at(0.5, 9.0)).tolist()
    [0.5, 6.0]
    """

    @checked
    def __init__(self, behaviour: Characterization, neighbours: Count = 10) -> None:
        self.behaviour, self.neighbours = behaviour, neighbours
        self.data: VisitedStates | None = None
        self.descriptions: Descriptions | None = None

    def __len__(self) -> int:
        return 0 if self.data is None else len(self.data)

    def add(self, data: VisitedStates) -> None:
        """Let the policies of ``data`` join; their labels must be new."""
        self.data = data if self.data is None else joined([self.data, data])
        self.behaviour.fit(self.data)
        self.descriptions = self.behaviour.describe(self.data)

    def novelty(self, policies: VisitedStates | Descriptions | list[int]) -> Float:
        """Give the mean distance of each policy to its nearest in the archive.

        Members of the archive, given by their numbers, count among their own nearest.
        """
        if self.descriptions is None:
            raise UsageError("the archive is empty, so nothing can be new beside it: add policies")
        if isinstance(policies, list):
            policies = self.descriptions.select(policies)
        distances = self.behaviour.distances(policies, self.descriptions)
        k = min(self.neighbours, len(self))
        return np.asarray(np.partition(distances, k - 1, axis=1)[:, :k].mean(axis=1))


def behaviour_named(text: str, defaults: dict[str, dict[str, Any]], seed: int) -> Characterization:
    """Make a characterization from its name, or as ``supervector{"n_components": 8}``.

    Where ``text`` does not say, arguments are the ``defaults`` of that name, and a random state is
    the seed.
    """
    name, given = split_arguments(text)
    made = characterization(name, **{**defaults.get(name, {}), **given})
    if "random_state" in made.get_params(deep=False) and "random_state" not in given:
        made.set_params(random_state=seed)
    return made


def behaviour_text(behaviour: Characterization) -> str:
    """Name a characterization so that `behaviour_named` makes the same one."""
    if not isinstance(behaviour, Characterization):
        raise UsageError(
            "behaviour must be a characterization or the name of one, but is "
            f"{type(behaviour).__name__}"
        )
    text = f"{behaviour.name}{behaviour.parameters_json()}"
    if type(behaviour_named(text, {}, 0)) is not type(behaviour):
        raise UsageError(
            f"{type(behaviour).__name__} is not what pivec knows as {behaviour.name!r}, so runs "
            "cannot name it: use NoveltySearch with the object itself"
        )
    return text
