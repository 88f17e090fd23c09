"""One HTML file that shows a comparison and opens without a network.

Everything that comes from files or the command line is escaped where it is put into the page:
HTML by `html.escape`, data for the script as JSON without ``<``, ``>`` and ``&``; the script sets
text as text only. A content security policy forbids to load anything.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np

from pivec.atomic import atomic_write
from pivec.report.canvas import to_png
from pivec.report.colours import PLASMA, VIRIDIS, group_colours
from pivec.report.data import ReportData
from pivec.report.heatmap import distances_figure, has_groups
from pivec.report.map_figure import informative_colourings, map_figure
from pivec.report.page_tables import (
    facts_html,
    notices_html,
    pairs_html,
    policies_html,
    shown_text,
    travel_table_html,
)
from pivec.report.text import thousands
from pivec.report.travel import travel_svg
from pivec.terminal import encodable, printable

TSNE_READING = (
    "On the map, neighbours are policies that behave alike. The space between far-apart clusters, "
    "the directions and the absolute size carry no meaning: read distances from the heatmap and "
    "the tables."
)
LINEAR_READING = (
    "With so few policies the map is a linear projection: the length of the way between two points "
    "is about the square root of their distance, as far as two dimensions can show it. Directions "
    "carry no meaning."
)
# The median over more entries than this is taken from a part of the rows.
MEDIAN_ROWS = 2000
SHARPEST = 125  # dpi: twice what the page is wide


def write_report(path: str | os.PathLike[str], report: ReportData) -> None:
    """Write a page with the map, the distances, the runs and the table of policies.

    Parameters
    ----------
    path : path
        Replaced when the new page is whole.
    report : ReportData

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "report.html"
    >>> write_report(path, ReportData(
    ...     title="Two policies", environment="CartPole-v1", labels=["a", "b"],
    ...     groups=["run", "run"], steps=[1, 2], positions=np.array([[0.0, 0.0], [1.0, 1.0]]),
    ...     mean_returns=np.array([0.0, 1.0]), return_stds=np.zeros(2), n_episodes=[10, 10],
    ...     n_states=[500, 700], sources=["a.zip", "b.zip"], is_reference=[False, False],
    ...     map_method="pca"))
    >>> "<title>Two policies</title>" in path.read_text(encoding="utf-8")
    True
    """
    page = report_html(report)
    with atomic_write(path, "w") as file:
        file.write(encodable(page))


def report_html(report: ReportData) -> str:
    """Make the page that `write_report` writes."""
    n_own = len(report) - sum(map(bool, report.is_reference))
    names = report.group_names()
    colours = dict(zip(names, group_colours(len(names)), strict=True))
    picture = to_png(map_figure(report), SHARPEST)
    table, note = policies_html(report, colours)
    parts = {
        "title": shown_text(report.title),
        "environment": shown_text(report.environment),
        "summary": _summary(report, n_own),
        "figures": _key_figures(report, n_own),
        "notices": notices_html(report),
        "map_about": _about_map(report),
        "map_reading": LINEAR_READING if report.map_method in ("pca", "mds") else TSNE_READING,
        "map_label": escape(
            f"Map of {n_own} policies in the plane; the table below lists them with their returns."
        ),
        "map_png": _data_uri(picture),
        "distances_section": _distances_section(report),
        "travel_section": _travel_section(report, colours),
        "policies_table": table,
        "policies_note": note,
        "method": _method(report),
        "made": facts_html(report),
        "version": shown_text(report.versions.get("pivec", "")),
        "data": json_for_script(map_data(report, colours)),
        "style": _resource("page.css"),
        "script": _resource("page.js"),
    }
    # One pass: what is put in is not looked at again, whatever it holds.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _resource("page.html"))


def map_data(report: ReportData, colours: dict[str, str]) -> dict[str, Any]:
    """Collect what the script needs to draw the map, in columns."""
    number = {name: k for k, name in enumerate(colours)}
    runs = report.runs()
    own = [i for i in range(len(report)) if not report.is_reference[i]]
    return {
        "l": [printable(label) for label in report.labels],
        "g": [number.get(group, -1) for group in report.groups],
        "s": [None if step is None else int(step) for step in report.steps],
        "x": [_short(x) for x in report.positions[:, 0].tolist()],
        "y": [_short(y) for y in report.positions[:, 1].tolist()],
        "r": [_short(value) for value in report.mean_returns.tolist()],
        "d": [_short(value) for value in report.return_stds.tolist()],
        "reference": [i for i in range(len(report)) if report.is_reference[i]],
        "groups": [printable(name) for name in colours],
        "groupColours": list(colours.values()),
        "runs": [{"g": number[name], "rows": rows} for name, rows in runs.items()],
        "scales": {"return": VIRIDIS, "step": PLASMA[:14]},
        "colourings": informative_colourings(report),
        "anySteps": any(report.steps[i] is not None for i in own),
        "anyLone": any(not report.groups[i] for i in own),
    }


def json_for_script(data: Any) -> str:
    r"""Write JSON that cannot end the script element it stands in.

    Examples
    --------
    >>> print(json_for_script("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _summary(report: ReportData, n_own: int) -> str:
    n_runs = len(report.runs())
    policies = f"{thousands(n_own)} {'policy' if n_own == 1 else 'policies'}"
    runs = f" from {thousands(n_runs)} training run{'s' * (n_runs != 1)}" if n_runs else ""
    rest = len(report) - n_own
    context = f" {thousands(rest)} policies of an earlier map are shown in grey." if rest else ""
    return escape(f"{policies}{runs}, compared by the states they visit.{context}")


def _key_figures(report: ReportData, n_own: int) -> str:
    own = ~np.asarray(report.is_reference, dtype=bool)
    figures = [("policies", thousands(n_own))]
    n_runs = len(report.runs())
    if n_runs:
        figures.append(("training runs" if n_runs > 1 else "training run", thousands(n_runs)))
    figures.append(("episodes", thousands(int(np.asarray(report.n_episodes)[own].sum()))))
    figures.append(("states visited", _millions(int(np.asarray(report.n_states)[own].sum()))))
    returns = report.mean_returns[own]
    returns = returns[np.isfinite(returns)]
    if len(returns):
        figures.append(("best mean return", f"{returns.max():.4g}"))
    if report.distances is not None and len(report) > 1:
        figures.append(("median distance", f"{_median_distance(report.distances):.3g}"))
    return "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in figures)


def _about_map(report: ReportData) -> str:
    how = report.method_name()
    made = (
        f" The plane was laid out by {how}." if report.map_method == "tsne" else f" Layout: {how}."
    )
    return escape(
        "Each point is a policy; policies that visit similar states lie close together."
        + (made if how else "")
    )


def _distances_section(report: ReportData) -> str:
    if report.distances is None and not report.nearest and not report.farthest:
        return ""
    image = ""
    if report.distances is not None:
        figure = distances_figure(report.distances, report, title="", subtitle="")
        picture = to_png(figure, SHARPEST)
        image = (
            f'<img class="paper" src="{_data_uri(picture)}" '
            'alt="Heatmap of the distances between all policies">'
        )
    order = "Light is near, dark is far. " + (
        "Policies of one group stand together, in order of training; groups that are alike are "
        "neighbours."
        if has_groups(report.groups)
        else "Policies that are alike are neighbours."
    )
    return (
        '<section aria-labelledby="distances"><h2 id="distances">Distances</h2>'
        f'<p class="about">{order if image else ""}</p>'
        f'<div class="pair"><div>{image}</div><div>'
        f"{pairs_html(report, report.nearest, 'Nearest pairs')}"
        f"{pairs_html(report, report.farthest, 'Farthest pairs')}</div></div></section>"
    )


def _travel_section(report: ReportData, colours: dict[str, str]) -> str:
    if not report.travel:
        return ""
    of_runs = [colours.get(name, "var(--lone)") for name, _, _ in report.travel]
    return (
        '<section aria-labelledby="travel"><h2 id="travel">Distance travelled</h2>'
        '<p class="about">The sum of the distances between successive checkpoints of a run: '
        "how much its behaviour changed on the way, which may be far more than from start to "
        f"end.</p>{travel_svg(report.travel, of_runs)}{travel_table_html(report, of_runs)}"
        "</section>"
    )


def _method(report: ReportData) -> str:
    paragraphs = [part for part in re.split(r"\n\s*\n", report.method.strip()) if part]
    shown = "".join(f"<p>{shown_text(' '.join(part.split()))}</p>" for part in paragraphs)
    formula = report.formula.strip()
    return shown + (f'<p class="formula">{escape(formula)}</p>' if formula else "")


def _median_distance(distances: Any) -> float:
    d = np.asarray(distances)
    rows = np.unique(np.linspace(0, len(d) - 1, min(len(d), MEDIAN_ROWS)).astype(int))
    part = d[np.ix_(rows, rows)]
    return float(np.median(part[~np.eye(len(part), dtype=bool)]))


def _millions(count: int) -> str:
    return f"{count / 1e6:.3g} M" if count >= 1e7 else thousands(count)


def _short(value: float) -> float | None:
    """Round to six digits, for a page of bearable size; NaN and infinity become null."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def _resource(name: str) -> str:
    return files("pivec.report").joinpath(name).read_text(encoding="utf-8")
