"""The pages of a comparison link to each other, and only to files of its folder."""

from __future__ import annotations

import base64
import json
import os
import posixpath
import shutil
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from test_page import Elements

from pivec.report import Links, is_page, link_pages, rewrite_report, site_pages
from pivec.terminal import printable
from pivec.workflows import load_comparison
from site_folder import LABELS, ODD, PAGES, command, leave_site


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return leave_site(tmp_path_factory.mktemp("site") / "out")


@pytest.fixture
def site(made, tmp_path):
    """Give a copy that may be changed."""
    return shutil.copytree(made, tmp_path / "out")


def links_of(folder, page):
    """Return the links of a page: paths from the folder on, with what is behind the #."""
    tags = Elements((folder / page).read_text(encoding="utf-8")).tags
    found = []
    for tag, attributes in tags:
        if tag == "a" and not attributes["href"].startswith("#"):
            parts = urlsplit(attributes["href"])
            assert not parts.scheme
            assert not parts.netloc
            path = posixpath.join(posixpath.dirname(page), unquote(parts.path))
            current = attributes.get("aria-current") == "page"
            found.append((posixpath.normpath(path), parts.fragment, current))
    return found


def test_each_page_is_found_with_its_kind_and_its_names(made):
    found = {page.kind: page for page in site_pages(made)}
    assert {kind: page.path for kind, page in found.items()} == PAGES
    assert found["pair"].names == ("ppo-0/0", "ppo-0/100")
    assert found["run"].names == ("ppo-0",)
    assert found["groups"].names == ("a", "b")


def test_every_page_links_to_every_page_and_names_itself(made):
    for page in PAGES.values():
        links = links_of(made, page)
        assert {path for path, part, _ in links if not part} >= set(PAGES.values()), page
        # Once for wide screens, once for narrow ones.
        assert [path for path, _, current in links if current] == [page, page]
        for path, part, _ in links:
            assert (made / path).is_file()
            if path != "report.html" and part:
                ids = {a.get("id") for _, a in Elements((made / path).read_text()).tags}
                assert part in ids


def test_every_page_forbids_other_scripts(made):
    for page in PAGES.values():
        tags = Elements((made / page).read_text(encoding="utf-8")).tags
        (policy,) = [
            a["content"] for _, a in tags if a.get("http-equiv") == "Content-Security-Policy"
        ]
        script = next(rule for rule in policy.split("; ") if rule.startswith("script-src"))
        assert script.split()[1].startswith(("'none'", "'sha256-"))
        assert "default-src 'none'" in policy


def test_the_report_has_the_same_list_with_rows_and_runs(made):
    content = Elements((made / "report.html").read_text(encoding="utf-8")).data()
    pages = {page["kind"]: page for page in content["pages"]}
    assert {kind: page["href"] for kind, page in pages.items()} == PAGES
    assert [content["label"][row] for row in pages["pair"]["rows"]] == ["ppo-0/0", "ppo-0/100"]
    assert content["groups"][pages["run"]["group"]] == "ppo-0"


def test_links_to_the_map_name_policies_as_the_report_does(made):
    labels = Elements((made / "report.html").read_text(encoding="utf-8")).data()["label"]
    assert labels == [printable(label) for label in LABELS]

    def views(kind):
        links = links_of(made, PAGES[kind])
        # keep_blank_values: nothing may be lost; strict: each part is a pair of key and value.
        return [
            parse_qs(part, keep_blank_values=True, strict_parsing=True)
            for path, part, _ in links
            if path == "report.html" and part
        ]

    assert {"a": ["ppo-0/0"], "b": ["ppo-0/100"]} in views("pair")
    assert {"run": ["ppo-0"]} in views("run")
    unusual = views("unusual")
    assert {view["a"][0] for view in unusual} <= set(labels)
    assert {"tab": ["episodes"], "a": [printable(ODD)]} in unusual
    assert {"a": [printable(ODD)]} in views("regions")


def test_a_new_page_appears_on_the_others_and_nothing_else_changes(site):
    new = "explain/ppo-0_0--ppo-1_0/explain.html"
    before = {page: (site / page).read_bytes() for page in PAGES.values()}
    command("explain", site, "ppo-0/0", "ppo-1/0", "--clips", 0, "--no-frames")
    for page, content in before.items():
        assert new in [path for path, _, _ in links_of(site, page)]
        if page != "report.html":
            for old, now in zip(split(content), split((site / page).read_bytes()), strict=True):
                assert old == now
    files = [site / page for page in PAGES.values()]
    versions = [file.stat().st_ino for file in files]
    link_pages(site)
    assert [file.stat().st_ino for file in files] == versions


