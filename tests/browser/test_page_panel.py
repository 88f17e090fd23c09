"""The panel of two policies: its numbers are Python's, its parts add up, its pictures load."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from sight import chosen, figure

from pivec.report import page_data
from pivec.report.script_data import explained_pairs
from pivec.run_log import RunLog

# A picture of 2 × 2 white dots, as WebP.
PICTURE = bytes.fromhex(
    "524946461e000000574542505650384c110000002f0140000007d0fffef7bfff8188e87f0000"
)


def begin(page, title):
    """Choose a pair that the panel offers, and give their rows."""
    if page.locator("#panel .begin").count() == 0:
        page.get_by_role("button", name="Clear", exact=True).click()
    page.locator("#panel .begin button", has_text=title).click()
    page.locator("#panel.two").wait_for()
    return page.locator("#panel .who").all_inner_texts()


def rows_of(made, names):
    labels = [row.label for row in made.report.policies]
    return [labels.index(name.split("\n")[-1].strip()) for name in names]


def shown(page, selector):
    return page.locator(f"#panel {selector}").all_inner_texts()


@pytest.fixture(scope="module")
def page(walked, pages):
    return pages.open(walked.path)


def test_pairs_to_begin_with_say_whether_chance_explains_them(walked, page):
    overlap = walked.space.method.overlap(walked.space.descriptions)
    for title, verdict in (
        ("nearest", "Different (p"),
        ("farthest", "Different (p"),
        ("cannot be distinguished", "Cannot be distinguished (p"),
    ):
        i, j = rows_of(walked, begin(page, title))
        [words] = shown(page, ".verdict")
        assert words.startswith(verdict)
        (apart,) = [x for x in shown(page, ".distance p") if x.startswith("In different")]
        assert figure(apart) == pytest.approx(100 * (1 - overlap[i, j]), abs=0.6)
        distance = page.locator("#panel .figure").inner_text().replace("\n", ", ")
        assert page.locator("#said").inner_text().endswith(f"{distance}. {words}")


def test_what_differs_is_sorted_adds_up_and_is_what_python_tells(walked, page):
    labels = [name.split("\n")[-1].strip() for name in begin(page, "farthest")]
    shares = [figure(x) for x in shown(page, ".part p strong")]
    assert shares == sorted(shares, reverse=True)
    np.testing.assert_allclose(sum(shares), 100, atol=0.5 * len(shares))
    sides = [walked.data[label] for label in labels]
    explained = walked.space.method.decompose(*sides, n_groups=len(shares)).merged
    largest = explained.order[0]
    part = explained.regions.measured[largest] / explained.distance
    np.testing.assert_allclose(shares[0], 100 * part, atol=0.6)
    times = [figure(x) for x in shown(page, ".part:first-child .time")]
    np.testing.assert_allclose(times, 100 * explained.share[:, largest], atol=0.6)
    name, *_ = shown(page, ".averages tbody tr")
    values = np.array([figure(x) for x in shown(page, ".averages tbody tr:first-child td")])
    feature = explained.feature_names.index(name.split("\t")[0].strip())
    np.testing.assert_allclose(values, explained.averages[:, feature], rtol=0.01, atol=1e-3)


def test_a_policy_alone_has_its_facts_and_its_nearest_can_be_chosen(walked, page):
    row = walked.report.policies[9]
    panel = chosen(page, row.label)
    if panel.locator(".who").count() > 1:
        page.get_by_role("button", name="Clear", exact=True).click()
        panel = chosen(page, row.label)
    facts = dict(zip(shown(page, ".facts dt"), shown(page, ".facts dd"), strict=True))
    assert facts["Run"] == row.group
    assert int(facts["Episodes"]) == row.episodes
    assert figure(facts["Return"]) == pytest.approx(row.mean_return, rel=0.006)
    second = panel.locator(".near button").nth(1)
    name = second.locator(".name").inner_text()
    second.click()
    page.locator("#panel.two").wait_for()
    assert [x.split("\n")[-1].strip() for x in shown(page, ".who")] == [row.label, name]
    assert page.evaluate("document.activeElement.textContent") == "A and B"


def test_swapped_and_let_go_the_focus_stays(walked, page):
    before = begin(page, "farthest")
    page.get_by_role("button", name="Swap").click()
    first = page.locator("#panel .who").first
    first.filter(has_text=before[1].split("\n")[-1]).wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Swap"
    page.get_by_role("button", name="Clear", exact=True).click()
    page.locator("#panel .begin").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Compare two policies"


def test_names_that_are_not_meant_well_stay_text(hostile, pages):
    page = pages.open(hostile.path, width=400)
    for pair in page_data(hostile.report)["media"]["notable"]:
        begin(page, pair["words"])
        panel = page.locator("#panel")
        assert panel.evaluate("x => x.scrollWidth <= x.clientWidth")
        assert panel.locator("img, script, b:text-is('bold')").count() == 0
    labels = [row.label for row in hostile.report.policies[2:4]]
    command = chosen(page, *labels).locator(".command code").inner_text()
    assert shlex.split(command) == ["pivec", "explain", "nowhere", *labels]  # as a shell takes it
    assert page.title() == "Behaviour in Walk-v0"


def test_clips_and_frames_beside_the_page_are_shown(walked, pages, tmp_path):
    report = replace(walked.report, log=RunLog(tmp_path))
    i, j = report.notable_pairs["The farthest pair"]
    labels = [report.policies[k].label for k in (i, j)]
    explained = walked.space.method.decompose(*(walked.data[label] for label in labels))
    folder = tmp_path / "explain" / "a pair"
    folder.mkdir(parents=True)
    (folder / "c.webp").write_bytes(PICTURE)
    region = int(explained.order[0])
    content = {
        "decomposition": {"labels": labels, "distance": explained.distance},
        "clips": [{"title": "Both", "caption": "from the start", "path": "c.webp"}],
        "frames": [
            {
                "visit": {"policy": labels[0], "region": region, "episode": 0, "step": 1},
                "path": "c.webp",
            }
        ],
    }
    (folder / "explain.json").write_text(json.dumps(content))
    # The page of the same report, without drawing its figures again.
    media = json.dumps(explained_pairs(report, tmp_path))
    text = walked.path.read_text().replace(
        '"pairs":[],"regions":[]', f'"pairs":{media},"regions":[]'
    )
    path = tmp_path / "report.html"
    path.write_text(text)
    page = pages.open(path, color_scheme="dark", reduced_motion="reduce")
    begin(page, "farthest")
    clips = page.locator("#panel .clips")
    assert not clips.get_by_role("img").is_visible()  # who wants no motion opens them
    clips.locator("summary").click()
    for picture in (clips.locator("img"), page.locator("#panel .frames img")):
        picture.scroll_into_view_if_needed()
        assert picture.evaluate("async x => { await x.decode(); return x.naturalWidth }") == 2
    clips.get_by_role("button", name="Both: from the start").click()
    assert page.locator("dialog img").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("dialog").count() == 0
    assert page.evaluate("document.activeElement.className") == "picture"
