"""HTML pages from templates/: single files that open without a network.

Templates escape everything that comes from files or the command line, with control characters made
visible; the script sets text as text only. A content security policy forbids loading anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pivec.figures import to_png
from pivec.files import atomic_write
from pivec.report.distance_figures import (
    MAX_RUNS,
    groups_figure,
    heatmap_figure,
    permanova_numbers,
    permanova_sentence,
    travel_band,
    with_interval,
)
from pivec.report.findings import UNSURE, Findings
from pivec.report.layout import has_groups
from pivec.report.policy_map import METHOD_NAMES, map_figure
from pivec.report.script_data import page_data
from pivec.run_log import versions
from pivec.statistics import LEVEL, Travel
from pivec.terminal import encodable, printable, shortened
from pivec.text import (
    interval,
    n_policies,
    percent,
    rounded,
    short_number,
    shorten_names,
    thousands,
    without_shared_folder,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

MAX_ROWS = 500  # of a table of runs or behaviours; the files beside the page hold all
MAX_STATIC = 100  # policies in the table of a page without its script
ON_PAPER = 25  # rows of a tall table that are printed, as print.css says
MAX_PAIRS = 5
MAX_NAMES = 12  # of the policies of a behaviour class
SHARPEST = 125  # dpi: twice what the page is wide

ENTRY, BUILT = "main.js", "built/script.js"
STYLES = ("page.css", "explore.css", "map.css", "panel.css", "tables.css", "live.css", "print.css")
_IMPORT = re.compile(r'^import\s*\{[^}]*\}\s*from\s*"\./([\w.-]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+", re.MULTILINE)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("pivec.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            printable(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
        ),
    )
    environment.filters |= {
        "capitalized": lambda text: text[:1].upper() + text[1:],
        "interval": interval,
        "json": lambda data: Markup(json_for_script(data)),  # noqa: S704
        "percent": percent,
        "permanova_numbers": permanova_numbers,
        "rounded": rounded,
        "shortened": shortened,
        "thousands": thousands,
        "with_interval": with_interval,
    }
    environment.tests["finite"] = lambda value: value is not None and math.isfinite(value)
    return environment


def render(
    template: str, style: str, script: str = "", rules: Sequence[str] = (), **parts: Any
) -> str:
    """Fill a template of a page; all text in ``parts`` is escaped.

    ``script`` is the only one that the page may run, and ``rules`` are more of its content policy.
    """
    return (
        _environment()
        .get_template(template)
        .render(
            style=style,
            script=script,
            policy=content_policy(script, *rules),
            version=versions().get("pivec", ""),
            max_rows=MAX_ROWS,
            on_paper=ON_PAPER,
            level=LEVEL,
            **parts,
        )
    )


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page; an earlier one is replaced when the new one is complete."""
    with atomic_write(path, "w") as file:
        file.write(encodable(page))


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


def resource(name: str) -> str:
    """Read a file of web/."""
    return files("pivec.report").joinpath("web", name).read_text(encoding="utf-8")


def script() -> str:
    """Return the script of the report: the modules of web/, joined and minified by `make page`."""
    return resource(BUILT).partition("\n")[2]


def joined() -> str:
    """Join the modules, each after those it imports; names at the top level are shared by all."""
    parts: dict[str, str] = {}

    def add(name: str) -> None:
        if name in parts:
            return
        source = resource(name)
        parts[name] = ""  # modules may import each other
        for other in _IMPORT.findall(source):
            add(other)
        del parts[name]  # after what it needs
        parts[name] = _EXPORT.sub("", _IMPORT.sub("", source))

    add(ENTRY)
    return '"use strict";\n(() => {\n' + "".join(parts.values()) + "})();\n"