def split(content):
    """Return what is before and behind the navigation."""
    before, _, rest = content.partition(b"<!-- pages -->")
    return before, rest.partition(b"<!-- /pages -->")[2]


def test_a_page_elsewhere_links_nowhere_and_changes_nothing(site, tmp_path):
    before = {page: (site / page).read_bytes() for page in PAGES.values()}
    command("explain", site, "ppo-0/0", "ppo-1/0", "--clips", 0, "--out", tmp_path / "new")
    assert links_of(tmp_path / "new", "explain.html") == []
    assert {page: (site / page).read_bytes() for page in PAGES.values()} == before


def test_folders_of_strangers(site, tmp_path):
    """Only files of the folder are listed and changed, whatever is in it."""
    outside = tmp_path / "outside"
    shutil.copytree(site / "explain" / "run-ppo-0", outside)
    before = (outside / "explain.html").read_bytes()
    (site / "explain" / "link").symlink_to(outside)
    hostile = "</a><script>alert(1)</script><!-- /pages -->"
    contents = [
        {"phases": [], "run": hostile},
        {"phases": [], "run": ["ppo"]},
        {"phases": []},
        {"decomposition": {"labels": [1, 2]}},
        {"decomposition": {"labels": ["a"] * 1000}},
        {"groups": {}},
        [],
    ]
    for number, content in enumerate(contents):
        folder = site / "explain" / f"javascript:{number}"
        folder.mkdir()
        shutil.copy(site / PAGES["run"], folder / "explain.html")
        (folder / "explain.json").write_text(json.dumps(content))
    os.mkfifo(site / "explain" / "pipe")
    (site / "explain" / "page").mkdir()
    os.mkfifo(site / "explain" / "page" / "explain.html")
    (site / "explain" / "page" / "explain.json").write_text(json.dumps({"phases": 0, "run": "x"}))
    unlinked = (site / "explain" / "javascript:1" / "explain.html").read_bytes()

    pages = site_pages(site)
    forged = "explain/javascript:0/explain.html"
    assert {page.path for page in pages} == {*PAGES.values(), forged}
    link_pages(site)
    assert (outside / "explain.html").read_bytes() == before
    assert (site / "explain" / "javascript:1" / "explain.html").read_bytes() == unlinked
    for page in (*PAGES.values(), forged):
        if page == "report.html":
            continue
        elements = Elements((site / page).read_text(encoding="utf-8"))
        assert [tag for tag, _ in elements.tags].count("script") == 0
        assert hostile in elements.text
        hrefs = [a["href"] for tag, a in elements.tags if tag == "a"]
        assert not any(href.startswith("javascript:") for href in hrefs)
        assert (page, "", True) in links_of(site, page)
        link_pages(site)
        assert Elements((site / page).read_text(encoding="utf-8")).tags == elements.tags


def test_links_are_empty_where_there_is_nothing(site):
    nowhere = Links()
    assert (nowhere.on_map(a="x"), nowhere.region(1), nowhere.pair("a", "b")) == ("", "", "")
    (site / "regions.html").unlink()
    links = Links(site, site / PAGES["run"])
    assert links.region(1) == ""
    assert links.pair("ppo-0/100", "ppo-0/0") == "../ppo-0_0--ppo-0_100/explain.html"
    assert links.run("ppo-1") == "../../report.html#run=ppo-1"
    assert links.on_map(a="a b&c=d#e+f") == "../../report.html#a=a%20b%26c%3Dd%23e%2Bf"


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        *((page, page != "report.html") for page in PAGES.values()),
        ("explain.html", False),
        ("map.html", False),
        ("regions.html/x", False),
        ("states/explain.html", False),
        ("explain/a/b/explain.html", False),
        ("explain/a/other.html", False),
        ("regions", False),
        ("", False),
    ],
)
def test_which_paths_are_pages(name, answer):
    assert is_page(name) is answer


def test_the_report_is_written_again_with_the_pictures_of_its_space(site, tmp_path):
    comparison = load_comparison(site)
    picture = site / "map.png"

    def is_shown(content):
        rewrite_report(site, comparison.findings)
        return base64.b64encode(content).decode() in comparison.report.read_text(encoding="utf-8")

    drawn = picture.read_bytes()
    assert is_shown(drawn)
    picture.write_bytes(b"not drawn again")
    assert is_shown(b"not drawn again")
    os.utime(picture, (0, 0))  # older than the space
    assert not is_shown(b"not drawn again")
    assert is_shown(drawn)
    picture.unlink()
    (tmp_path / "secret").write_bytes(b"secret of another folder")
    picture.symlink_to(tmp_path / "secret")
    assert not is_shown(b"secret of another folder")
