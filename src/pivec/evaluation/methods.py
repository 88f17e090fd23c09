"""What is to be compared: characterizations by name, with parameters, or ready ones, labelled."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from pivec.characterizations.base import Characterization
from pivec.characterizations.registry import characterization, names
from pivec.errors import UsageError

Method = str | tuple[str, Mapping[str, Any]] | Characterization
ALL = "all"


@dataclass(frozen=True)
class Candidate:
    """A characterization to evaluate, with its name in tables and figures.

    The template is never fitted itself; ``seeded``: its random_state follows from the seed of the
    evaluation and the repetition.
    """

    label: str
    template: Characterization
    seeded: bool

    def make(self, random_state: int) -> Characterization:
        """Make a fresh one for one draw of the data."""
        made: Characterization = clone(self.template)
        known = made.get_params(deep=False)
        if "progress" in known:  # units draw no bars of their own
            made.set_params(progress=False)
        if self.seeded and "random_state" in known:
            made.set_params(random_state=random_state)
        return made


def candidates(
    methods: str | Sequence[Method] | Mapping[str, Method],
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[Candidate]:
    """Make every characterization that `evaluate` is asked for, with labels that differ.

    Examples
    --------
    >>> sweep = [("supervector", {"n_components": k}) for k in (4, 8)]
    >>> [candidate.label for candidate in candidates(["gaussian", *sweep])]
    ['gaussian', 'supervector n_components=4', 'supervector n_components=8']
    """
    if isinstance(methods, Mapping):
        labelled = {str(label): method for label, method in methods.items()}
        labels, given = list(labelled), list(labelled.values())
    else:
        wanted = [methods] if isinstance(methods, str | Characterization) else methods
        given = [method for item in wanted for method in (names() if item == ALL else (item,))]
        labels = [""] * len(given)
    if not given:
        raise UsageError("expected at least one characterization to evaluate, but got none")
    made = [_made(method, parameters or {}) for method in given]
    all_names = [template.name for template, _ in made]
    unused = sorted(set(parameters or {}) - set(all_names))
    if unused:
        raise UsageError(
            f"parameters are given for {unused[0]!r}, which is not among the methods "
            f"{', '.join(dict.fromkeys(all_names))}"
        )
    result = []
    for method, label, (template, chosen) in zip(given, labels, made, strict=True):
        name = template.name
        if all_names.count(name) > 1:
            name = " ".join([name, *(f"{key}={value}" for key, value in chosen.items())])
        # A ready characterization keeps the random_state it came with.
        seeded = "random_state" not in chosen and not isinstance(method, Characterization)
        result.append(Candidate(label or name, template, seeded))
    used = [candidate.label for candidate in result]
    for label in used:
        if used.count(label) > 1:
            raise UsageError(
                f"two methods are called {label!r}: leave one out, give them other parameters, or "
                "name them by a mapping from labels to methods"
            )
    return result


def _made(
    method: Any, shared: Mapping[str, Mapping[str, Any]]
) -> tuple[Characterization, Mapping[str, Any]]:
    """Make a characterization; return also the parameters that were chosen."""
    if isinstance(method, Characterization):
        defaults = inspect.signature(type(method)).parameters
        changed = {
            key: value
            for key, value in method.get_params(deep=False).items()
            if key not in defaults or defaults[key].default != value
        }
        return clone(method), changed
    match method:
        case str(name):
            own: Mapping[str, Any] = {}
        case (str(name), own):
            pass
        case _:
            raise UsageError(
                "a method is a name, (name, parameters) or a characterization, but got "
                f"{type(method).__name__}"
            )
    chosen = {**shared.get(name, {}), **own}
    return characterization(name, **chosen), chosen
