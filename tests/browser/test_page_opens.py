"""Pages open from disk: nothing is asked for, nothing complains, names from files stay text."""

from __future__ import annotations


def test_a_page_opens_and_names_its_environment(walked, pages):
    assert pages.open(walked.path, ready=False).title() == "Behaviour in Walk-v0"


def test_names_from_files_stay_text(hostile, pages):
    page = pages.open(hostile.path, ready=False)
    assert page.title() == "Behaviour in Walk-v0"  # scripts among the names would change it
    assert page.locator("img[src=x], b:text-is('bold')").count() == 0
