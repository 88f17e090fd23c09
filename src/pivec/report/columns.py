"""What the page's script gets: columns of all policies, and what it measures distances with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pivec.canvas import colour_scale, group_colours
from pivec.report.anatomy import features_blob, regions_blob
from pivec.report.certainty import near_blob, pairs_blob, spread_blob
from pivec.report.data import PolicyRow, ReportData, colours_of_groups, in_order
from pivec.report.media import panel_media
from pivec.report.packed import Column, numbers, size_of, text
from pivec.report.points import rounded_points
from pivec.report.sections.distances import heatmap_order
from pivec.report.sections.map import alike_pairs
from pivec.terminal import printable

FORMAT = 1
# Letters of a page of 30 000 policies and of 300 000, in a straight line between.
_ROOM, _MORE_ROOM = 11.5e6, 38e6


def page_data(report: ReportData) -> dict[str, Any]:
    """Collect everything that the script shows, as values that JSON can hold."""
    rows = report.rows
    colours = colours_of_groups(rows)
    blob: dict[str, Any] = {
        "format": FORMAT,
        "live": report.live,
        "n": len(rows),
        "columns": policy_columns(rows, list(colours)),
        "groups": [printable(name) for name in colours],
        "groupColours": list(colours.values()),
        "palette": group_colours(36),
        "scales": {"return": colour_scale("viridis"), "step": colour_scale("plasma")},
        "joins": numbers(alike_pairs(report.measured), "i4"),
        "travels": _travels(report, list(colours)),
        "heatmapOrder": numbers(heatmap_order(report.measured.estimates, rows), "i4"),
        "features": features_blob(report.space),
        "regions": regions_blob(report.space),
        "media": panel_media(report),
    }
    blob |= _distances(report, size_of(blob))
    return blob | {"words": _words(blob)}


def _distances(report: ReportData, taken: int) -> dict[str, Any]:
    """Give what distances are measured with, and say in words what there is no room for."""
    measured, space, n = report.measured, report.space, len(report.rows)
    pairs = pairs_blob(measured, space)
    spread = None if pairs else spread_blob(measured, space)
    blob: dict[str, Any] = {"pairs": pairs, "spread": spread, "points": None, "near": None}
    rounded = None
    if space is not None and space.descriptions.points is not None:
        more = min(max((n - 30_000) / 270_000, 0.0), 1.0)
        room = _ROOM + (_MORE_ROOM - _ROOM) * more - taken - size_of(blob)
        rounded = rounded_points(space.descriptions.points, measured.neighbours, room)
        blob["points"] = None if rounded is None else rounded.blob()
    if pairs is None and rounded is None:
        blob["near"] = near_blob(measured)
    return blob


def _words(blob: dict[str, Any]) -> str:
    """Say what the page's own distances are worth, and what this file does not hold."""
    serve = "pivec serve OUT, with the folder of this comparison, has all distances exactly."
    if blob["pairs"]:
        return ""
    if blob["points"]:
        wider = " Intervals are wider than they need be." if blob["spread"] else ""
        return (
            "There are too many pairs to keep: this page measures distances itself, half of them "
            f"to within {100 * blob['points']['error']:.2g} %.{wider} {serve}"
        )
    if blob["regions"] and blob["regions"]["kind"] == "gaussian":
        return f"This page measures distances itself, with the noise of sampling in them. {serve}"
    if blob["near"]:
        return f"This file knows only the {blob['near']['k']} nearest of each policy. {serve}"
    return f"This file holds no distances. {serve}" if blob["n"] > 1 else ""


def policy_columns(rows: Sequence[PolicyRow], groups: Sequence[str]) -> dict[str, Column]:
    """Give a column for each thing known of a policy; NaN stands for what is not."""
    number = {name: k for k, name in enumerate(groups)}
    return {
        "label": text(row.label for row in rows),
        "source": text(row.source for row in rows),
        "group": numbers([number.get(row.group, -1) for row in rows], "i4"),
        "step": numbers([np.nan if row.step is None else row.step for row in rows], "f8"),
        "x": numbers([row.x for row in rows], "f4"),
        "y": numbers([row.y for row in rows], "f4"),
        "return": numbers([row.mean_return for row in rows], "f4"),
        "deviation": numbers([row.return_std for row in rows], "f4"),
        "episodes": numbers([row.episodes for row in rows], "i4"),
        "states": numbers([row.states for row in rows], "f8"),
        "behaviour": numbers([row.behaviour or 0 for row in rows], "i4"),
        "reference": numbers([row.reference for row in rows], "u1"),
        "placed": numbers([row.placed for row in rows], "u1"),
        "order": numbers(in_order(rows), "i4"),
    }


def _travels(report: ReportData, groups: Sequence[str]) -> list[dict[str, Any]]:
    """Give the distance along each run, with its half-widths where they are known."""
    number = {name: k for k, name in enumerate(groups)}
    return [
        {
            "group": number.get(run.group, -1),
            "rows": list(run.rows),
            "cumulative": [_short(value) for value in run.cumulative],
            "half": None if run.half_widths is None else [_short(v) for v in run.half_widths],
        }
        for run in report.measured.travels
    ]


def _short(value: float) -> float | None:
    """Round to five digits, for a page of bearable size."""
    return float(f"{value:.5g}") if np.isfinite(value) else None
