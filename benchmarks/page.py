"""The page that people explore behaviour with, beside the page before it was a workbench.

    python benchmarks/page.py [--policies 50 3000 30000 300000] [--rounds 1]

Headless Chromium without a graphics card. The peer is pivec's page at a commit of its history.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import page_frames
from measure import in_process, serve, table, write_section
from page_frames import measure_page

ROOT = Path(__file__).parents[1]
BEFORE = "29ccad26"  # the last commit with a page of sections below each other
GOALS = {
    (30_000, "hover"): 17.0,
    (30_000, "zoom"): 17.0,
    (30_000, "pan"): 17.0,
    (30_000, "hover work"): 8.0,
    (30_000, "zoom work"): 8.0,
    (30_000, "pan work"): 8.0,
    (30_000, "opens"): 2.0,
    (30_000, "file"): 12.0,
    (30_000, "script, kB"): 140.0,
    (30_000, "words"): 150.0,
    (300_000, "pan"): 33.0,
    (300_000, "opens"): 4.0,
    (300_000, "file"): 40.0,
}
MAKERS = "tests/browser"  # of drawn policies and their pages; the peer has its own
sys.path.append(str(ROOT / MAKERS))


def make(n: int, path: str) -> dict[str, Any]:
    """Write the page of n policies, by the pivec that this process imports."""
    from made_pages import drawn, report_of

    from pivec.characterizations import WHOLE, measure
    from pivec.report import report_html, write_page

    space = drawn(n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # drawn policies have no episodes, so no intervals
        measured = measure(space.method, space.descriptions) if n <= WHOLE else None
    report = report_of(space, measured)
    start = time.perf_counter()
    write_page(path, report_html(report))
    return {"seconds": time.perf_counter() - start}


def earlier(folder: Path) -> Path | None:
    """Unpack the sources of the peer; None where history does not reach back so far."""
    archive = subprocess.run(
        ["git", "archive", BEFORE, "src", MAKERS], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        return None
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    return folder


def script_size(page: str) -> float:
    """Kilobytes of the script that the page runs."""
    return len(page.rsplit("<script>", 1)[1].split("</script>", 1)[0].encode()) / 1000


def main() -> None:
    """Make the pages, measure them in turn, and write the section of the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--policies", type=int, nargs="+", default=[50, 3000, 30_000, 300_000])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--painters", nargs="+", default=["pixels", "webgl"])
    parser.add_argument("--dry", action="store_true", help="print, and leave RESULTS.md alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        before = earlier(folder / "before")
        trees = ({"before": before} if before else {}) | {"now": ROOT}
        rows, sizes = [], {}
        for n in options.policies:
            for tree, source in trees.items():
                path = folder / f"{tree}-{n}.html"
                found = f"{source / 'src'}:{source / MAKERS}"
                made = in_process(__file__, "make", {"n": n, "path": str(path)}, PYTHONPATH=found)
                facts = {"file": path.stat().st_size / 1e6, "made": made["seconds"]}
                sizes[tree] = script_size(path.read_text(encoding="utf-8"))
                facts["script, kB"] = sizes[tree]
                for painter in [""] if tree == "before" else options.painters:
                    best = measured(path.as_uri(), painter, options.rounds)
                    rows.append((n, tree, painter, facts | best))
                    print(rows[-1], flush=True)
                path.unlink()
    text = report(rows, sizes)
    print(text)
    if not options.dry:
        write_section("page", text)


def measured(address: str, painter: str, rounds: int) -> dict[str, float]:
    """Measure a page several times, and keep the least of each figure."""
    painted = f"{address}{painter and '?painter=' + painter}"
    runs = [measure_page(painted) for _ in range(rounds)]
    return {name: min(run[name] for run in runs) for name in runs[0]}


def report(rows: list[tuple[int, str, str, dict[str, float]]], sizes: dict[str, float]) -> str:
    """Write the tables in Markdown."""
    gestures = "hover", "zoom", "pan"
    heads = ["policies", "page", "file, MB", "opens, s", *(f"{g}, ms" for g in gestures), "MB"]
    lines = []
    for n, tree, painter, facts in rows:
        frames = [
            f"{facts[g]:.3g} ({facts[f'{g} 95']:.3g}; {facts[f'{g} work']:.2g})" for g in gestures
        ]
        name = f"{tree}, {painter}" if painter else tree
        lines.append([f"{n:,}", name, facts["file"], facts["opens"], *frames, facts["memory"]])
    held = []
    for (n, name), goal in GOALS.items():
        of = {(m, t, p): f[name] for m, t, p, f in rows if m == n}
        now = min((value for (_, tree, _), value in of.items() if tree == "now"), default=None)
        was = of.get((n, "before", ""))
        if now is not None:
            ratio = f"{was / now:.3g}" if was else "no peer"
            held.append([f"{n:,}: {name}", now, f"≤ {goal:g}", "" if was is None else was, ratio])
    parts = [
        " ".join(page_frames.__doc__.split("\n\n", 1)[1].split()),
        f"Median frame (95th percentile; work). The page before is that of commit {BEFORE}.",
        table(heads, lines),
        held and table(["to reach", "now, best painter", "goal", "before", "times as good"], held),
        "Script: " + ", ".join(f"{tree} {size:.3g} kB" for tree, size in sizes.items()) + ".",
    ]
    if "before" not in sizes:
        parts.append(f"The page before is missing: this clone has no commit {BEFORE}.")
    return "\n\n".join(filter(None, parts))


if __name__ == "__main__" and not serve({"make": make}):
    main()
