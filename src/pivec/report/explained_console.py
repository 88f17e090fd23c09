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

from pivec.explanations.difference import Clip, Difference
from pivec.report.explained_parts import signed
from pivec.terminal import literal, say
from pivec.text import percent, rounded

_SIDES = ("A", "B")
_WIDE = 96  # letters that the table needs to be read with all its columns
_SHORT = partial(rounded, digits=2)


def print_difference(difference: Difference) -> None:
    """Print the headline, a table of the leading regions, and what the rest adds up to."""
    e = difference.explanation
    say(difference.headline())
    for side, label in enumerate(difference.labels):
        average = difference.mean_returns[side]
        gained = f", mean return {rounded(average, 3)}" if math.isfinite(average) else ""
        say(f"  {_SIDES[side]}: {label}, {difference.episodes[side]} episodes{gained}")
    console = Console()
    wide = console.width >= _WIDE
    table = Table(box=None, pad_edge=False)
    for head, justify in (
        ("region", "right"),
        ("share", "right"),
        *[("part", "right")] * wide,
        ("time of A", "right"),
        ("time of B", "right"),
        ("where, and what shifts there from A to B", "left"),
    ):
        table.add_column(head, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for region in difference.leading:
        parts = (e.regions.estimate, e.regions.low, e.regions.high)
        part, low, high = (float(np.maximum(values[region], 0.0)) for values in parts)
        table.add_row(
            f"{region}{' *' if e.regions.noise[region] else ''}",
            percent(difference.share(region)),
            *[f"{_SHORT(part)}\n{_ends(low, high, _SHORT)}"] * wide,
            *(_time(difference, side, region) for side in (0, 1)),
            Text("\n").join([literal(e.words[region]), *_shift(difference, region)]),
        )
    console.print(table)
    _say_rest(difference, wide)


def _ends(low: float, high: float, write: Callable[[float], str]) -> str:
    return f"{write(low)} to {write(high)}" if math.isfinite(low) else ""


def _time(difference: Difference, side: int, region: int) -> str:
    e = difference.explanation
    share, low, high = (float(x[side, region]) for x in (e.share, e.share_low, e.share_high))
    return f"{percent(share)}\n{_ends(low, high, percent).replace(' %', '', 1)}"


def _shift(difference: Difference, region: int) -> list[Text]:
    """Say the main shift within a region that is not chance, in the environment's units."""
    for shift in difference.sure_shifts(region)[:1]:
        feature = difference.features[shift.feature]
        unit = f" {feature.unit}" if feature.unit else ""
        ends = _ends(shift.low, shift.high, partial(signed, digits=2))
        words = f"{feature.name} {signed(shift.value, 2)}{unit}{f' ({ends})' if ends else ''}"
        return [Text("→ ").append(literal(words))]
    return []


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
    if e.regions.noise[list(difference.leading)].any():
        say("* may be chance")


def say_written(folder: Path, *differences: Difference, clips: Sequence[Clip] = ()) -> None:
    """Say what could not be made, and where the rest is."""
    films = [*clips, *(clip for difference in differences for clip in difference.clips)]
    stills = [still for difference in differences for still in difference.stills.values()]
    notes = [note for difference in differences for note in difference.notes]
    for note in dict.fromkeys([*notes, *(clip.reason for clip in clips if clip.reason)]):
        say(f"Note: {note}")
    counts = {
        "pictures": sum(still.picture is not None for still in stills),
        "clips": sum(clip.picture is not None for clip in films),
    }
    made = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
    say(f"Numbers: {folder / 'explain.json'}")
    say(f"Page: {folder / 'explain.html'}{f', with {made}' if made else ''}")
