"""The files of a comparison (CSV, PNG, report.html), and HTML pages from templates/.

Pages are single files that open without a network. Templates escape everything that comes from
files or the command line, with control characters made visible; the script sets text as text only.
A content security policy forbids loading anything.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import math
import os
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pivec.characterizations import Measured
from pivec.errors import PivecError, UsageError
from pivec.figures import group_colours, to_png, to_vector
from pivec.files import atomic_write, cell, make_folder, read_regular, write_csv
from pivec.options import FORMATS
from pivec.report.distance_figures import groups_figure, heatmap_figure, travel_figure
from pivec.report.findings import (
    DISTANCES_CSV,
    DISTANCES_NPZ,
    SPACE,
    UNSURE,
    Findings,
    Outcome,
    PairRow,
    PolicyRow,
    distances_file,
)
from pivec.report.groups import PAIR_COLUMNS, group_columns, permanova_sentence
from pivec.report.layout import has_groups
from pivec.report.policy_map import METHOD_NAMES, map_figure
from pivec.report.script_data import MAX_COLOURS, Content, page_data
from pivec.report.site import REPORT, SitePage, site_pages, within
from pivec.run_log import versions
from pivec.statistics import LEVEL
from pivec.terminal import encodable, printable, shortened
from pivec.text import (
    capitalized,
    interval,
    n_policies,
    percent,
    rounded,
    thousands,
)

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.figure import Figure

MAX_ROWS = 500  # of a table of runs or behaviours; the files beside the page hold all
MAX_STATIC = 100  # policies in the table of a page without its script
ON_PAPER = 25  # rows of a tall table that are printed, as print.css says
MAX_PAIRS = 4
MAX_NAMES = 12  # of the policies of a behaviour class
MAX_LINKS = 30  # of one kind in the navigation; the report has all
MAX_PAGE = 1 << 26  # bytes
MAX_EMBEDDED = 6_000_000  # bytes of pictures within a page; others are links to files beside it
SHARPEST = 125  # dpi: twice what the page is wide

# Bundles made by scripts/page/build.py, and the modules they start from.
SCRIPTS = {"script.js": "main.tsx", "player.js": "player_page.ts"}
# Of a page that waits. The header Refresh does not load an address with a part after # again.
RELOAD = "setTimeout(() => location.reload(), 2000);"
STYLES = ("site.css", "page.css", "workbench.css", "player.css", "print.css")
_TIME = "Time taken"
_HEADINGS = (  # of the navigation, with the kinds of pages
    ("Overview", "report"),
    ("What differs", "overview", "pair"),
    ("Runs", "run"),
    ("Groups", "groups"),
    ("Regions", "regions"),
    ("Unusual episodes", "unusual"),
)
_IMAGE_TYPES = {".webp": "image/webp", ".png": "image/png"}


def write_results(folder: str | os.PathLike[str], findings: Findings) -> Path:
    """Write the tables, pictures and page of a comparison; return the path of the page.

    These are distances.csv (or distances.npz), pairs.csv, map.csv, kinds.csv and episodes.csv (if
    there are regions and states), duplicates.csv, coverage.csv and drift.csv (of recorded
    episodes, where there is something to list), distances.png, map.png (or .svg or .pdf) and
    report.html.
    """
    home = make_folder(folder)
    write_distances(home, findings.policies.labels, findings.measured)
    write_pairs_csv(home / "pairs.csv", findings.pair_rows)
    write_map_csv(home / "map.csv", findings.policies, findings.outcomes)
    datasets = findings.datasets.tables() if findings.datasets else {}
    for name, head, rows in (
        ("kinds.csv", b"policy,kind,", findings.kinds and findings.kinds.rows()),
        (
            "episodes.csv",
            b"policy,episode,seed,kind,",
            findings.episodes and findings.episodes.rows(),
        ),
        ("duplicates.csv", b"group,policy,episode,exact,", datasets.get("duplicates.csv")),
        ("coverage.csv", b"policy,dataset,reached,", datasets.get("coverage.csv")),
        ("drift.csv", b"policy,p,q,quantity,", datasets.get("drift.csv")),
    ):
        if rows:
            write_csv(home / name, list(rows[0]), (map(cell, row.values()) for row in rows))
        else:
            _remove_csv(home / name, head)
    pictures, kind = Pictures.of(findings), findings.log.settings.get("figures")
    kind = kind if kind in FORMATS else "png"
    for name, png, draw in (
        ("distances", pictures.heatmap, heatmap_figure),
        ("map", pictures.map, _map),
    ):
        with atomic_write(home / f"{name}.{kind}") as file:
            file.write(png if kind == "png" else to_vector(draw(findings), kind))
    write_page(home / "report.html", report_html(findings, pictures))
    return home / "report.html"


def write_distances(
    folder: str | os.PathLike[str], labels: Sequence[str], measured: Measured
) -> None:
    """Write distances.csv, or distances.npz for more than 1000 policies.

    distances.csv has labels in the first row and the first column. distances.npz has ``labels``;
    ``neighbours``, the numbers of the nearest others of each policy, and ``neighbour_distances``;
    ``distances`` as measured, if the matrix is kept; and if all intervals are known, ``estimates``
    (without sampling noise; may be below 0), ``low``, ``high`` and ``p``. The other file, if an
    earlier run left it, is removed.
    """
    n = len(measured.neighbours)
    if len(labels) != n:
        raise UsageError(f"distances must be those of the {len(labels)} labels, but are of {n}")
    names = [printable(label) for label in labels]
    csv_file, npz_file = Path(folder, DISTANCES_CSV), Path(folder, DISTANCES_NPZ)
    if distances_file(n) == DISTANCES_CSV:
        if measured.matrix is None:
            raise UsageError("expected all distances, but only those to nearest others are known")
        rows = ([names[i], *row.tolist()] for i, row in enumerate(measured.matrix))
        write_csv(csv_file, ["label", *names], rows)
        # Another file of this name may be the user's own.
        if zipfile.is_zipfile(npz_file):
            with zipfile.ZipFile(npz_file) as archive:
                ours = {"labels.npy", "neighbours.npy"} <= set(archive.namelist())
            if ours:
                npz_file.unlink()
        return
    matrices = {"neighbour_distances": measured.neighbour_distances}
    if measured.matrix is not None:
        matrices["distances"] = measured.matrix
    if (sure := measured.intervals) is not None:
        matrices |= {"estimates": sure.distance, "low": sure.low, "high": sure.high}
        matrices["p"] = sure.p_value
    arrays: dict[str, Any] = {name: _compact(matrix) for name, matrix in matrices.items()}
    near = measured.neighbours.astype(np.int32)
    with atomic_write(npz_file) as file:
        np.savez(file, labels=np.array(names), neighbours=near, **arrays)
    _remove_csv(csv_file, b"label,")


def _remove_csv(path: Path, head: bytes) -> None:
    """Remove a table that an earlier run left; another file of this name may be the user's own."""
    with contextlib.suppress(FileNotFoundError):
        with path.open("rb") as file:
            ours = file.readline(len(head)) == head
        if ours:
            path.unlink()


