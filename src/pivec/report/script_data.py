"""The data of the report's script: columns of all policies, distances, parts and pictures."""

from __future__ import annotations

import base64
import math
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress, islice
from operator import index
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pivec.characterizations import WHERE, Decomposition
from pivec.errors import PivecError
from pivec.explanations import (
    Feature,
    FeatureHistograms,
    Rules,
    RunExplanation,
    share_intervals,
    worth_listing,
)
from pivec.figures import colour_scale, group_colours
from pivec.report.findings import Findings, PolicyTable
from pivec.report.site import BROKEN, address_of, explanation_files, read_json, site_pages
from pivec.statistics import Pairs
from pivec.terminal import printable

Array = NDArray[np.float64]
Column = dict[str, Any]  # packed numbers or texts
Content = dict[str, Any]  # JSON

FORMAT = 2
PAIRS_BYTES = 7_500_000  # of all pairs, before they are packed
MAX_COLOURS = 36  # of behaviour classes and of kinds of episodes; more repeat them
MOST_VALUES = 3_000_000  # of features or of shares of time
NEAREST = 10  # of each policy, if there is room for nothing else
# Characters of a page of 30 000 policies and of 300 000, in a straight line between.
_ROOM, _MORE_ROOM = 11.5e6, 38e6
_ENDS = ("values", "low", "high")  # of outcomes
_UNKNOWN = 65535  # an overlap; others are parts of 65534
_SHIFTS, _LEAST = 3, 0.1  # features of a region, and the least share of its part that they have
_PARTS, _AVERAGES = 10, 16  # regions and means of features of a pair


def page_data(findings: Findings, live: str = "") -> Content:
    """Collect everything that the script shows, as values that JSON can hold.

    ``live`` is the version of the data on a page whose server can be asked for more.
    """
    policies, colours = findings.policies, findings.policies.group_colours
    number = {name: k for k, name in enumerate(colours)}
    content: Content = {
        "format": FORMAT,
        "live": live,
        "n": len(policies),
        "columns": _policy_columns(policies, number),
        "groups": [printable(name) for name in colours],
        "groupColours": list(colours.values()),
        "palette": group_colours(MAX_COLOURS),
        "scales": {
            "return": colour_scale("viridis"),
            "step": colour_scale("plasma"),
            # Grey in the middle can be seen on white and on black.
            "diverging": ["#2166AC", "#8A8A8A", "#B35806"],
        },
        "joins": numbers(findings.links, "i4"),
        "travels": [
            {
                "group": number.get(run.group, -1),
                "rows": list(run.rows),
                "cumulative": [_short(value) for value in run.cumulative],
                "half": None if run.half_widths is None else [_short(v) for v in run.half_widths],
            }
            for run in findings.measured.travels
        ],
        "heatmapOrder": numbers(findings.heatmap_order, "i4"),
        "features": _feature_means(findings),
        "outcomes": [
            {"name": printable(outcome.name), "rate": outcome.rate}
            | {
                name: numbers(column, "f4")
                for name, column in zip(_ENDS, outcome.intervals, strict=True)
            }
            for outcome in findings.outcomes
        ],
        "regions": _regions(findings),
        "spreads": _spreads(findings),
        "decompositions": [
            {"rows": list(rows)}
            | decomposition_data(found, findings.columns, rules=findings.rules.get(rows))
            for rows, found in findings.decompositions.items()
        ],
        "runEnds": _run_ends(findings, number),
        "runStories": [
            {"group": number[group]} | run_story(findings, group, story)
            for group, story in findings.run_stories.items()
        ],
        "runNote": printable(findings.run_note),
        "media": panel_media(findings),
        "pages": page_links(findings),
        "episodes": episode_data(findings),
    }
    content |= _distances(findings, size_of(content))
    return content | {"words": _words(content, is_live=bool(live))}


