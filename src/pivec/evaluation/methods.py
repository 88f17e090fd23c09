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
    """One characterization to evaluate.

    Attributes
    ----------
    label : str
        Its name in tables and figures.
    template : Characterization
        Never fitted itself.
    seeded : bool
        Whether its random_state follows from the evaluation's seed and the repetition.
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
    """Make every characterization that is asked for, with labels that differ.

    Parameters
    ----------
    methods : sequence, or mapping from labels
        Names, (name, parameters), or ready characterizations; ``"all"`` is every name there is.
    parameters : mapping, optional
        For each name, arguments for those that are given by name.

    Examples
    --------
    >>> sweep = [("supervector", {"n_components": k}) for k in (4, 8)]
    >>> [one.label for one in candidates(["gaussian", *sweep])]
    ['gaussian', 'supervector n_components=4', 'supervector n_components=8']
    """
    if isinstance(methods, Mapping):
        labels: list[str | None] = [str(label) for label in methods]
        given = list(methods.values())
    else:
        wanted = [methods] if isinstance(methods, str | Characterization) else list(methods)
        given = [one for each in wanted for one in (names() if each == ALL else (each,))]
        labels = [None] * len(given)
    shared = {name: dict(some) for name, some in (parameters or {}).items()}
    if not given:
        raise UsageError("expected at least one characterization to evaluate, but got none")
    made = [_made(one, shared) for one in given]
    unused = shared.keys() - {name for name, _, _ in made}
    if unused:
        raise UsageError(
            f"parameters are given for {sorted(unused)[0]!r}, which is not among the methods "
            f"{', '.join(dict.fromkeys(name for name, _, _ in made))}"
        )
    all_names = [name for name, _, _ in made]
    result = []
    for one, label, (name, own, template) in zip(given, labels, made, strict=True):
        text = " ".join([name, *(f"{key}={value}" for key, value in own.items())])
        chosen = label or (name if all_names.count(name) == 1 else text)
        # A ready characterization keeps the random_state it came with.
        seeded = "random_state" not in own and not isinstance(one, Characterization)
        result.append(Candidate(chosen, template, seeded))
    _check_labels([one.label for one in result])
    return result


def _made(
    one: Any, shared: Mapping[str, Mapping[str, Any]]
) -> tuple[str, dict[str, Any], Characterization]:
    """Name, the parameters that were chosen, and the characterization."""
    if isinstance(one, Characterization):
        return one.name, _changed(one), clone(one)
    if isinstance(one, str):
        name, own = one, dict(shared.get(one, {}))
    elif isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
        name, own = one[0], dict(shared.get(one[0], {})) | dict(one[1])
    else:
        raise UsageError(
            "a method is a name, (name, parameters) or a characterization, but got "
            f"{type(one).__name__}"
        )
    return name, own, characterization(name, **own)


def _changed(one: Characterization) -> dict[str, Any]:
    """Arguments that differ from the constructor's own."""
    defaults = inspect.signature(type(one)).parameters
    return {
        key: value
        for key, value in one.get_params(deep=False).items()
        if key not in defaults or defaults[key].default != value
    }


def _check_labels(labels: Sequence[str]) -> None:
    if len(set(labels)) != len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise UsageError(
            f"two methods are called {twice!r}: leave one out, give them other parameters, or name "
            "them by a mapping from labels to methods"
        )