def _compact(values: NDArray[np.float64]) -> NDArray[np.floating]:
    """Convert to float32, seven digits where sampling leaves three, unless some are too large."""
    most = np.abs(values, where=np.isfinite(values), out=np.zeros_like(values)).max(initial=0.0)
    return values.astype(np.float32) if most <= np.finfo(np.float32).max else values


def write_map_csv(
    path: str | os.PathLike[str], rows: Sequence[PolicyRow], outcomes: Sequence[Outcome] = ()
) -> None:
    """Write a map, one line per policy; an unknown step or return is an empty cell.

    Outcomes are further columns: the mean of each policy, and the ends of its interval.
    """
    further = {
        outcome.name + end: values
        for outcome in outcomes
        for end, values in zip(("", "_low", "_high"), outcome.intervals, strict=True)
    }
    _write_rows(path, PolicyRow, rows, further)


def write_pairs_csv(path: str | os.PathLike[str], rows: Iterable[PairRow]) -> None:
    """Write distances of pairs and their uncertainty, one line per pair.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "pairs.csv"
    >>> unknown = float("nan")
    >>> write_pairs_csv(path, [PairRow("a", "b", 0.3, 0.2, 0.4, unknown, 0.001, 0.002)])
    >>> print(path.read_text())
    policy,other,distance,low,high,overlap,p,q
    a,b,0.3,0.2,0.4,,0.001,0.002
    """
    _write_rows(path, PairRow, rows)


def _write_rows(
    path: str | os.PathLike[str],
    kind: type[Any],
    rows: Iterable[Any],
    further: Mapping[str, NDArray[np.float64]] = {},
) -> None:
    columns = [column.name for column in fields(kind) if column.metadata.get("csv", True)]
    lines = (
        [cell(getattr(row, name)) for name in columns]
        + [cell(float(values[i])) for values in further.values()]
        for i, row in enumerate(rows)
    )
    write_csv(path, [*columns, *further], lines)


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
            printable(value).replace(" %", "\u00a0%")
            if isinstance(value, str) and not hasattr(value, "__html__")
            else value
        ),
    )
    for function in (capitalized, interval, percent, rounded, shortened, thousands):
        environment.filters[function.__name__] = function
    environment.filters["json"] = lambda data: Markup(json_for_script(data))  # noqa: S704
    environment.tests["finite"] = lambda value: value is not None and math.isfinite(value)
    return environment


