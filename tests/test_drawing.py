"""Every figure: text is within the canvas, never overlaps and is large enough, in three formats."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.text import Text

import pivec
from pivec.errors import UsageError
from pivec.explanations import measure_coverage
from pivec.figures import (
    COLUMN,
    PAGE,
    SMALL,
    cut_names,
    headed_figure,
    literal,
    new_figure,
    readable,
    save_figure,
    text_width,
    to_png,
    wrapped,
)
from pivec.report import evaluation_figure, groups_figure
from pivec.statistics import Evaluation, Row

NAMES = {
    "short": "{kind}-{k}",
    "long": "experiments/BipedalWalkerHardcore-v3/{kind}_with_generalized_advantage/seed_{k}",
}
FEATURES = ["hull angle", "angular velocity of the hull", "horizontal velocity"]


@pytest.fixture(scope="module", params=NAMES)
def comparison(request, tmp_path_factory):
    """Compare six runs of five checkpoints that move apart; their names are short or long."""
    rng, policies, groups, steps = np.random.default_rng(0), [], [], []
    for k in range(6):
        way = rng.normal(size=3)
        for step in (0, 1000, 10_000, 100_000, 1_000_000):
            centre = way * np.log10(1 + step) / 2
            episodes = [np.cumsum(rng.normal(centre, 1, (20, 3)), 0) / 9 for _ in range(8)]
            policies.append(episodes)
            groups.append(NAMES[request.param].format(kind=("ppo", "a2c")[k % 2], k=k))
            steps.append(step)
    data = pivec.VisitedStates.from_arrays(
        policies,
        [f"{group}/step_{step}" for group, step in zip(groups, steps, strict=True)],
        groups,
        returns=[rng.normal(k, 1, 8).tolist() for k in range(len(policies))],
        steps=steps,
        feature_names=FEATURES,
    )
    return pivec.compare(data, out=tmp_path_factory.mktemp("out"), components=12)


def evaluation(methods=9, environments=2):
    rng, rows = np.random.default_rng(0), []
    for e in range(environments):
        for m in range(methods):
            for size in (100, 50, 10):
                facts = f"BipedalWalkerHardcore-v{e}", f"trajectory-encoder-{m}", "s", size, 1
                errors = (e + 1) * 2.0**m * rng.random(2)
                rows.append(Row(*facts, rng.random() / (e + 1), *errors, 1, 9))
    return Evaluation(tuple(rows))


def patterns(comparison):
    return {kind: [f"*{kind}*"] for kind in ("ppo", "a2c")}


DRAWN = {
    "map": lambda c: c.plot_map(),
    **{f"map by {name}": lambda c, name=name: c.plot_map(name)
       for name in ("return", "group", "step", "behaviour", "density")},
    "distances": lambda c: c.plot_distances(),
    "travel": lambda c: c.plot_run(),
    "groups": lambda c: groups_figure(c.groups(patterns(c)), "BipedalWalkerHardcore-v3"),
    "pair": lambda c: c.explain(c.labels[3], c.labels[-1]).figure(),
    "run": lambda c: c.explain_run(c.findings.policies[0].group).figure(),
    "groups of runs": lambda c: c.explain_groups(patterns(c)).figure(),
    "regions": lambda c: c.regions().figure(),
    "unusual": lambda c: c.unusual().figure(),
    "coverage": lambda c: measure_coverage(c).figure(),
    "evaluation": lambda c: evaluation_figure(evaluation()),
    "evaluation across": lambda c: evaluation_figure(evaluation(), across=True),
}  # fmt: skip


def shown_texts(figure):
    """Texts that a figure shows; labels of ticks beyond the ends of an axis are not drawn."""
    hidden = set()
    for axes in figure.findobj(lambda artist: hasattr(artist, "get_xticklabels")):
        for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = sorted(ends)
            for tick in axis.get_major_ticks():
                inside = low - 1e-9 <= tick.get_loc() <= high + 1e-9
                hidden |= set() if inside else {tick.label1}
                hidden.add(tick.label2)
    texts = figure.findobj(Text)
    return [t for t in texts if t.get_text().strip() and t.get_visible() and t not in hidden]


@pytest.mark.parametrize("name", DRAWN)
def test_text_is_on_the_canvas_and_does_not_overlap(comparison, name):
    figure = DRAWN[name](comparison)
    to_png(figure, 100)
    texts = shown_texts(figure)
    boxes = [text.get_window_extent() for text in texts]
    assert len(boxes) > 3
    for i, (text, box) in enumerate(zip(texts, boxes, strict=True)):
        words = text.get_text()
        assert box.x0 >= 0, words
        assert box.y0 >= 0, words
        assert box.x1 <= figure.bbox.x1, words
        assert box.y1 <= figure.bbox.y1, words
        for other, place in zip(texts[:i], boxes[:i], strict=True):
            across = min(box.x1, place.x1) - max(box.x0, place.x0)
            up = min(box.y1, place.y1) - max(box.y0, place.y0)
            # Boxes are as high as the highest letters: two dots are not letters that touch.
            assert min(across, up) <= 2.5, (words, other.get_text())


@pytest.mark.parametrize("name", DRAWN)
def test_text_is_legible_at_the_width_of_a_paper(comparison, name):
    """At least six points across a column for the map, across a page for all others."""
    figure = DRAWN[name](comparison)
    width = figure.get_size_inches()[0]
    paper = 3.3 if name.startswith("map") else 7.0
    sizes = [text.get_fontsize() * min(1, paper / width) for text in shown_texts(figure)]
    assert min(sizes) >= 5.9 if name != "distances" else 5.0


def test_ends_of_runs_have_names_in_their_colours(comparison):
    figure = comparison.plot_map("group")
    colours = comparison.findings.policies.group_colours
    names = dict(
        zip(colours, cut_names([name.split("/")[-1] for name in colours], 26), strict=True)
    )
    texts = {text.get_text(): text for text in figure.axes[0].texts}
    for run, colour in colours.items():
        found = [t for words, t in texts.items() if words.endswith(names[run][-6:])]
        assert found or len(run) > 40  # long names may be in a legend
        assert not found or found[0].get_color() == readable(colour)


def test_a_run_has_one_colour_in_all_figures(comparison):
    colours = comparison.findings.policies.group_colours
    for run, colour in colours.items():
        assert comparison.explain_run(run).colour == colour
    lines = comparison.plot_run().axes[0].lines
    assert {line.get_color() for line in lines} == set(colours.values())
    strips = [p.get_facecolor() for p in comparison.plot_distances().axes[0].patches]
    from matplotlib.colors import to_rgba

    assert {to_rgba(colour) for colour in colours.values()} <= set(strips)


def test_environments_share_the_scale_of_a_metric():
    for across in (False, True):
        panels = np.array(evaluation_figure(evaluation(), across=across).axes).reshape(3, 2)
        for row in panels:
            assert row[0].get_ylim() == row[1].get_ylim()
            assert row[0].get_yscale() == row[1].get_yscale()


def test_tracks_of_a_run_share_scales(comparison):
    figure = comparison.explain_run(comparison.findings.policies[0].group).figure()
    ends = [axes.get_ylim() for axes in figure.axes[1:]]
    assert len(set(ends)) <= 2
    for axes in figure.axes[1:]:
        assert max(line.get_ydata().max() for line in axes.lines) <= axes.get_ylim()[1]


@pytest.mark.parametrize("kind", ["svg", "pdf", "png"])
@pytest.mark.parametrize("name", ["map", "distances", "run"])
def test_files_are_valid_and_the_same_each_time(comparison, tmp_path, name, kind):
    for path in (tmp_path / f"a.{kind}", tmp_path / f"b.{kind}"):
        save_figure(DRAWN[name](comparison), path)
    data = (tmp_path / f"a.{kind}").read_bytes()
    assert data == (tmp_path / f"b.{kind}").read_bytes()
    if kind == "svg":
        words = "".join(ElementTree.fromstring(data).itertext())
        for text in ("Map of policies",) if name == "map" else ("ppo", "a2c")[:1]:
            assert text in words  # as text, not as outlines
        assert "dc:date" not in data.decode()
    elif kind == "pdf":
        assert data.startswith(b"%PDF")
        assert data.rstrip().endswith(b"%%EOF")
        assert b"CreationDate" not in data
        streams = re.findall(rb"stream\r?\n(.*?)endstream", data, re.DOTALL)
        assert any(b" Tf" in _unpacked(stream) for stream in streams)  # text in a font
        assert b"/Type3" not in data
    else:
        assert data.startswith(b"\x89PNG")


def _unpacked(stream):
    try:
        return zlib.decompress(stream)
    except zlib.error:
        return b""


def test_other_formats_are_refused(tmp_path):
    with pytest.raises(UsageError, match="svg"):
        save_figure(new_figure(1, 1), tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="format"):
        pivec.compare({"a": [np.ones((3, 1))]}, out=tmp_path / "out", format="gif")
    assert not (tmp_path / "out").exists()


def test_compare_writes_figures_in_the_format_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    walks = {who: [rng.normal(p, 1, (9, 2)) for _ in range(4)] for p, who in enumerate("abc")}
    result = pivec.compare(walks, out=tmp_path, components=2, format="svg")
    files = {path.name for path in Path(tmp_path).iterdir()}
    assert {"map.svg", "distances.svg"} <= files
    assert not {"map.png", "distances.png"} & files
    for name in ("map.svg", "distances.svg"):
        ElementTree.fromstring((tmp_path / name).read_bytes())
    assert "data:image/png;base64" in (tmp_path / "report.html").read_text()
    (tmp_path / "map.svg").unlink()
    pivec.load_comparison(tmp_path).write_report()  # the folder remembers
    assert (tmp_path / "map.svg").is_file()
    assert not (tmp_path / "map.png").exists()
    log = tmp_path / "run.json"  # which may come from strangers
    log.write_text(log.read_text().replace('"figures": "svg"', '"figures": "/../../evil"'))
    pivec.load_comparison(tmp_path).write_report()
    assert (tmp_path / "map.png").is_file()
    assert not [*tmp_path.parent.glob("evil*"), *tmp_path.parent.parent.glob("evil*")]
    assert result.labels == ("a", "b", "c")


@pytest.mark.parametrize("odd", ["$x$", "a & b < c", "漢字", "🙂", "\udcff", "a\nb", r"$\frac{"])
def test_odd_text_is_valid_in_every_format(tmp_path, odd):
    figure = headed_figure(COLUMN, 1.0, odd, wrapped(odd, 3))
    for kind in ("svg", "pdf", "png"):
        save_figure(figure, tmp_path / f"a.{kind}")
    ElementTree.fromstring((tmp_path / "a.svg").read_bytes())


@pytest.mark.parametrize("size", [SMALL, 14.0])
@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_text_is_as_wide_as_measured(size, weight):
    figure = new_figure(8, 1)
    text = figure.text(0, 0.5, "pole angle −0.04 rad", fontsize=size, fontweight=weight)
    to_png(figure, 200)
    assert text.get_window_extent().width / 200 == pytest.approx(
        text_width(text.get_text(), size, weight), rel=0.03
    )


@pytest.mark.parametrize("width", [0.8, 1.5, 3.0])
def test_lines_fit_and_words_and_numbers_stay_whole(width):
    text = "cart velocity −0.22 to −0.15 m/s, increasing, pole angle below −0.04 rad, speed 0.1 m"
    lines = wrapped(text, width, most=20).splitlines()
    assert " ".join(" ".join(lines).split()) == text
    assert all(text_width(line) <= width for line in lines)
    for line in lines if width > 1 else ():
        assert not re.match(r"(m/s|rad|to|m\b)", line)
        assert not re.search(r"(\bto|below|\d+)$", line)
    cut = wrapped(text, width, most=2)
    assert cut.count("\n") <= 1
    whole = cut.replace("\n", " ").replace("\u00a0", " ").removesuffix(" …")
    assert text.startswith(whole)
    assert text[len(whole) :][:1] in ("", " ", ",")


def test_names_are_cut_between_words():
    names = [f"walker/seed_{k}/rl_model_{k * 1000}_steps" for k in range(4)]
    shown = cut_names(names, 22)
    assert len(set(shown)) == 4
    for name, cut in zip(names, shown, strict=True):
        words = set(re.findall(r"[^\W_]+", name))
        assert set(re.findall(r"[^\W_]+", cut)) <= words
    assert cut_names(["x" * 300], 20)[0] != "…"
    assert literal("one two three four", 12) == "one two …"


def test_headings_of_any_length_stay_above_the_panels():
    figure = headed_figure(PAGE, 1.0, "word " * 60, "another sentence, " * 30)
    to_png(figure, 100)
    for text in figure.texts:
        box = text.get_window_extent()
        assert box.y0 >= 100.0
        assert box.x1 <= figure.bbox.x1
