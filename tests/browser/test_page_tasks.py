"""What researchers do with the page, each in at most four actions: mouse, keyboard or touch."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from sight import VISIBLE_WORDS, Sight, figure

import pivec
from pivec.statistics import Travel


class Hand:
    """Counts what a person does: clicks, double clicks, texts typed, keys, drags and taps."""

    MOST = 4

    def __init__(self, page):
        self.page, self.actions = page, 0

    def __getattr__(self, name):
        def act(target, *arguments, **options):
            self.actions += 1
            assert self.actions <= self.MOST, f"more than {self.MOST} actions"
            locator = self.page.locator(target).first if isinstance(target, str) else target
            return getattr(locator, name)(*arguments, **options)

        return act

    def choose(self, target, way):
        """Click or tap, or go there by Tab (which counts as one) and press a key."""
        if way in ("click", "tap"):
            getattr(self, way)(target)
        else:
            self.focus(target)
            self.key(way)

    def drag(self, sight, corners, key=None):
        self.actions += 1
        assert self.actions <= self.MOST
        sight.draw(corners, key)

    def key(self, name):
        self.actions += 1
        assert self.actions <= self.MOST
        self.page.keyboard.press(name)


@pytest.fixture
def page(pages, walked):
    return pages.open(walked.path, width=1400, height=900)


@pytest.fixture
def phone(pages, walked):
    return pages.open(walked.path, width=400, height=800, has_touch=True)


def farthest_ends(walked):
    """Find the two runs whose last checkpoints are farthest apart, from the distances."""
    findings = walked.report
    ends = {name: rows[-1] for name, rows in findings.policies.runs.items()}
    names = list(ends)
    estimates = np.maximum(findings.measured.estimates, 0)
    far = max(
        ((a, b) for i, a in enumerate(names) for b in names[i + 1 :]),
        key=lambda pair: estimates[ends[pair[0]], ends[pair[1]]],
    )
    return far, estimates[ends[far[0]], ends[far[1]]], [ends[name] for name in far]


@pytest.mark.parametrize("device", ["page", "phone"])
def test_the_two_runs_that_end_farthest_apart(request, walked, device):
    page = request.getfixturevalue(device)
    hand = Hand(page)
    if device == "phone":
        hand.tap("#open-runs")
    else:
        hand.focus("#open-heatmap")
        hand.key("ArrowRight")
        hand.key("ArrowRight")
    words = page.locator("#farthest-ends").inner_text()
    names, distance, rows = farthest_ends(walked)
    assert all(name in words for name in names)
    shown = page.locator("#farthest-ends [data-pair]").first
    assert figure(shown.inner_text()) == pytest.approx(distance, rel=5e-3)
    assert sorted(map(int, shown.get_attribute("data-pair").split())) == sorted(rows)


@pytest.mark.parametrize(("row", "device"), [(5, "page"), (20, "page"), (20, "phone")])
def test_the_class_of_a_policy(request, walked, row, device):
    page = request.getfixturevalue(device)
    hand = Hand(page)
    hand.fill("#search", walked.data.labels[row])
    hand.press("#search", "Enter")
    shown = page.locator("#panel [data-class]").first.get_attribute("data-class")
    assert int(shown) == walked.report.policies[row].behaviour


@pytest.mark.parametrize("way", ["click", "Enter", "tap"])
def test_the_nearest_pair_that_differs(request, walked, way):
    page = request.getfixturevalue("phone" if way == "tap" else "page")
    pairs = walked.report.measured.pairs
    k = np.flatnonzero(~pairs.alike)[0]
    first = page.locator("#tab-heatmap .pairs [data-pair]").first
    assert sorted(map(int, first.get_attribute("data-pair").split())) == sorted(
        (int(pairs.i[k]), int(pairs.j[k]))
    )
    hand = Hand(page)
    hand.choose(first, way)
    names = page.locator("#panel .who").all_inner_texts()
    assert {walked.data.labels[pairs.i[k]], walked.data.labels[pairs.j[k]]} == {
        name.splitlines()[-1].strip() for name in names
    }


@pytest.mark.parametrize("way", ["click", "Enter", "tap"])
def test_the_first_line_of_what_differs(request, walked, way):
    page = request.getfixturevalue("phone" if way == "tap" else "page")
    Hand(page).choose(page.get_by_role("button", name="The farthest pair"), way)
    line = page.locator("#panel .differs [data-region]").first
    line.wait_for()
    i, j = walked.report.notable_pairs["The farthest pair"]
    found = walked.report.decompositions[i, j]
    found = found.merged or found
    assert found.words[found.order[0]] in line.text_content().replace("\u00a0", " ")


@pytest.mark.parametrize("device", ["page", "phone"])
def test_isolating_a_run_and_reading_its_largest_change(request, walked, device):
    page = request.getfixturevalue(device)
    hand = Hand(page)
    hand.click("#open-runs")
    name = page.locator("#tab-runs table [data-run].entity").first
    run = name.inner_text().strip()
    if device == "page":
        hand.dblclick(name)
    else:
        hand.actions += 1  # two touches in a row
        name.tap()
        name.tap()
    assert page.locator("#shown-count").text_content().startswith("8 of 48")
    hand.click(name)
    panel = page.locator("#panel")
    panel.locator("h2", has_text=run).wait_for()
    largest = panel.locator(".largest [data-pair]").first.get_attribute("data-pair")
    [travel] = [
        t for t in walked.report.measured.travels if isinstance(t, Travel) and t.group == run
    ]
    assert set(map(int, largest.split())) <= set(travel.rows)


def test_finding_one_of_thirty_thousand(pages, crowd):
    page = pages.open(crowd.path, width=1400, height=900)
    hand = Hand(page)
    labels = crowd.space.descriptions.labels
    hand.fill("#search", labels[12_345])
    page.locator("#search-count", has_text="1 found").wait_for()
    hand.press("#search", "Enter")
    page.locator("#map-tip strong", has_text=labels[12_345]).wait_for()


def test_saving_a_lasso(pages, walked):
    sight = Sight(pages, walked.path, walked.space.positions)
    hand = Hand(sight.page)
    places = sight.pixels()  # the bar grows with the selection, and the map moves
    centre = places.mean(axis=0)
    square = centre + 90 * np.array([(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)])
    hand.drag(sight, square, "Shift")
    with sight.page.expect_download() as saved:
        hand.click("#export")
    with open(saved.value.path(), encoding="utf-8", newline="") as file:
        names = {row["label"] for row in csv.DictReader(file)}
    inside = (np.abs(places - centre) < 90).all(axis=1)
    assert names == set(np.array(walked.data.labels)[inside])


def test_a_link_restores_the_view(pages, walked):
    first = pages.open(walked.path, width=1400, height=900)
    labels = walked.data.labels
    first.locator("#colour").select_option("group")
    first.locator("#search").fill("2c-1")
    for k in (9, 12):
        first.locator(f"#tab-policies [data-row='{k}']").count()
    first.locator("#panel [data-pair]").first.click()
    first.locator("#open-runs").click()
    first.locator("#tab-runs table [data-run].entity").first.dblclick()
    first.locator("#map-in").click()
    first.wait_for_timeout(800)
    address = first.url
    assert "view=" in unquote(address)
    hand = Hand(pages.open(address, width=1400, height=900))
    hand.focus("#search")
    second = hand.page
    for selector in ("#search-count", "#panel .who", ".chip", "#map-key"):
        assert (
            second.locator(selector).first.inner_text()
            == first.locator(selector).first.inner_text()
        )
    assert second.locator("#open-runs").get_attribute("aria-selected") == "true"
    assert second.locator("#colour").input_value() == "group"
    second.wait_for_timeout(800)
    assert second.url == address
    assert labels


def test_few_words_before_anything_is_selected(page):
    words = page.evaluate(VISIBLE_WORDS)
    assert 30 < words <= 150


@pytest.fixture(scope="module")
def filmed(tmp_path_factory):
    """Compare bundled policies, and record clips of their unusual episodes."""
    pytest.importorskip("pygame")
    folder = tmp_path_factory.mktemp("filmed") / "out"
    demo = Path(pivec.__file__).parent / "demo_policies" / "CartPole-v1"
    policies = [demo / "ppo-0/step_2560.safetensors", demo / "a2c-0/step_2520.safetensors"]
    pivec.compare("CartPole-v1", policies, out=folder, episodes=40, components=8)
    command = [sys.executable, "-m", "pivec", "unusual", folder, "--clips", "--top", "2"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "report.html"


@pytest.mark.parametrize("way", ["click", "Enter", "tap"])
def test_playing_the_clip_of_an_unusual_episode(pages, filmed, way):
    page = pages.open(filmed, width=400 if way == "tap" else 1400, height=900, has_touch=True)
    hand = Hand(page)
    hand.choose(page.locator("#open-episodes"), way)
    hand.choose(page.locator("#tab-episodes [data-episode]").first, way)
    player = page.locator("#episode-facts .player")
    player.locator(".sheet img").first.wait_for()
    clock = "#episode-facts .clock"
    now = page.locator(clock).inner_text()
    moved = "([clock, now]) => document.querySelector(clock).textContent !== now"
    page.wait_for_function(moved, arg=[clock, now])
