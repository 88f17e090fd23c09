"""What differs between two policies of a comparison: numbers first, then pictures and clips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pivec.arguments import Count, Range, checked
from pivec.atomic import file_name
from pivec.characterizations.background import BackgroundModel
from pivec.characterizations.explanation import Explanation
from pivec.engines.engine import Engine, on_engine
from pivec.errors import UsageError
from pivec.explanations.folder import Findings
from pivec.explanations.pairs.difference import MOST, Difference, Still, leading_regions
from pivec.explanations.regions.names import Feature
from pivec.explanations.regions.visits import nearest_visits
from pivec.explanations.regions.words import region_words
from pivec.options import CollectOptions
from pivec.policies.policy import fingerprint_of

FOLDER = "explain"  # beside the states of a comparison
_TOLD = 4  # features of a cell
_NAME = 60  # letters of a policy's name in that of a folder
Level = Annotated[float, Range(0.5, most=0.999)]


@on_engine
@checked
def explain(
    where: Any,
    a: str,
    b: str,
    *,
    frames: bool = True,
    clips: Annotated[int, Range(0, most=20)] = 2,
    top: Count = MOST,
    level: Level = 0.95,
    env: Any = None,
    policies: Any = None,
    out: str | Path | None = None,
    options: CollectOptions | None = None,
    engine: str | Engine = "auto",  # noqa: ARG001  (as the next, of `on_engine`)
    jobs: Count | None = None,  # noqa: ARG001
    progress: bool = False,
) -> Difference:
    """Tell what differs between two policies: where one is and the other is not, with pictures.

    Parameters
    ----------
    where : path, Comparison or Findings
        The folder of a comparison by visitation, supervector, gaussian or discretization.
    a, b : str
        Names of the policies, or the ends of them.
    frames : bool
        Draw states of both in the regions that differ most; environments are played again for it.
    clips : int
        Short films of both: the first where the difference is largest, the others side by side
        from the same seeds.
    top : int
        Regions that are shown, at most.
    level : float
        Certainty of intervals.
    env : str, callable or None
        The environment, where the folder does not tell it, as of one that a function makes.
    policies : as in `pivec.collect`, optional
        Those that acted, where the folder does not tell where they are.
    out : path, optional
        The folder for pictures; ``explain/`` in that of the comparison if not given.
    options : CollectOptions, optional
        Arguments of the environment, ``wrappers``, ``imports``, ``features`` and ``trust``.
    engine, jobs : optional
        Where pictures are made, as `pivec.using` takes it; in processes if not given.
    progress : bool
        Draw progress bars.

    Returns
    -------
    Difference

    Examples
    --------
    >>> import tempfile, pivec
    >>> policies = {"still": lambda seen: 0 * seen[:, 0].astype(int), "random": "random"}
    >>> folder = tempfile.mkdtemp()
    >>> done = pivec.compare("CartPole-v1", policies, folder, episodes=5, components=4)
    >>> explain(done, "still", "random", frames=False, clips=0).told_apart
    True
    """
    findings = Findings.open(where)
    difference = measure_difference(findings, a, b, top=top, level=level)
    if not frames and not clips:
        return difference
    from pivec.explanations.film.replay import Replayer
    from pivec.explanations.pairs.films import with_films

    folder = Path(out) if out is not None else folder_of(findings, difference)
    replayer = Replayer(findings, env, policies, options)
    return with_films(difference, findings, replayer, folder, frames, clips, progress)


def measure_difference(
    findings: Findings, a: str, b: str, *, top: int = MOST, level: float = 0.95
) -> Difference:
    """Take the distance of two policies apart; no pictures yet."""
    infos = [findings.find(name) for name in (a, b)]
    labels = [info.label for info in infos]
    if labels[0] == labels[1]:
        raise UsageError(
            f"expected two policies, but {a!r} and {b!r} are both {labels[0]}: name another"
        )
    explanation, notes = _explained(findings, labels, level)
    method = findings.space.method
    features = findings.features
    words, stills = explanation.words, {}
    leading = leading_regions(explanation, top)
    if isinstance(method, BackgroundModel):
        words = region_words(method, features)
        if len(method._mixtures) > 1:
            notes.append(
                f"regions of {len(method._mixtures)} fits of the background model lie side by "
                "side: pictures and clips know those of the first"
            )
        kept = [label for label in labels if findings.data and label in findings.data.labels]
        visits = nearest_visits(findings, kept, leading) if kept else {}
        stills = {place: Still(visit) for place, visit in visits.items()}
    else:
        if len(words) > 1:
            words = _told_cells(explanation, features)
        notes.append(
            f"{method.name} has no regions that a state could be found for: compare with --method "
            "visitation for pictures of them"
        )
    described = findings.space.descriptions
    rows = [described.labels.index(label) for label in labels]
    return Difference(
        explanation.named(words, tuple(feature.name for feature in features)),
        features,
        leading,
        environment=str(findings.space.collected.get("environment", "")),
        episodes=tuple(int(described.n_episodes[row]) for row in rows),  # type: ignore[arg-type]
        mean_returns=tuple(float(described.mean_returns[row]) for row in rows),  # type: ignore[arg-type]
        stills=stills,
        notes=tuple(notes),
    )


def _told_cells(explanation: Explanation, features: Sequence[Feature]) -> tuple[str, ...]:
    """Tell cells by where they are; of many features by the first."""
    words = []
    for name, ranges in zip(explanation.words, explanation.ranges.tolist(), strict=True):
        ends = [" to ".join(f"{end:.2g}".replace("-", "−") for end in pair) for pair in ranges]
        places = [
            f"{feature.name} {place}{f' {feature.unit}' if feature.unit else ''}"
            for feature, place in zip(features[:_TOLD], ends, strict=False)
        ]
        words.append(f"{', '.join(places)} ({name})")
    return tuple(words)


def _explained(
    findings: Findings, labels: list[str], level: float
) -> tuple[Explanation, list[str]]:
    """Take the distance apart by the states where they are kept, else by the descriptions."""
    method, described = findings.space.method, findings.space.descriptions
    data = findings.data
    missing = [label for label in labels if data is None or label not in data.labels]
    if data is not None and not missing:
        return method.explain(data[labels[0]], data[labels[1]], level), []
    first, second = (described.select([described.labels.index(label)]) for label in labels)
    note = f"the states of {' and '.join(missing)} are not kept here: numbers are from the space"
    return method.explain(first, second, level), [note]


def folder_of(findings: Findings, difference: Difference) -> Path:
    """Give the folder for what is left of a difference: another one for another pair."""
    labels = [info.label for info in findings.policies]
    known = Counter(file_name(label, _NAME) for label in labels)
    names = []
    for label in difference.labels:
        name = file_name(label, _NAME)
        # Labels that differ only in signs that no file may have.
        names.append(name if known[name] == 1 else f"{name}-{fingerprint_of(label)[:6]}")
    return findings.folder / FOLDER / "--".join(names)
