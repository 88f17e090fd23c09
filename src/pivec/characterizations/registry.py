"""The names of all characterizations, and making one by its name."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pivec.arguments import check_arguments
from pivec.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from pivec.characterizations.base import Characterization

# name -> "module:class", imported when it is asked for
_REGISTRY = {
    "visitation": "pivec.characterizations.background:Visitation",
    "supervector": "pivec.characterizations.background:Supervector",
    "gaussian": "pivec.characterizations.distributions:Gaussian",
    "discretization": "pivec.characterizations.discretization:Discretization",
    "mmd": "pivec.characterizations.distributions:MMD",
    "sliced-wasserstein": "pivec.characterizations.distributions:SlicedWasserstein",
    "transitions": "pivec.characterizations.discretization:Transitions",
    "trajectories": "pivec.characterizations.episodes:Trajectories",
    "terminal-state": "pivec.characterizations.episodes:TerminalState",
    "returns": "pivec.characterizations.episodes:Returns",
    "actions": "pivec.characterizations.policies:Actions",
    "parameters": "pivec.characterizations.policies:Parameters",
    "discriminator": "pivec.characterizations.networks:Discriminator",
    "encoder": "pivec.characterizations.encoder:PolicyEncoder",
    "skill-discriminator": "pivec.characterizations.networks:SkillDiscriminator",
    "trajectory-encoder": "pivec.characterizations.encoder:TrajectoryEncoder",
    "state-actions": "pivec.characterizations.networks:StateActions",
}


def names() -> tuple[str, ...]:
    """Names of all characterizations.

    Examples
    --------
    >>> "supervector" in names()
    True
    """
    return tuple(_REGISTRY)


def characterization(name: str, **parameters: Any) -> Characterization:
    """Make a characterization by name.

    Examples
    --------
    >>> characterization("supervector", n_components=4, random_state=0)
    Supervector(n_components=4)
    """
    if name not in _REGISTRY:
        hint = did_you_mean(name, _REGISTRY)
        raise UsageError(
            f"no characterization is called {name!r}{hint}; there are {', '.join(_REGISTRY)}"
        )
    module, _, attribute = _REGISTRY[name].partition(":")
    cls = getattr(importlib.import_module(module), attribute)
    known = cls._get_param_names()
    for given in parameters:
        if given not in known:
            hint, takes = did_you_mean(given, known), ", ".join(known) or "none"
            raise UsageError(f"{name} has no argument {given!r}{hint}; it takes {takes}")
    made: Characterization = cls(**parameters)
    check_arguments(made)
    return made