def fingerprint(code: str) -> str:
    """Name a script as a content policy does.

    Examples
    --------
    >>> fingerprint("")
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
    """
    digest = hashlib.sha256(code.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def content_policy(code: str = "", *more: str) -> str:
    """Forbid loading anything but pictures beside the page, and running any other script."""
    rules = (
        "default-src 'none'",
        "img-src 'self' data:",
        "style-src 'unsafe-inline'",
        f"script-src {fingerprint(code) if code else chr(39) + 'none' + chr(39)}",
        "base-uri 'none'",
        "form-action 'none'",
        *more,
    )
    return "; ".join(rules)


def picture(figure: Figure) -> str:
    """Render a figure as the address of an image that is part of the page."""
    return png_address(to_png(figure, SHARPEST))


def png_address(png: bytes) -> str:
    """Return the address of an image that is part of the page."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


class Pictures(NamedTuple):
    """The PNG files of a comparison, which are also part of its page."""

    map: bytes
    heatmap: bytes

    @classmethod
    def of(cls, findings: Findings) -> Pictures:
        """Draw the map and the heatmap."""
        on_map = map_figure(findings.policies, findings.subtitle, links=findings.links)
        return cls(to_png(on_map), to_png(heatmap_figure(findings)))


def report_html(findings: Findings, pictures: Pictures | None = None, live: str = "") -> str:
    """Render the page of a comparison; pictures are drawn unless they are given.

    ``live`` is the version of the data if a server sends the page, which then asks it for more.
    """
    measured, policies = findings.measured, findings.policies
    pictures = pictures or Pictures.of(findings)
    title = "Behaviour of policies"
    if findings.environment:
        title = f"Behaviour in {findings.environment}"
    travels = sorted(measured.travels, key=lambda run: -run.total)
    nearest, farthest = (
        pairs.take(range(min(MAX_PAIRS, len(pairs))))
        for pairs in (measured.nearest, measured.farthest)
    )
    notices = findings.log.warnings
    return render(
        "report.html",
        "".join(map(resource, STYLES)),
        script(),
        ["connect-src 'self'"] if live else [],
        title=title,
        environment="",  # the title names it
        lead=summary(findings),
        figures=key_figures(findings),
        findings=findings,
        notices=[
            (own, rows)
            for own in (True, False)
            if (rows := [notice for notice in notices if notice.own == own])
        ],
        map=_map_section(findings, pictures.map, live),
        heatmap_png=png_address(pictures.heatmap),
        has_groups=has_groups([row.group for row in policies]),
        pairs=[
            (heading, list(zip(pairs.i, pairs.j, findings.rows_of(pairs), strict=True)))
            for heading, pairs in (("Nearest pairs", nearest), ("Farthest pairs", farthest))
            if len(pairs)
        ],
        has_intervals=bool(np.isfinite([*nearest.low, *farthest.low]).any()),
        has_overlap=bool(np.isfinite([*nearest.overlap, *farthest.overlap]).any()),
        distances_note=findings.distances_note,
        unsure=UNSURE,
        behaviours=_behaviours_section(findings),
        groups_test=permanova_sentence(findings.groups.test) if findings.groups else "",
        groups_png=picture(groups_figure(findings.groups)) if findings.groups else "",
        travels=travels,
        has_bands=any(run.half_widths is not None for run in travels),
        plot=travel_plot(travels[:MAX_RUNS], policies.group_colours) if travels else None,
        max_static=MAX_STATIC,
        method=[" ".join(part.split()) for part in re.split(r"\n\s*\n", findings.method.strip())],
        made=_made_section(findings),
    )


def summary(findings: Findings) -> str:
    """Say in a sentence what was compared."""
    policies = findings.policies
    n_own, n_runs = len(policies.compared), len(policies.runs)
    runs = f" from {thousands(n_runs)} training run{'s' * (n_runs != 1)}" if n_runs else ""
    rest = len(policies) - n_own
    context = f" {thousands(rest)} policies of an earlier map are shown in grey." if rest else ""
    return f"{n_policies(n_own)}{runs}, compared by the states they visit.{context}"


def key_figures(findings: Findings) -> dict[str, str]:
    """Return what a reader wants to know first, as text."""
    from scipy.spatial.distance import squareform

    own, n_runs = findings.policies.compared, len(findings.policies.runs)
    states = sum(row.states for row in own)
    figures = {"policies": thousands(len(own))}
    if n_runs:
        figures["training runs" if n_runs > 1 else "training run"] = thousands(n_runs)
    figures["episodes"] = thousands(sum(row.episodes for row in own))
    figures["states visited"] = (
        f"{states / 1e9:.3g} billion" if states >= 1e9
        else f"{states / 1e6:.3g} M" if states >= 1e7 else thousands(states)
    )  # fmt: skip
    returns = [row.mean_return for row in own if np.isfinite(row.mean_return)]
    if returns:
        figures["best mean return"] = f"{max(returns):.4g}"
    if findings.measured.estimates is not None and len(findings.policies) > 1:
        pairs = squareform(findings.measured.estimates, checks=False)
        figures["median distance"] = f"{np.median(pairs):.3g}"
    if findings.behaviours:
        figures["behaviours"] = thousands(len(findings.behaviours))
    if findings.alike_count:
        figures["pairs cannot be told apart"] = findings.alike_count
    return figures


def _map_section(findings: Findings, png: bytes, live: str) -> dict[str, Any]:
    method = METHOD_NAMES.get(findings.map_method, findings.map_method)
    about = "Each point is a policy; policies that visit similar states lie close together."
    if findings.links:
        about += " Pale bands join policies that cannot be told apart, each to its nearest ones."
    if method:
        laid_out = "The map was computed by" if findings.map_method == "tsne" else "Layout:"
        about += f" {laid_out} {method}."
    n = len(findings.policies.compared)
    return {
        "about": about,
        "label": f"Map of {n} policies in the plane; the table below lists them with their "
        "returns.",
        "png": png_address(png),
        "data": page_data(findings, live),
    }


def _behaviours_section(findings: Findings) -> dict[str, Any] | None:
    classes, policies = findings.behaviours, findings.policies
    if classes is None or len(policies) < 2:
        return None
    members: dict[int, list[int]] = {}
    for i, number in enumerate(classes.numbers):
        if number is not None:
            members.setdefault(number, []).append(i)
    rows = []
    for number, own in sorted(members.items()):
        returns = np.array([policies[i].mean_return for i in own])
        known = returns[np.isfinite(returns)]
        rows.append(
            {
                "number": number,
                "medoid": policies[classes.medoids[number - 1]].label,
                "size": len(own),
                "mean_return": float(known.mean()) if len(known) else math.nan,
                "members": [policies[i].label for i in own[:MAX_NAMES]],
                "more": max(len(own) - MAX_NAMES, 0),
            }
        )
    return {"words": findings.behaviours_words, "rows": rows}


def _made_section(findings: Findings) -> dict[str, Mapping[str, str]]:
    """Return what run.json holds."""
    log = findings.log
    timings = {key: f"{seconds:.3g} s" for key, seconds in log.timings.items()}
    if len(timings) > 1:
        timings["total"] = f"{sum(log.timings.values()):.3g} s"
    settings = {
        str(key): ", ".join(f"{name}={part}" for name, part in value.items())
        if isinstance(value, dict)
        else str(value)
        for key, value in log.settings.items()
    }
    return {"Settings": settings, "Time taken": timings, "Versions": versions()}


def travel_plot(travels: Sequence[Travel], colours: Mapping[str, str]) -> dict[str, Any]:
    """Return where the lines and labels of the static plot of runs are, in pixels."""
    names = shorten_names(without_shared_folder([run.group for run in travels]), 26)
    width, height, left, top = 1060.0, 360.0, 58.0, 14.0
    bottom, right = height - 44.0, width - 36.0 - 7.0 * max(map(len, names))
    steps = [float(step) for run in travels for step in run.steps]
    first, last = min(steps), max(steps)
    ticks = round_ticks(0.0, max(travel_band(run)[1].max() for run in travels) or 1.0)

    def x(step: float) -> float:
        return round(left + (step - first) / ((last - first) or 1.0) * (right - left), 1)

    def y(distance: float) -> float:
        return round(bottom - distance / ticks[-1] * (bottom - top), 1)

    def points(run: Travel, values: Any) -> list[str]:
        return [f"{x(s)},{y(d)}" for s, d in zip(run.steps, values.tolist(), strict=True)]

    lines = []
    heights = spread_out([y(run.total) for run in travels], 16, top, bottom)
    for run, name, label_y in zip(travels, names, heights, strict=True):
        band = ""
        if run.half_widths is not None:
            low, high = (points(run, end) for end in travel_band(run))
            band = " ".join(low + high[::-1])
        lines.append(
            {
                "group": run.group,
                "name": name,
                "colour": colours.get(run.group, "var(--lone)"),
                "points": points(run, run.cumulative),
                "band": band,
                "label_y": round(label_y, 1),
            }
        )
    return {
        "width": width, "height": height, "left": left, "right": right, "bottom": bottom,
        "lines": lines,
        "y_ticks": [(y(tick), rounded(tick)) for tick in ticks],
        "x_ticks": [
            (x(tick), short_number(tick))
            for tick in round_ticks(first, last)
            if first <= tick <= last
        ],
    }  # fmt: skip


def spread_out(heights: Sequence[float], gap: float, lowest: float, highest: float) -> list[float]:
    """Move labels as little as possible so that they keep a distance from each other.

    They stay between ``lowest`` and ``highest``, unless there are too many.
    """
    from sklearn.isotonic import isotonic_regression

    # Less the gaps below it, each label must only be no lower than the one before.
    order = np.argsort(heights, kind="stable")
    gaps = gap * np.arange(len(heights))
    room = max(highest - gaps[-1], lowest)
    places = np.empty(len(heights))
    places[order] = gaps + isotonic_regression(
        np.asarray(heights)[order] - gaps, y_min=lowest, y_max=room
    )
    return [float(place) for place in places]


def round_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Return round numbers from at or below ``low`` to at or above ``high``."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / count))
    size = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power * count >= span * 0.999)
    first, last = math.floor(low / size + 1e-9), math.ceil(high / size - 1e-9)
    return [float(f"{k * size:.12g}") for k in range(first, max(last, first + 1) + 1)]