def _policy_columns(rows: PolicyTable, number: dict[str, int]) -> dict[str, Column]:
    """Return one column for each thing known of a policy; NaN stands for what is not."""
    kinds = {
        "step": ("step", "f8"),
        "x": ("x", "f4"),
        "y": ("y", "f4"),
        "return": ("mean_return", "f4"),
        "deviation": ("return_std", "f4"),
        "episodes": ("episodes", "i4"),
        "states": ("states", "f8"),
        "reference": ("reference", "u1"),
        "placed": ("placed", "u1"),
    }
    return {
        "label": text(row.label for row in rows),
        "source": text(row.source for row in rows),
        "group": numbers([number.get(row.group, -1) for row in rows], "i4"),
        "behaviour": numbers([row.behaviour or 0 for row in rows], "i4"),
        "order": numbers(rows.order, "i4"),
    } | {
        name: numbers(np.array([getattr(row, field) for row in rows], np.float64), kind)
        for name, (field, kind) in kinds.items()
    }


def _short(value: float) -> float | None:
    """Round to five digits, for a page of bearable size; None if a number is not known."""
    return float(f"{value:.5g}") if np.isfinite(value) else None


def _named(feature: Feature) -> Content:
    named = {"name": printable(feature.name), "unit": printable(feature.unit)}
    return named | ({"flag": True} if feature.is_flag else {})  # a mean is a share of time


def _feature_means(findings: Findings) -> list[Content]:
    """Return means of the features over all of each policy's time, if they are known."""
    space = findings.space
    means = None if space is None else space.method.feature_means(space.descriptions)
    if means is None or means.size > MOST_VALUES:
        return []
    return [
        {**_named(feature), "values": numbers(column, "f4")}
        # A mean step is that from the first state to the last over the time: of no interest.
        for feature, column in zip(findings.features, means.T, strict=False)
    ]


def _regions(findings: Findings) -> Content | None:
    """Return names of the regions, their columns among the points, and shares of time."""
    space = findings.space
    if space is None or space.descriptions.points is None or not findings.region_names:
        return None
    method: Any = space.method
    content: Content = {
        "words": text(findings.region_names),
        "width": space.descriptions.points.shape[1] // len(method.means_),
    }
    shares, low, high = method.n_fits * method.region_shares(space.descriptions)[0], None, None
    if "influences" in space.descriptions.arrays and 3 * shares.size <= MOST_VALUES:
        shares, low, high = share_intervals(method, space.descriptions)
        unknown = np.isnan(low)
        low, high = np.where(unknown, 1.0, low), np.where(unknown, 0.0, high)
    for name, values in (("shares", shares), ("low", low), ("high", high)):
        if values is not None and values.size <= MOST_VALUES:
            content[name] = _shares(values.T)
    return content


def _shares(values: Array) -> Column:
    return numbers(np.rint(65535.0 * np.clip(values, 0.0, 1.0)), "u2")


def _spreads(findings: Findings) -> Content | None:
    """Return histograms of the features, one row per policy; all 0 without stored states."""
    found = findings.histograms
    if found is None or findings.stored_rows is None:
        return None
    shares = []
    for own in found.shares:
        every = np.zeros((len(findings.policies), own.shape[1]))
        every[findings.stored_rows] = own
        shares.append(_shares(every))
    return {"features": _binned(found), "shares": shares, "words": _sentences(found.notes)}


def _binned(found: FeatureHistograms) -> list[Content]:
    """Return features with the edges of their bins, the first and the last of which are open."""
    pairs = zip(found.features, found.edges, strict=True)
    return [_named(feature) | {"edges": edges.tolist()} for feature, edges in pairs]


def pair_spreads(findings: Findings, i: int, j: int) -> Content | None:
    """Return the histograms of two policies; None if their states are not stored."""
    found = findings.pair_histograms(i, j)
    if found is None:
        return None
    features = [
        feature | {"a": [*map(_short, own[0])], "b": [*map(_short, own[1])]}
        for feature, own in zip(_binned(found), found.shares, strict=True)
    ]
    return {"features": features, "words": _sentences(found.notes)}


def _sentences(notes: Sequence[str]) -> str:
    return printable(". ".join(note[:1].upper() + note[1:] for note in notes))


