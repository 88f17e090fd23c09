"""The panel of two policies, of one and of a run: what it shows is what Python computes."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sight import chosen, figure

from pivec.report import page_data, pair_spreads, report_html, write_page
from pivec.run_log import RunLog
from pivec.states import Store

# A picture of 2 × 2 white dots, as WebP.
PICTURE = bytes.fromhex(
    "524946461e000000574542505650384c110000002f0140000007d0fffef7bfff8188e87f0000"
)


def plain(text):
    return text.replace("\u00a0", " ").strip()


def clear(page):
    button = page.locator("#panel header").get_by_role("button", name="Clear")
    if button.count():
        button.click()
    page.locator("#panel .begin").wait_for()


def begin(page, title):
    """Choose a pair that the panel offers, and give its rows."""
    clear(page)
    button = page.locator("#panel .begin button", has_text=title)
    rows = [int(row) for row in button.get_attribute("data-pair").split()]
    button.click()
    page.locator("#panel .differs").wait_for()
    return rows


def shown(page, selector):
    return list(map(plain, page.locator(f"#panel {selector}").all_inner_texts()))


@pytest.fixture(scope="module")
def page(walked, pages):
    return pages.open(walked.path)


@pytest.fixture(scope="module")
def stored(walked, pages, tmp_path_factory):
    """Give the same policies with their states: the report, and its page."""
    folder = tmp_path_factory.mktemp("stored")
    data = walked.data
    store = Store(folder / "states", {"environment": "Walk-v0"}, data.feature_names)
    with store.writing():
        for record in data.records:
            store.add(record)
    log = RunLog(folder)
    log.settings = walked.report.log.settings
    report = replace(walked.report, log=log)
    write_page(folder / "report.html", report_html(report))
    page = pages.open(folder / "report.html")
    return SimpleNamespace(report=report, page=page)


def test_pairs_to_begin_with_say_whether_chance_explains_them(walked, page):
    overlap = walked.space.method.overlap(walked.space.descriptions)
    labels = walked.data.labels
    for title, verdict in (
        ("nearest", "Different (p"),
        ("farthest", "Different (p"),
        ("cannot be distinguished", "Cannot be distinguished (p"),
    ):
        i, j = begin(page, title)
        [words] = shown(page, ".verdict")
        assert words.startswith(verdict)
        [apart] = shown(page, ".apart")
        assert figure(apart) == pytest.approx(100 * (1 - overlap[i, j]), abs=0.6)
        spoken = page.locator("#said").inner_text()
        said = page.locator("#panel .figure strong").inner_text()
        for part in (labels[i], labels[j], said, *shown(page, ".interval"), words):
            assert part in spoken


def test_regions_are_sorted_add_up_and_are_what_python_tells(walked, page):
    i, j = begin(page, "farthest")
    if (more := page.locator("#panel .differs").get_by_role("button", name="more")).count():
        more.click()
    lines = page.locator("#panel .differs [data-region]")
    parts = [figure(x) for x in shown(page, ".differs .part")]
    assert parts == sorted(parts, reverse=True)
    np.testing.assert_allclose(sum(parts), 100, atol=0.5 * len(parts))
    found = walked.space.method.decompose(walked.data.select([i]), walked.data.select([j]))
    named = walked.report.decompositions[i, j]
    named = named.merged or named
    assert len(parts) == np.count_nonzero(named.regions.measured > 0)
    assert found.distance == pytest.approx(named.distance)
    for line, region in zip(lines.all(), named.order, strict=True):
        assert int(line.get_attribute("data-region")) == named.members[region][0]
        assert named.words[region] in plain(line.inner_text())
        assert (line.locator(".tag").count() == 1) == bool(named.regions.noise[region])
        for side, share in enumerate(line.locator(".share").all()):
            values = named.share[side], named.share_low[side], named.share_high[side]
            words = share.text_content()
            numbers = [float(x) for x in re.findall(r"[\d.]+", words)]
            np.testing.assert_allclose(numbers, [100 * x[region] for x in values], atol=0.6)


def test_dumbbells_stand_on_one_axis_of_shares_of_time(walked, page):
    begin(page, "farthest")
    axis = page.locator("#panel .differs .axis span")
    places = {
        figure(label.text_content()): label.bounding_box()["x"] + label.bounding_box()["width"] / 2
        for label in axis.all()
    }
    assert sorted(places) == [0, 25, 50, 75, 100]
    width = places[100] - places[0]
    for line in page.locator("#panel .differs [data-region]").all():
        for side in "ab":
            box = line.locator(f"circle.{side}").bounding_box()
            share = 100 * (box["x"] + box["width"] / 2 - places[0]) / width
            assert share == pytest.approx(
                figure(line.locator(f".share.{side}").inner_text()), abs=0.8
            )


def test_rules_come_first_with_the_shares_that_python_found(stored):
    page, report = stored.page, stored.report
    i, j = begin(page, "farthest")
    rules = report.rules[i, j].certain
    assert rules
    lines = page.locator("#panel .differs .rules .difference").all()
    for line, rule in zip(lines, rules, strict=True):
        assert rule.where in plain(line.inner_text())
        numbers = [figure(x) for x in line.locator(".share").all_inner_texts()]
        np.testing.assert_allclose(numbers, 100 * np.array(rule.shares), atol=0.6)
    first = page.locator("#panel .differs .difference").first
    assert first.inner_text() == lines[0].inner_text()


def test_histograms_of_both_are_pythons_and_those_that_differ_most_are_first(stored):
    page, report = stored.page, stored.report
    i, j = begin(page, "farthest")
    spreads = {f["name"]: f for f in pair_spreads(report, i, j)["features"]}
    charts = page.locator("#panel .multiples li")
    assert charts.count() == len(spreads) == 4
    distances = []
    for chart in charts.all():
        name = chart.locator("p").first.inner_text().split(" (")[0].strip()
        feature = spreads[name]
        a, b = np.array(feature["a"]), np.array(feature["b"])
        distances.append(np.abs(a - b).sum())
        edges = np.array(feature["edges"])
        for side, shares in (("a", a), ("b", b)):
            path = chart.locator(f"path.{side}").get_attribute("d")
            points = np.array(re.findall(r"([\d.]+) ([\d.]+)", path), float)[1:-1]
            np.testing.assert_allclose(
                points[::2, 0], 100 * (edges[:-1] - edges[0]) / np.ptp(edges), atol=0.01
            )
            heights = (100 - points[::2, 1]) / 100 * max(a.max(), b.max())
            np.testing.assert_allclose(heights, shares, atol=2e-4)
        ends = [figure(x) for x in chart.locator(".axis span").all_inner_texts()]
        np.testing.assert_allclose(ends, edges[[0, -1]], rtol=6e-3)
    assert distances == sorted(distances, reverse=True)


def test_means_of_features_are_pythons(walked, page):
    i, j = begin(page, "farthest")
    found = walked.report.decompositions[i, j]
    for line in page.locator("#panel .features li").all():
        name = line.locator("p").first.inner_text().split(" (")[0].strip()
        f = found.feature_names.index(name)
        means = [figure(x) for x in line.locator(".means b").all_inner_texts()]
        np.testing.assert_allclose(means, found.averages[:, f], rtol=6e-3)
        sure = found.average_shift_low[f] > 0 or found.average_shift_high[f] < 0
        assert (line.locator(".tag").count() == 0) == sure


def test_a_policy_alone_has_its_facts_and_its_nearest_can_be_chosen(walked, page):
    row = walked.report.policies[9]
    clear(page)
    panel = chosen(page, row.label)
    facts = dict(zip(shown(page, ".facts dt"), shown(page, ".facts dd"), strict=True))
    assert facts["run"] == row.group
    assert int(facts["episodes"]) == row.episodes
    assert figure(facts["return"]) == pytest.approx(row.mean_return, rel=0.006)
    second = panel.locator(".near .entity").nth(1)
    name = second.inner_text()
    second.click()
    page.locator("#panel .differs").wait_for()
    assert shown(page, ".who .entity") == [row.label, name]
    assert page.evaluate("document.activeElement.textContent") == "A and B"


def test_the_focus_stays_when_policies_are_swapped_and_cleared(walked, page):
    before = begin(page, "farthest")
    page.get_by_role("button", name="Swap").click()
    first = page.locator("#panel .who").first
    first.filter(has_text=walked.data.labels[before[1]]).wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Swap"
    swapped = page.locator("#panel [data-region] .share.a").first.inner_text()
    page.get_by_role("button", name="Swap").click()
    first.filter(has_text=walked.data.labels[before[0]]).wait_for()
    again = page.locator("#panel [data-region] .share.b").first.inner_text()
    assert figure(again) == figure(swapped)
    page.get_by_role("button", name="Clear", exact=True).click()
    page.locator("#panel .begin").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Compare two policies"


@pytest.mark.parametrize("kind", ["with states", "without"])
def test_a_run_shows_what_changed_along_it(walked, stored, page, kind):
    report = stored.report if kind == "with states" else walked.report
    page = stored.page if kind == "with states" else page
    run = next(iter(report.run_stories))
    story = report.run_stories[run]
    page.locator("#open-runs").click()
    page.locator("#tab-runs tbody .entity", has_text=run).click()
    panel = page.locator("#panel")
    panel.locator(".largest").wait_for()
    assert panel.locator("h2").inner_text().strip() == run
    labels = [row.label for row in report.policies]
    largest = story.largest_phase
    first = panel.locator(".largest .phase")
    rows = [int(row) for row in first.locator("[data-pair]").get_attribute("data-pair").split()]
    assert [labels[row] for row in rows] == list(largest.labels)
    distance, low, high = map(float, re.findall(r"[\d.]+", first.locator(".value").inner_text()))
    assert [distance, low, high] == pytest.approx(
        [largest.distance, largest.low, largest.high], rel=6e-3
    )
    for change, line in zip(largest.changes, first.locator("li").all(), strict=False):
        assert plain(line.inner_text()) == change.sentence()
    others = [phase for phase in story.phases if phase is not largest]
    assert shown(page, ".phases [data-pair]") == [phase.when for phase in others]
    [travel] = [travel for travel in report.measured.travels if travel.group == run]
    facts = dict(zip(shown(page, ".facts dt"), shown(page, ".facts dd"), strict=True))
    assert figure(facts["distance travelled"]) == pytest.approx(travel.total, rel=6e-3)
    charts = panel.locator(".tracks .line-chart")
    assert charts.count() == len(story.tracks) + 1  # and returns
    assert bool(story.tracks) == (kind == "with states")
    for track, chart in zip(story.tracks, charts.all(), strict=False):
        paths = [
            np.array(re.findall(r"([\d.]+) ([\d.]+)", x.get_attribute("d")), float)
            for x in chart.locator("path").all()
        ]
        band, line = paths
        n = len(story.steps)
        np.testing.assert_allclose(100 - line[:, 1], 100 * track.share, atol=0.01)
        np.testing.assert_allclose(100 - band[:n, 1], 100 * track.low, atol=0.01)
        np.testing.assert_allclose(100 - band[: n - 1 : -1, 1], 100 * track.high, atol=0.01)
    # A checkpoint is pointed at in all charts and on the map, and is selected by a click.
    column = charts.first.locator(".column").nth(3)
    column.scroll_into_view_if_needed()
    column.hover()
    assert panel.locator(".column.lit").count() == charts.count()
    page.locator("#map-tip strong", has_text=story.labels[3]).wait_for()
    first.locator("[data-pair]").click()
    panel.locator(".differs").wait_for()
    assert shown(page, ".who .entity") == list(largest.labels)


def test_a_run_that_the_file_does_not_explain_has_a_command(walked, pages, tmp_path):
    text = walked.path.read_text()
    begins = text.index('"runStories":') + len('"runStories":')
    _, length = json.JSONDecoder().raw_decode(text[begins:])
    path = tmp_path / "report.html"
    path.write_text(text[:begins] + "[]" + text[begins + length :])
    run = walked.report.policies[0].group
    page = pages.open(f"{path.as_uri()}#run={run}")
    command = page.locator("#panel .command code").inner_text()
    assert shlex.split(command) == ["pivec", "explain", "nowhere", "--run", run]


def test_names_that_are_not_meant_well_stay_text(hostile, pages):
    page = pages.open(hostile.path, width=400)
    for pair in page_data(hostile.report)["media"]["notable"]:
        begin(page, pair["words"])
        panel = page.locator("#panel")
        assert panel.evaluate("x => x.scrollWidth <= x.clientWidth")
        assert panel.locator("img, script, b:text-is('bold')").count() == 0
    labels = [row.label for row in hostile.report.policies[2:4]]
    clear(page)
    command = chosen(page, *labels).locator(".command code").inner_text()
    assert shlex.split(command) == ["pivec", "explain", "nowhere", *labels]  # as a shell takes it
    assert page.title() == "Behaviour in Walk-v0"


def test_frames_and_pages_beside_the_page_are_shown(walked, pages, tmp_path):
    report = replace(walked.report, log=RunLog(tmp_path))
    i, j = report.notable_pairs["The farthest pair"]
    labels = [report.policies[k].label for k in (i, j)]
    explained = report.decompositions[i, j]
    folder = tmp_path / "explain" / "a pair"
    folder.mkdir(parents=True)
    (folder / "c.webp").write_bytes(PICTURE)
    (folder / "explain.html").write_text("<title>Explained</title>")
    region = int((explained.merged or explained).members[explained.order[0]][0])
    visit = {"policy": labels[0], "region": region, "episode": 0, "step": 1}
    content = {
        "decomposition": {"labels": labels, "distance": explained.distance},
        "frames": [{"visit": visit, "path": "c.webp"}],
    }
    (folder / "explain.json").write_text(json.dumps(content))
    path = tmp_path / "report.html"
    write_page(path, report_html(report))
    page = pages.open(path, color_scheme="dark")
    begin(page, "farthest")
    picture = page.locator("#panel .frames .picture img")
    picture.scroll_into_view_if_needed()
    assert picture.evaluate("async x => { await x.decode(); return x.naturalWidth }") == 2
    picture.click()
    assert page.locator("dialog.large[open] img").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("dialog.large[open]").count() == 0
    assert page.evaluate("document.activeElement.className") == "picture"
    page.locator("#panel").get_by_role("link", name=f"{labels[0]} and {labels[1]}").click()
    assert page.title() == "Explained"
