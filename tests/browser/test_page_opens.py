"""Pages open from disk: nothing is asked for, nothing complains, names from files stay text."""

from __future__ import annotations

import pytest
from made_pages import HOSTILE
from sight import chosen


def test_a_page_opens_from_disk_and_shows_its_policies(walked, pages):
    page = pages.open(walked.path)
    assert page.title() == "Behaviour in Walk-v0"
    assert page.locator("#map").is_visible()
    assert page.locator("#map-static").is_hidden()


def test_names_from_files_stay_text(hostile, pages):
    page = pages.open(hostile.path)
    labels = hostile.data.labels
    chosen(page, "onerror", "</script>")
    for tab in page.locator("[role=tab]").all():
        tab.click()
    text = page.locator("main").text_content()
    for name in HOSTILE[:2]:
        assert name in text
    page.locator("#colour").select_option("group")
    page.locator("#filter-menu summary").click()
    page.locator("#map-overlay").focus()
    for key in ("ArrowRight", "ArrowUp", "ArrowLeft", "ArrowDown"):
        page.keyboard.press(key)
    # Scripts among the names would have changed it, and asked for pictures.
    assert page.title() == "Behaviour in Walk-v0"
    assert page.locator("img[src=x], main b:text-is('bold')").count() == 0
    assert len(labels) == 48


def test_the_content_policy_stops_what_a_name_could_bring(pages, walked, tmp_path):
    """Had a name become markup, nothing of it would run: the page's own parser is asked."""
    text = walked.path.read_text(encoding="utf-8")
    bad = "<img src=x onerror=document.title='broken'><script>document.title='broken'</script>"
    spoilt = tmp_path / "spoilt.html"
    spoilt.write_text(text.replace("<aside", f"{bad}<aside", 1), encoding="utf-8")
    page = pages.open(spoilt)
    assert page.title() == "Behaviour in Walk-v0"
    assert pages.complaints  # of the content policy
    assert all(
        "Content Security Policy" in c or "ERR_FILE_NOT_FOUND" in c for c in pages.complaints
    )
    pages.complaints.clear()


@pytest.mark.slow
def test_very_many_policies_open(pages, folder):
    from made_pages import drawn, report_of

    from pivec.report import report_html, write_page

    path = folder / "multitude.html"
    write_page(path, report_html(report_of(drawn(300_000))))
    assert path.stat().st_size <= 40e6
    page = pages.open(path)
    page.locator("#search").fill("ppo-11999/step_24000")
    page.locator("#search-count", has_text="1 found").wait_for()