def _run_ends(findings: Findings, number: dict[str, int]) -> Content | None:
    """Return the distances between the last checkpoints of runs, row by row."""
    ends = findings.run_ends
    if ends is None:
        return None
    return {
        "groups": [number[group] for group in ends.groups],
        "rows": ends.rows,
        "distance": numbers(ends.distance, "f4"),
        "low": numbers(ends.low, "f4"),
        "high": numbers(ends.high, "f4"),
        "alike": numbers(ends.alike, "u1"),
        "words": ends.words,
    }


def run_story(findings: Findings, group: str, story: RunExplanation | None = None) -> Content:
    """Return what changed along a run, with reasons in ``note`` for what is not known."""
    notes: Sequence[str] = ()
    if story is None:
        try:
            story = findings.explain_run(group)
        except PivecError as error:
            notes = [str(error)]
    rows = findings.policies.runs[group]
    if story is not None:
        number = {label: row for row, label in enumerate(findings.policies.labels)}
        rows, notes = [number[label] for label in story.labels], story.notes
    largest = story.largest_phase if story else None
    return {
        "rows": rows,
        "steps": [findings.policies[row].step for row in rows],
        "returns": [_short(findings.policies[row].mean_return) for row in rows],
        "tracks": [
            {"where": printable(track.where)}
            | {name: [*map(_short, getattr(track, name))] for name in ("share", "low", "high")}
            for track in (story.tracks if story else ())
        ],
        "phases": [
            {
                "when": phase.when,
                "steps": list(phase.steps),
                "rows": [rows[phase.first], rows[phase.last]],
                "distance": _short(max(phase.distance, 0.0)),
                "low": _short(phase.low),
                "high": _short(phase.high),
                "changed": phase.changed,
                "largest": phase is largest,
                "words": [printable(change.sentence()) for change in phase.changes]
                or [phase.unchanged],
            }
            for phase in (story.phases if story else ())
        ],
        "note": _sentences(notes),
    }


def episode_data(findings: Findings) -> Content | None:
    """Return the map of episodes; ``unusual`` are those to mark, farthest first. None without."""
    if (found := findings.episodes) is None:
        return None
    rows = {label: i for i, label in enumerate(findings.policies.labels)}
    # A sixteen-thousandth of the map cannot be seen, and packs better.
    step = 2.0 ** (math.frexp(float(np.ptp(found.positions, axis=0).max()))[1] - 14)
    positions = np.rint(found.positions / step) * step
    with np.errstate(over="ignore"):  # as good as infinite
        times = found.times.astype(np.float16)
    return {
        "n": len(found),
        "policy": numbers([rows[label] for label in found.policies], "i4"),
        "number": numbers(found.episodes, "i4"),
        "kind": numbers(found.kind, "u1"),
        "x": numbers(positions[:, 0], "f4"),
        "y": numbers(positions[:, 1], "f4"),
        "times": numbers(times, "f4"),
        "returns": numbers(found.returns, "f4"),
        "length": numbers(found.lengths, "i4"),
        "seed": text("" if seed < 0 else str(seed) for seed in found.seeds.tolist()),
        "unusual": found.unusual.tolist(),
        "kinds": [
            {
                "number": kind.number,
                "name": printable(kind.name),
                "share": _short(kind.share),
                "policy": rows[kind.policy],
                "episode": kind.episode,
            }
            for kind in found.kinds.kinds
        ],
        "words": found.words,
    }