def render(
    template: str, style: str, script: str = "", rules: Sequence[str] = (), **parts: Any
) -> str:
    """Fill a template of a page; all text in ``parts`` is escaped.

    ``script`` is the only one that the page may run, and ``rules`` are more of its content policy.
    ``pages`` is the navigation; `link_pages` adds that of most pages.
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
            **{"pages": ()} | parts,
        )
    )


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page; an earlier one is replaced when the new one is complete."""
    with atomic_write(path, "w") as file:
        file.write(encodable(page))


def rewrite_report(folder: Path, findings: Findings) -> None:
    """Write report.html again, with the PNG files beside it unless the space is newer."""
    files, pictures = [folder / "map.png", folder / "distances.png"], None
    with contextlib.suppress(OSError, PivecError):
        drawn = min(file.stat().st_mtime_ns for file in files)
        newer = drawn >= (folder / SPACE / "space.npz").stat().st_mtime_ns
        if newer and all(within(folder, file) for file in files):
            pictures = Pictures(*(read_regular(file, MAX_PAGE) for file in files))
    write_page(folder / REPORT, report_html(findings, pictures))


def link_pages(folder: Path) -> None:
    """Update the navigation of all pages of a comparison but the report, which is written again."""
    links: Any = _environment().get_template("navigation.html").module
    pages = site_pages(folder)
    for page in pages:
        if page.kind != "report":
            with contextlib.suppress(OSError, PivecError):  # gone meanwhile, or too large
                _replace_links(folder / page.path, links.links(navigation(pages, page.path)))


def _replace_links(file: Path, links: str) -> None:
    """Replace what is between the marks of navigation.html, unless it is there already."""
    content = read_regular(file, MAX_PAGE)
    first, last = (f"<!-- {mark}pages -->".encode() for mark in ("", "/"))
    before, found, rest = content.partition(first)
    old, ended, after = rest.partition(last)
    new = encodable(links).encode()
    if found and ended and old != new:
        with atomic_write(file) as stream:
            stream.writelines((before, first, new, last, after))


def navigation(pages: Sequence[SitePage], current: str = REPORT) -> list[dict[str, Any]]:
    """Group the pages of a comparison as navigation.html shows them on one of them."""
    headings = {
        heading: [page for kind in kinds for page in pages if page.kind == kind]
        for heading, *kinds in _HEADINGS
    }
    return [
        {
            "heading": heading,
            "current": any(page.path == current for page in own),
            "pages": [
                {"title": page.title, "href": page.href(current), "current": page.path == current}
                for page in own[:MAX_LINKS]
            ],
            "more": len(own) > MAX_LINKS,
        }
        for heading, own in headings.items()
        if own
    ]


