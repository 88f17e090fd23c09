"""What differs between two policies, on the terminal; text from files is shown literally."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pivec.characterizations.explanation import Explanation
from pivec.distances.parts import Parts
from pivec.explanations.pairs.difference import Clip, Difference, Shift
from pivec.report.explained.parts import amounts
from pivec.terminal import literal, say
from pivec.text import percent, rounded

_SIDES = ("A", "B")
_FEATURES, _SHIFTS = 12, 3  # that are shown
_WIDE = 96  # letters that the table needs to be read with all its columns
_SHORT = partial(rounded, digits=2)


def print_difference(difference: Difference) -> None:
    """Print the headline, a table of the leading regions, and what the rest adds up to."""
    e = difference.explanation
    say(difference.headline())
    for side, label in enumerate(difference.labels):
        average = difference.mean_returns[side]
        gained = f", mean return {rounded(average, 3)}" if math.isfinite(average) else ""
        episodes = counted(difference.episodes[side], "episode")
        say(f"  {_SIDES[side]}: {label}, {episodes}{gained}")
    console = Console()
    wide = console.width >= _WIDE
    if len(e.order) > 1:
        console.print(_regions(difference, wide))
    else:
        console.print(_features(difference, wide))
    _say_rest(difference, wide)
    if shifts := difference.average_shifts()[:_SHIFTS]:
        say(f"on average, from A to B: {', '.join(_words(difference, shift) for shift in shifts)}")


def _regions(difference: Difference, wide: bool) -> Table:
    """Make a table of the leading regions."""
    e = difference.explanation
    heads = ("region", "share", *["part"] * wide, "time of A", "time of B")
    table = _table(*heads, last="where, and what shifts there from A to B")
    for region in difference.leading:
        table.add_row(
            f"{region}{' *' if e.regions.noise[region] else ''}",
            percent(difference.share(region)),
            *[_part(e.regions, region)] * wide,
            *(_time(difference, side, region) for side in (0, 1)),
            Text("\n").join([literal(e.words[region]), *_shift(difference, region)]),
        )
    return table


def _features(difference: Difference, wide: bool) -> Table:
    """Make a table of features, where all states are one region."""
    e = difference.explanation
    table = _table(
        "share",
        *["part"] * wide,
        "mean of A",
        "mean of B",
        last="feature, and what of it differs most",
    )
    for number in np.argsort(-e.features.measured, kind="stable")[:_FEATURES].tolist():
        feature, noise = difference.features[number], " *" if e.features.noise[number] else ""
        table.add_row(
            percent(float(e.features.measured[number]) / e.distance if e.distance else 0.0),
            *[_part(e.features, number)] * wide,
            *(rounded(float(e.means[side, 0, number]), 3) for side in (0, 1)),
            literal(f"{feature.title}: {_main_kind(e, number)}{noise}"),
        )
    return table


def _main_kind(e: Explanation, feature: int) -> str:
    """Tell whether it is more the place or the width, of a feature in the only region."""
    parts = {
        kind: float(part)
        for (kind, number), part in zip(e.columns, e.finest.measured[0], strict=True)
        if number == feature
    }
    return max(parts, key=parts.__getitem__)


def _table(*heads: str, last: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right", overflow="fold")
    table.add_column(last, overflow="fold")
    return table


def _part(parts: Parts, number: int) -> str:
    part, low, high = (
        float(np.maximum(values[number], 0.0)) for values in (parts.estimate, parts.low, parts.high)
    )
    return f"{_SHORT(part)}\n{_ends(low, high, _SHORT)}"


def _ends(low: float, high: float, write: Callable[[float], str]) -> str:
    return f"{write(low)} to {write(high)}" if math.isfinite(low) else ""


def _time(difference: Difference, side: int, region: int) -> str:
    e = difference.explanation
    share, low, high = (float(x[side, region]) for x in (e.share, e.share_low, e.share_high))
    return f"{percent(share)}\n{_ends(low, high, percent).replace(' %', '', 1)}"


def _shift(difference: Difference, region: int) -> list[Text]:
    """Say the main shift within a region that is not chance, in the environment's units."""
    shifts = difference.sure_shifts(region)[:1]
    return [Text("→ ").append(literal(_words(difference, shift))) for shift in shifts]


def _words(difference: Difference, shift: Shift) -> str:
    feature = difference.features[shift.feature]
    value, ends = amounts(feature, shift, digits=2)
    return f"{feature.name} {value} ({ends})"


def _say_rest(difference: Difference, wide: bool) -> None:
    e = difference.explanation
    rest = len(e.order) - len(difference.leading)
    if rest:
        shown = sum(map(difference.share, difference.leading))
        others = "the other region" if rest == 1 else f"the other {rest} regions"
        say(
            f"together {percent(min(shown, 1.0))}; {others} {percent(max(1 - shown, 0.0))} of the "
            f"distance as measured, {rounded(e.distance, 3)}"
        )
    if difference.told_apart and wide:
        say(
            f"parts and intervals ({100 * e.level:g} %) are without what sampling adds, "
            f"{rounded(e.distance - e.estimate, 2)} in all"
        )
    noise = e.regions.noise[list(difference.leading)] if len(e.order) > 1 else e.features.noise
    if noise.any():
        say("* may be chance" if difference.told_apart is not None else "* how sure is not known")


def counted(number: int, what: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> counted(1, "clip"), counted(2, "clip")
    ('1 clip', '2 clips')
    """
    return f"{number} {what}{'s' * (number != 1)}"


def say_written(folder: Path, *differences: Difference, clips: Sequence[Clip] = ()) -> None:
    """Say what could not be made, and where the rest is."""
    films = [*clips, *(clip for difference in differences for clip in difference.clips)]
    stills = [still for difference in differences for still in difference.stills.values()]
    notes = [note for difference in differences for note in difference.notes]
    for note in dict.fromkeys([*notes, *(clip.reason for clip in clips if clip.reason)]):
        say(f"Note: {note}")
    counts = {
        "picture": sum(still.picture is not None for still in stills),
        "clip": sum(clip.picture is not None for clip in films),
    }
    made = " and ".join(counted(count, what) for what, count in counts.items() if count)
    say(f"Numbers: {folder / 'explain.json'}")
    say(f"Page: {folder / 'explain.html'}{f', with {made}' if made else ''}")