def decomposition_data(
    found: Decomposition,
    features: Sequence[Feature],
    notes: Sequence[str] = (),
    rules: Rules | None = None,
) -> Content:
    """Return the parts of a distance that the script shows, the largest region first."""
    found = found.merged or found

    def means(feature: int, values: Array) -> Content:
        return _named(features[feature]) | {"a": _short(values[0]), "b": _short(values[1])}

    def part(region: int) -> Content:
        whole, sizes = float(found.regions.measured[region]), found.finest.measured[region]
        shifts = [
            (-float(sizes[column]), feature)
            for column, (kind, feature) in enumerate(found.columns)
            if kind == WHERE
            and feature >= 0
            and not found.finest.noise[region, column]
            and np.isfinite(found.means[:, region, feature]).all()
            and 0.0 < whole * _LEAST <= sizes[column]
        ]
        kept = worth_listing([size for size, _ in shifts], [features[f] for _, f in shifts])
        shifts = sorted(compress(shifts, kept))
        most = _SHIFTS if len(found.order) > 1 else 3 * _SHIFTS
        ends = found.share_low[:, region], found.share_high[:, region]
        return {
            "regions": list(found.members[region]),
            "words": printable(found.words[region]),
            "part": _short(whole),
            "noise": bool(found.regions.noise[region]),
            "shareA": _short(found.share[0, region]),
            "shareB": _short(found.share[1, region]),
            "spans": [[_short(low), _short(high)] for low, high in zip(*ends, strict=True)],
            "features": [means(f, found.means[:, region, f]) for _, f in shifts[:most]],
        }

    low, high = found.average_shift_low, found.average_shift_high
    # A mean step is from the first state to the last, over the time: of no interest.
    own = [f for f, feature in enumerate(features) if not feature.is_step]
    extents = found.ranges[:, :, 1].max(axis=0) - found.ranges[:, :, 0].min(axis=0)
    sizes = np.abs(found.average_shift) / np.where(extents > 0.0, extents, np.inf)
    leading = sorted(sorted(own, key=lambda f: -np.nan_to_num(sizes[f]))[:_AVERAGES])
    order = found.order.tolist()
    return {
        "measured": _short(found.distance),
        "sure": math.isfinite(found.p_value),
        "words": _sentences(notes),
        "rules": [
            {"where": printable(rule.where), "a": _short(a), "b": _short(b)}
            for rule in (rules.certain if rules else ())
            for a, b in [rule.shares]
        ],
        "parts": [part(region) for region in order[:_PARTS]],
        "otherParts": [
            len(order[_PARTS:]),
            _short(float(found.regions.measured[order[_PARTS:]].sum())),
        ],
        "averages": [
            means(f, found.averages[:, f]) | {"noise": not (low[f] > 0 or high[f] < 0)}
            for f in leading
        ],
        "otherAverages": len(own) - len(leading),
    }


def _distances(findings: Findings, taken: int) -> Content:
    """Return the distances that there is room for: of all pairs, or points and some pairs."""
    measured, space, n = findings.measured, findings.space, len(findings.policies)
    pairs = all_pairs(findings)
    content: Content = {"pairs": pairs, "listed": None, "points": None, "near": None}
    if pairs is None and measured.n_known:
        listed = measured.pairs
        content["listed"] = {"i": numbers(listed.i, "i4"), "j": numbers(listed.j, "i4")}
        content["listed"] |= _pair_columns(listed)
    rounded = None
    if space is not None and space.descriptions.points is not None:
        more = min(max((n - 30_000) / 270_000, 0.0), 1.0)
        room = _ROOM + (_MORE_ROOM - _ROOM) * more - taken - size_of(content)
        rounded = rounded_points(space.descriptions.points, measured.neighbours, room)
        content["points"] = None if rounded is None else rounded.content()
    k = min(NEAREST, measured.neighbours.shape[1])
    if pairs is None and rounded is None and k:
        content["near"] = {
            "k": k,
            "rows": numbers(measured.neighbours[:, :k], "i4"),
            "distances": numbers(measured.neighbour_distances[:, :k], "f4"),
        }
    return content


def all_pairs(findings: Findings) -> Content | None:
    """Return all pairs, the upper triangle row by row; None if they are too many or not known.

    ``alike`` is 1 for pairs that cannot be distinguished, 0 for those that can, 2 if that is not
    known. ``distance`` may be below 0 by chance.
    """
    measured, space = findings.measured, findings.space
    if measured.matrix is None:
        return None
    sure = measured.intervals
    above = i, j = np.triu_indices(len(measured.matrix), 1)
    if len(i) * (4 if sure is None else 20) > PAIRS_BYTES:
        return None
    known = {}
    if space is not None and hasattr(space.method, "overlap"):
        known["overlap"] = space.method.overlap(space.descriptions)[above]
    if sure is not None:
        known |= {"low": sure.low[above], "high": sure.high[above], "p": sure.p_value[above]}
    distance = (measured.matrix if sure is None else sure.distance)[above]
    return _pair_columns(Pairs.of(i, j, distance, **known), known)