def json_for_script(data: Any) -> str:
    r"""Write JSON that cannot end the script element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def web_folder() -> Path:
    """Return the folder of styles and scripts."""
    return Path(str(files("pivec.report").joinpath("web")))


def resource(name: str) -> str:
    """Read a file of web/."""
    return (web_folder() / name).read_text(encoding="utf-8")


def script(name: str = "script.js") -> str:
    """Return a script of the pages: modules of web/, bundled and minified by `make page`."""
    return resource(f"built/{name}").partition("\n")[2]


def fingerprint(code: str) -> str:
    """Name a script as a content policy does."""
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
    return _address(to_png(figure, SHARPEST))


def _address(content: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


class Embedder:
    """Returns pictures as addresses that contain them, until a page is large enough."""

    def __init__(self, most: int = MAX_EMBEDDED) -> None:
        self.left = most

    def __call__(self, path: Path | None) -> str | None:
        """Return the address of a picture, or None if there is no room for it."""
        kind = None if path is None else _IMAGE_TYPES.get(path.suffix)
        if path is None or kind is None or not path.is_file() or path.stat().st_size > self.left:
            return None
        content = path.read_bytes()
        self.left -= len(content)
        return _address(content, kind)


class Pictures(NamedTuple):
    """The PNG files of a comparison, which are also part of its page."""

    map: bytes
    heatmap: bytes

    @classmethod
    def of(cls, findings: Findings) -> Pictures:
        """Draw the map and the heatmap."""
        return cls(to_png(_map(findings)), to_png(heatmap_figure(findings)))


def _map(findings: Findings) -> Figure:
    return map_figure(findings.policies, findings.subtitle, links=findings.links)


def report_html(
    findings: Findings, pictures: Pictures | None = None, live: Content | None = None
) -> str:
    """Render the page of a comparison; pictures are drawn unless they are given.

    ``live`` is the data of the page if a server sends it, which is then asked for more.
    """
    measured, groups = findings.measured, findings.groups
    pictures = pictures or Pictures.of(findings)
    travels = sorted(measured.travels, key=lambda run: -run.total)
    notices, folder = findings.log.warnings, findings.log.folder
    return render(
        "report.html",
        "".join(map(resource, STYLES)),
        script(),
        ["connect-src 'self'"] if live else [],
        title=f"Behaviour in {findings.environment}"
        if findings.environment
        else "Behaviour of policies",
        environment="",  # the title names it
        pages=navigation(site_pages(findings.log.folder)),
        lead=summary(findings),
        figures=key_figures(findings),
        findings=findings,
        notices=[
            (own, rows)
            for own in (True, False)
            if (rows := [notice for notice in notices if notice.own == own])
        ],
        map_png=_address(pictures.map),
        map_method=METHOD_NAMES.get(findings.map_method, findings.map_method),
        data=page_data(findings) if live is None else live,
        # The page is shown to others: where on a disk it was made is left out.
        folder=folder.name if folder.is_absolute() else str(folder),
        volatile=_TIME,
        heatmap_png=_address(pictures.heatmap),
        has_groups=has_groups([row.group for row in findings.policies]),
        pairs=_listed_pairs(findings),
        has_overlap=bool(np.isfinite(measured.pairs.overlap).any()),
        unsure=UNSURE,
        behaviours=_behaviours(findings),
        kinds=findings.kinds if findings.kinds and len(findings.kinds) > 1 else None,
        max_names=MAX_NAMES,
        group_columns=group_columns(groups) if groups else (),
        pair_columns=PAIR_COLUMNS,
        groups_test=permanova_sentence(groups.test) if groups else "",
        groups_verdict=groups.headline() if groups else "",
        groups_png=picture(groups_figure(groups)) if groups else "",
        travels=travels,
        numbers={label: k for k, label in enumerate(findings.policies.labels)},
        run_numbers={name: k for k, name in enumerate(findings.policies.group_colours)},
        travels_png=picture(travel_figure(travels, findings.policies.group_colours))
        if travels
        else "",
        max_static=MAX_STATIC,
        method=[" ".join(part.split()) for part in re.split(r"\n\s*\n", findings.method.strip())],
        made=_made(findings),
    )


def _listed_pairs(findings: Findings) -> dict[str, list[tuple[int, int, PairRow]]]:
    """Return the nearest pairs that differ and the farthest ones, each list with its heading."""
    near, far = findings.listed_pairs(MAX_PAIRS)
    known = findings.measured.n_known
    lists = {"Nearest pairs that differ" if known else "Nearest pairs": near, "Farthest pairs": far}
    return {
        heading: list(zip(pairs.i.tolist(), pairs.j.tolist(), findings.rows_of(pairs), strict=True))
        for heading, pairs in lists.items()
        if len(pairs)
    }


def waiting_html(title: str, words: str, notes: Sequence[str] = ()) -> str:
    """Render what a server sends before there is a page to show."""
    head: dict[str, Any] = {"title": title, "lead": words, "environment": "", "figures": {}}
    return render("waiting.html", "".join(map(resource, STYLES[:2])), RELOAD, notes=notes, **head)


def summary(findings: Findings) -> str:
    """Return one sentence about what was compared."""
    policies = findings.policies
    n_own, n_runs = len(policies.compared), len(policies.runs)
    runs = f" from {thousands(n_runs)} training run{'s' * (n_runs != 1)}" if n_runs else ""
    rest = len(policies) - n_own
    are = "is" if rest == 1 else "are"
    context = f" {n_policies(rest)} of an earlier map {are} shown in grey." if rest else ""
    return f"{n_policies(n_own)}{runs}.{context}"


def key_figures(findings: Findings) -> dict[str, str]:
    """Return the most important numbers as text."""
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
        figures["behaviour classes"] = thousands(len(findings.behaviours))
    if findings.alike_count:
        figures["pairs not distinguished"] = findings.alike_count
    return figures


def _behaviours(findings: Findings) -> list[dict[str, Any]]:
    """Return one row per behaviour class, the largest first."""
    classes, policies = findings.behaviours, findings.policies
    if classes is None or len(policies) < 2:
        return []
    colours = group_colours(MAX_COLOURS)
    members: dict[int, list[int]] = {}
    for i, number in enumerate(classes.numbers):
        if number is not None:
            members.setdefault(number, []).append(i)
    return [
        {
            "number": number,
            "medoid": classes.medoids[number - 1],
            "members": own,
            "colour": colours[(number - 1) % len(colours)] if len(own) > 1 else "var(--lone)",
            "mean_return": _mean([policies[i].mean_return for i in own]),
        }
        for number, own in sorted(members.items())
    ]


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def _made(findings: Findings) -> dict[str, Mapping[str, str]]:
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
    return {"Settings": settings, _TIME: timings, "Versions": versions()}