def _pair_columns(pairs: Pairs, known: Container[str] = ("low", "overlap")) -> Content:
    content = {"distance": numbers(pairs.distance, "f4")}
    if "low" in known:
        content |= {name: numbers(getattr(pairs, name), "f4") for name in ("low", "high", "p")}
        content["alike"] = numbers(np.where(np.isnan(pairs.low), 2, pairs.alike), "u1")
    if "overlap" in known:
        parts = np.rint(65534.0 * np.clip(pairs.overlap, 0.0, 1.0))
        content["overlap"] = numbers(np.where(np.isfinite(parts), parts, _UNKNOWN), "u2")
    return content


def _words(content: Content, *, is_live: bool) -> str:
    """Say what the page's own distances are worth, and what it does not hold."""
    serve = "For all exact distances, run pivec serve OUT, where OUT is this comparison's folder."
    if is_live:
        serve = "The distance of two selected policies is exact."
    if content["pairs"]:
        return ""
    if content["points"]:
        listed = " Intervals are available for the pairs in pairs.csv." if content["listed"] else ""
        return (
            "There are too many pairs to store: this page computes distances itself. They include "
            "sampling noise and have a median error of "
            f"{100 * content['points']['error']:.2g} %.{listed} {serve}"
        )
    if content["near"]:
        k = content["near"]["k"]
        return f"This page contains only the {k} nearest neighbours of each policy. {serve}"
    return f"This page contains no distances. {serve}" if content["n"] > 1 else ""


# Numbers are little-endian, the first bytes of all before the second bytes of all and so on: bytes
# that are alike pack well. A text column is its lines. `web/data.ts` reads them back.


def numbers(values: ArrayLike, kind: str) -> Column:
    r"""Pack numbers of one kind: u1, u2, i4, f4 or f8."""
    return {"type": kind, "data": base64.b64encode(deflated(values, kind)).decode("ascii")}


def text(lines: Iterable[str]) -> Column:
    """Pack texts, a line each; what could break a line is made visible."""
    content = zlib.compress("\n".join(map(printable, lines)).encode())
    return {"type": "text", "data": base64.b64encode(content).decode("ascii")}


def deflated(values: ArrayLike, kind: str) -> bytes:
    """Deflate the bytes of numbers, the first of all, then the second of all."""
    array = np.asarray(values).astype(np.dtype(kind).newbyteorder("<")).ravel()
    return zlib.compress(array.view(np.uint8).reshape(-1, array.itemsize).T.tobytes())


def size_of(blob: Any) -> int:
    """Count the letters of all columns in a blob, which are nearly all of it."""
    if isinstance(blob, dict):
        return sum(map(size_of, blob.values()))
    if isinstance(blob, list):
        return sum(map(size_of, blob))
    return len(blob) if isinstance(blob, str) else 8


# Points are rounded to whole numbers of one step for all columns: the error of a distance then does
# not depend on where policies differ, and what deflate leaves of a column follows how much it
# varies. The step is as fine as there is room for, and no finer than distances need.

TOLERANCE = 0.01  # of a distance: an error below it cannot be seen
SMALL = 1 << 20  # characters that do not matter to a page
_SIZES = range(4, 33)  # half-bits of a number: the largest column has 2^(s/2) steps
_MOST_PAIRS = 20_000  # on which errors are looked at
_SAMPLE = 4096  # policies on which sizes are looked at
_BASE64 = 4 / 3  # characters for a byte


@dataclass(frozen=True)
class Rounded:
    """Points as codes: ``step * codes`` are the columns that vary, each from its minimum."""

    codes: NDArray[np.uint16]  # (n, C)
    kept: NDArray[np.intp]  # (C,) columns that vary
    step: float
    error: Array  # of sampled distances, in shares of them

    def content(self) -> Content:
        """Return what `web/distances.ts` reads; codes column by column."""
        kind = "u2" if self.codes.max(initial=0) > 255 else "u1"
        return {
            "step": self.step,
            "kept": numbers(self.kept, "i4"),
            "codes": numbers(self.codes.T, kind),
            "error": float(np.median(self.error)) if len(self.error) else 0.0,
        }


def rounded_points(points: Array, near: NDArray[np.intp], room: float) -> Rounded | None:
    """Round points so that they take up at most ``room`` characters of a page.

    ``near`` are the nearest others of each policy, (n, k), as far as they are known: errors matter
    most there. None if there is no room for codes that keep half of the squared Euclidean distances
    within 1 %, or if points are not finite.
    """
    if not np.isfinite(points).all():
        return None
    low, high = points.min(axis=0), points.max(axis=0)
    kept = np.flatnonzero(high > low)
    span = float((high - low).max(initial=0.0))
    if not len(kept):
        return Rounded(np.empty((len(points), 0), np.uint16), kept, 1.0, np.empty(0))
    rng = np.random.default_rng(0)
    pairs = _sampled_pairs(len(points), near, rng)
    exact = _squares(points, pairs)
    exact, (rows, pairs) = exact[exact > 0.0], np.unique(pairs[exact > 0.0], return_inverse=True)
    # Parts of the largest range, far finer than any step, and half as large as they were.
    columns = ((points[:, kept] - low[kept]) / span).astype(np.float32)
    paired, sample = columns[rows], columns
    if len(points) > _SAMPLE:
        # Stretches: policies of one run stand together, are alike, and pack well.
        parts = np.array_split(columns, len(columns) // 256)
        sample = np.concatenate(parts[:: -(-len(columns) // _SAMPLE)])

    def letters(size: int) -> float:
        return len(deflated(_codes(sample, size).T, "u2")) * _BASE64 * len(points) / len(sample)

    def error(size: int) -> Array:
        squares = _squares(_codes(paired, size), pairs.reshape(-1, 2))
        return np.abs((span / _levels(size)) ** 2 * squares / exact - 1.0)

    chosen = len(_SIZES) - 1
    if letters(_SIZES[chosen]) > min(room, SMALL):
        fitting = bisect_right(_SIZES, room, key=letters) - 1
        enough = bisect_left(_SIZES, True, key=lambda size: error(size).max() <= TOLERANCE)
        chosen = min(fitting, enough, chosen)
    if chosen < 0:
        return None
    size = _SIZES[chosen]
    errors = error(size)
    if np.median(errors) > TOLERANCE:
        return None
    return Rounded(_codes(columns, size), kept, span / _levels(size), errors)


def _levels(size: int) -> int:
    """Count the steps of the largest column."""
    return math.isqrt(2**size) - 1


def _codes(columns: NDArray[np.float32], size: int) -> NDArray[np.uint16]:
    return np.asarray(np.rint(columns * np.float32(_levels(size))), np.uint16)


def _sampled_pairs(n: int, near: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
    """Pairs of policies: all of them where these are few, else some, and each with its nearest."""
    if n * (n - 1) // 2 <= _MOST_PAIRS:
        return np.stack(np.triu_indices(n, 1), axis=1)
    pairs = rng.integers(n, size=(_MOST_PAIRS, 2))
    if near.shape[1]:
        own = np.arange(n) if n <= _MOST_PAIRS else rng.choice(n, _MOST_PAIRS, replace=False)
        pairs = np.concatenate([pairs, np.stack([own, near[own, 0]], axis=1)])
    return pairs


def _squares(rows: NDArray[Any], pairs: NDArray[np.intp]) -> Array:
    """Squared distances of pairs of rows, some at a time."""
    blocks = np.array_split(pairs, 1 + len(pairs) * rows.shape[1] // (1 << 20))
    differences = (rows[block[:, 0]].astype(float) - rows[block[:, 1]] for block in blocks)
    return np.concatenate([np.einsum("ij,ij->i", part, part) for part in differences])


# Pictures beside the page: `pivec explain`, `unusual` and `regions` leave them, with JSON that
# names them. Folders may come from strangers: only pictures within the folder are named, and only
# those that belong to this comparison.

_PICTURES = (".webp", ".png")
_PAIRS, _CLIPS, _FRAMES, _EPISODES = 200, 20, 400, 1000  # that are looked at
_STEPS = 1 << 20  # of a clip, and of anything else that is counted in it
_LETTERS = 4000  # of a text
_SAME = 1e-3  # of a distance: another comparison has another one
_SIZE = "width", "height"  # of a frame


def panel_media(findings: Findings) -> Content:
    """Return what the panel shows of pairs: rows by number, addresses relative to the page."""
    folder = findings.log.folder
    explained = list(_explanations(folder))
    return {
        "notable": [
            {"words": words, "rows": list(rows)} for words, rows in findings.notable_pairs.items()
        ],
        "pairs": explained_pairs(findings, folder, explained),
        "episodes": episode_clips(findings, folder, explained),
        "regions": region_pictures(findings, folder),
    }


def page_links(findings: Findings) -> list[Content]:
    """Return the pages of the comparison, with the rows of their policies or the run's number."""
    rows = {row.label: i for i, row in enumerate(findings.policies)}
    number = {name: k for k, name in enumerate(findings.policies.group_colours)}
    result = []
    for page in site_pages(findings.log.folder):
        link: Content = {"kind": page.kind, "title": page.title, "href": page.href()}
        if page.kind == "pair" and all(name in rows for name in page.names):
            link["rows"] = [rows[name] for name in page.names]
        if page.kind == "run" and page.names[0] in number:
            link["group"] = number[page.names[0]]
        result.append(link)
    return result


def explained_pairs(
    findings: Findings, folder: Path, explained: Iterable[tuple[Path, Content]]
) -> list[Content]:
    """Find clips and pictures of pairs that were explained in this comparison."""
    rows = {row.label: i for i, row in enumerate(findings.policies)}
    result: dict[frozenset[int], Content] = {}
    for file, content in explained:
        with suppress(*BROKEN):
            a, b = (rows[label] for label in content["labels"])
            if a == b or len(result) >= _PAIRS:
                continue
            if not math.isclose(
                content["distance"], findings.distance(a, b), rel_tol=_SAME, abs_tol=1e-9
            ):
                continue
            clip = partial(clip_data, address=_finder(folder, file.parent))
            shown = {
                "a": a,
                "b": b,
                "clips": _with_pictures(folder, file.parent, content.get("clips"), _CLIPS, clip),
                "frames": _with_pictures(
                    folder, file.parent, content.get("frames"), _FRAMES, _frame
                ),
            }
            result.setdefault(frozenset((a, b)), shown)
    return list(result.values())


def episode_clips(
    findings: Findings, folder: Path, explained: Iterable[tuple[Path, Content]]
) -> list[Content]:
    """Find clips of episodes that are stored with this comparison, from their first step on.

    They are sides of clips of pairs, of unusual episodes and of behaviour classes.
    """
    rows = {row.label: i for i, row in enumerate(findings.policies)}
    unusual = folder / "unusual.json"
    sources = [(unusual, read_json(folder, unusual) or {}), *explained]
    found: dict[tuple[int, int], Content] = {}
    for file, content in sources:
        entries: list[Any] = []
        with suppress(*BROKEN):
            known = content.get("clips") or (), content.get("behaviours") or ()
            entries = list(islice(chain(*known), _CLIPS))
        for entry in entries:
            with suppress(*BROKEN):
                clip = clip_data(entry, _finder(folder, file.parent))
                for sheet in clip["sheets"]:
                    label, episode = sheet["label"], sheet["episode"]
                    if sheet["first"] or episode is None or len(found) >= _EPISODES:
                        continue
                    if findings.seed(label, episode) != sheet["seed"]:
                        continue
                    key = rows[label], episode
                    if key in found and found[key]["sheets"][0]["last"] >= sheet["last"]:
                        continue
                    found[key] = {
                        "policy": rows[label],
                        "episode": episode,
                        "title": f"{label}, episode {episode}",
                        "words": f"seed {sheet['seed']}" if sheet["seed"] >= 0 else "recorded",
                        "fps": clip["fps"],
                        "sheets": [sheet],
                    }
    return list(found.values())


def region_pictures(findings: Findings, folder: Path) -> list[Content]:
    """Find the pictures of regions that `pivec regions --frames` left."""
    names = dict(enumerate(findings.region_names))
    content = read_json(folder, folder / "regions.json") if names else None

    def region(entry: Content) -> Content:
        number = index(entry["number"])
        if names[number] != entry["name"]:
            raise ValueError("a region of another comparison")
        entry |= {"path": entry["frame"]["path"]}
        return {"region": number, "words": _visit(entry["frame"]["visit"])}

    entries = (content or {}).get("regions")
    return _with_pictures(folder, folder, entries, len(names), region)


def _with_pictures(
    folder: Path, home: Path, entries: Any, most: int, make: Callable[[Any], Content]
) -> list[Content]:
    """Make what the page shows of entries, leaving out what is broken or has no picture."""
    result: list[Content] = []
    find = _finder(folder, home)
    for entry in entries if isinstance(entries, list) else ():
        with suppress(*BROKEN):
            shown = make(entry)
            if (source := find(entry["path"])) and len(result) < most:
                result.append({"src": source} | shown)
    return result


def clip_data(entry: Content, address: Callable[[Any], str | None]) -> Content:
    """Return what `web/player.ts` shows of a clip; without sheets unless all of them are there."""
    sheets, fps = [], float(entry.get("fps") or 0.0)
    if 0.0 < fps < _STEPS:
        with suppress(*BROKEN):
            sheets = [_sheet(sheet, address(sheet["path"])) for sheet in entry.get("sheets") or ()]
    return {
        "title": _text(entry["title"]),
        "words": _text(entry["caption"]),
        "fps": fps if sheets else 0.0,
        "sheets": sheets,
    }


def _sheet(entry: Content, src: str | None) -> Content:
    positive = {name: index(entry[name]) for name in ("every", "frames", "columns", *_SIZE)}
    first, last = index(entry["first"]), index(entry["last"])
    texts, captions = list(map(_text, entry["texts"])), list(map(index, entry["captions"]))
    if not (
        src is not None
        and all(0 < value < _STEPS for value in positive.values())
        and 0 <= first <= last < _STEPS
        and positive["frames"] == -(-(last - first) // positive["every"]) + 1
        and len(captions) in (0, positive["frames"])
        and all(0 <= k < len(texts) for k in captions)
    ):
        raise ValueError("a sheet that cannot be shown")
    return {
        "src": src,
        "label": _text(entry["label"]),
        "episode": None if entry["episode"] is None else index(entry["episode"]),
        "seed": index(entry["seed"]),
        "first": first,
        "last": last,
        **positive,
        "isEnd": entry["is_end"] is True,
        "texts": texts,
        "captions": captions,
    }


def _finder(folder: Path, home: Path) -> Callable[[Any], str | None]:
    """Make a function that returns the address of a picture below a folder."""

    def address(path: Any) -> str | None:
        file = home / path
        if len(str(file)) > _LETTERS or file.suffix.lower() not in _PICTURES:
            return None
        return address_of(folder, file)

    return address


def _frame(entry: Content) -> Content:
    visit = entry["visit"]
    region, policy = index(visit["region"]), _text(visit["policy"])
    return {"region": region, "policy": policy, "words": _visit(visit)}


def _visit(visit: Content) -> str:
    episode, step = index(visit["episode"]), index(visit["step"])
    return f"{_text(visit['policy'])}, episode {episode}, step {step}"


def _text(value: Any) -> str:
    return printable(value[:_LETTERS]) if isinstance(value, str) else ""


def _explanations(folder: Path) -> Iterator[tuple[Path, Content]]:
    """Find media of explanations: in folders of their own, then in that of the overview."""
    for file, content in explanation_files(folder):
        pairs = content.get("pairs")
        yield from ((file, _media_of(pair)) for pair in (pairs if isinstance(pairs, list) else ()))
        yield file, _media_of(content)  # of the overview, clips of behaviour classes


def _media_of(explanation: Any) -> Content:
    """Keep of an explanation what this page needs: the labels, the distance, pictures and clips."""
    kept: Content = {}
    with suppress(*BROKEN):
        kept = {name: explanation.get(name) for name in ("frames", "clips", "behaviours")}
        kept |= {name: explanation["decomposition"][name] for name in ("labels", "distance")}
    return kept
