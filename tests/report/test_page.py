"""The page holds everything it shows, loads nothing, and shows any text as text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import pivec
from packed import unpacked
from pivec.report import report_html, write_results
from pivec.report.pages import Pictures, json_for_script, web_folder
from pivec.statistics import Travel

PAYLOADS = [
    "</script><img src=x onerror=alert(1)>",
    "<!--<script>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "{{data}}{{style}}",
    "&amp;&lt;",
    "$x$",
    "=cmd()",
    "a\u2028b\u2029c",
    "\udcff\u202e\x00\n",
]


@pytest.fixture(autouse=True)
def without_drawing(monkeypatch):
    """Figures are made, but not drawn: test_figures.py looks at them."""
    monkeypatch.setattr("pivec.report.pages.to_png", lambda figure, dpi=0: b"drawn")


class Elements(HTMLParser):
    """Tags with their attributes, and the text outside scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.scripts, self._inside = [], [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data):
        if self._inside:
            if self._inside[-1][0] == "script":
                self.scripts.append((self._inside[-1][1], data))
        else:
            self.text.append(data)

    def data(self):
        """What the script gets, with its columns unpacked."""
        found = [text for attrs, text in self.scripts if attrs.get("id") == "data"]
        blob = json.loads("".join(found))
        return blob | {name: unpacked(column) for name, column in blob["columns"].items()}


def test_page_shows_what_was_compared(report, tmp_path):
    write_results(tmp_path, report)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    text = " ".join(Elements(page).text)
    for expected in (
        "Behaviour in CartPole-v1", "10", "policies", "policy 3", "runs/3.zip", "t-SNE",
        "Nearest pairs", "Farthest pairs", "12.5", "Distance travelled", "First paragraph.",
        "Second paragraph.", "d = |p - q|", "pivec compare CartPole-v1 runs/*.zip", "seed",
        "collect", "1.5 s", pivec.__version__,
    ):  # fmt: skip
        assert expected in text, expected
    assert "{{" not in page


def test_reading_of_the_map_fits_how_it_was_made(make_report, log_of):
    for method, word in (("tsne", "have no meaning: read"), ("pca", "linear projection")):
        assert word in report_html(make_report(log=log_of(settings={"map": method})))


def test_page_is_the_same_each_time(report):
    assert report_html(report) == report_html(report)


def test_nothing_is_loaded_from_outside(report):
    page = report_html(report)
    elements = Elements(page)
    # The names of SVG and MathML are those of the web's standards, and lead nowhere.
    for name in ("2000/svg", "1998/Math/MathML", "1999/xhtml"):
        page = page.replace(f'"http://www.w3.org/{name}"', "")
    assert "http://" not in page
    assert "https://" not in page
    for tag, attributes in elements.tags:
        for name in ("src", "href", "data", "action", "srcset", "poster"):
            value = attributes.get(name)
            assert value is None or value.startswith(("data:image/png;base64,", "#")), (tag, value)
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
    assert "url(" not in page
    assert "@import" not in page
    policy = next(a for _, a in elements.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'; img-src 'self' data:;")
    assert "'unsafe-eval'" not in policy["content"]


@pytest.mark.parametrize("payload", PAYLOADS)
def test_hostile_text_is_shown_as_text(make_report, log_of, tmp_path, payload):
    n = 11
    clean = Elements(report_html(make_report()))
    columns = {
        "label": [payload] * n,
        "group": [payload] * 4 + [payload + "2"] * 4 + ["", "", "old"],
        "source": [payload] * n,
    }
    travel = Travel(payload, (0, 1, 2, 3), (100, 200, 300, 400), np.array([1.0, 0.5, 1.0]))
    report = make_report(
        columns,
        {"travels": [travel]},
        environment=payload,
        log=log_of(settings={payload: {payload: payload}, "map": payload}, command=payload),
        method=payload,
        formula=payload,
    )
    write_results(tmp_path, report)
    page = (tmp_path / "report.html").read_bytes().decode("utf-8")
    elements = Elements(page)
    # Whatever the text, the page has the same elements with the same kinds of attributes.
    assert sorted({tag for tag, _ in elements.tags}) == sorted({tag for tag, _ in clean.tags})
    assert [t for t, _ in elements.tags].count("img") == [t for t, _ in clean.tags].count("img")
    assert [t for t, _ in elements.tags].count("script") == 2
    for _, attributes in elements.tags:
        assert not any(name.startswith("on") for name in attributes)
    for attributes, text in elements.scripts:
        if attributes.get("id") == "data":
            assert not set("<>&\u2028\u2029") & set(text)
    if payload.isprintable():
        assert payload in " ".join(elements.text)
        data = elements.data()
        assert data["label"] == data["source"] == [payload] * n
        assert set(data["groups"]) == {payload, payload + "2"}


def test_unknown_returns_are_not_a_number(make_report):
    returns = [np.nan, np.inf, -np.inf] + [1.0] * 8
    report = make_report({"mean_return": returns, "return_std": [np.nan] * 11})
    data = Elements(report_html(report)).data()
    assert not np.isfinite(data["return"][:3]).any()
    assert np.array_equal(data["return"][3:], [1.0] * 8)
    assert np.isnan(data["deviation"]).all()


def test_script_sets_text_as_text_only(report):
    sources = {path.name: path.read_text("utf-8") for path in web_folder().rglob("*.ts*")}
    assert len(sources) > 20
    markup = ("innerHTML", "InnerHTML", "outerHTML", "insertAdjacentHTML", "srcdoc")
    for word in (*markup, "document.write", "eval(", "new Function"):
        assert [name for name, text in sources.items() if word in text] == [], word
    # The page of a server asks that alone; the policy of a file lets nothing be asked.
    assert [name for name, text in sources.items() if "fetch(" in text] == ["live.ts"]
    assert "connect-src" not in report_html(report)


def test_data_for_the_map_is_complete(report):
    data = Elements(report_html(report)).data()
    assert data["groups"] == ["a2c", "ppo"]
    assert data["group"].tolist() == [1] * 4 + [0] * 4 + [-1] * 3
    assert data["reference"].tolist() == [0] * 10 + [1]
    assert np.array_equal(data["step"], [100, 200, 300, 400] * 2 + [np.nan] * 2 + [50], True)
    assert data["order"].tolist() == report.policies.order.tolist()
    assert sorted(unpacked(data["heatmapOrder"]).tolist()) == list(range(11))
    for name in ("x", "y"):
        assert np.allclose(data[name], [getattr(row, name) for row in report.policies], rtol=1e-5)


def test_colours_of_a_group_are_the_same_everywhere(report):
    page = report_html(report)
    colour = dict(zip(["a2c", "ppo"], Elements(page).data()["groupColours"], strict=True))
    assert f'background:{colour["ppo"]}"></span>ppo' in page


def test_large_tables_are_cut_with_a_note(make_report, rows_of, measured_of):
    n = 1200
    travels = [Travel(f"run {i}", (0, 1), (0, 1), np.array([i])) for i in range(n)]
    report = make_report(
        policies=rows_of(n, group=["x"] * n, step=list(range(n))),
        measured=measured_of(n, travels=travels),
    )
    page = report_html(report, Pictures(b"", b""))
    text = " ".join(Elements(page).text)
    for words in ("shows 100 of 1 200 policies", "25 of 1 200 policies",
                  "shows 500 of 1 200 runs", "25 of 1 200 runs"):  # fmt: skip
        assert words in text.replace("\u202f", " ")
    assert len(re.findall(r'<th scope="row">p\d+</th>', page)) == 100
    listed = re.findall(r"</span>run (\d+)</button></th>", page)
    assert listed == [str(i) for i in range(n - 1, n - 501, -1)]  # those that went far first
    assert "Nearest pairs" not in text


def test_a_row_of_a_pair_names_both_by_number(report):
    page = report_html(report)
    assert re.findall(r'data-pair="(\d+) (\d+)"', page) == [("0", "1"), ("2", "9")]


def test_page_of_one_policy(make_report, log_of, rows_of, measured_of):
    page = report_html(
        make_report(
            policies=rows_of(1, label=["only"]), measured=measured_of(1, np.zeros((1, 1))),
            log=log_of(settings={"map": "single"}, timings={}, command=""), method="", formula="",
        )
    )  # fmt: skip
    assert "only" in page


def test_page_works_for_all_readers(report):
    elements = Elements(report_html(report))
    assert ("html", {"lang": "en"}) in elements.tags
    for tag, attributes in elements.tags:
        if tag == "img":
            assert attributes["alt"]
        if tag == "canvas":
            assert attributes.get("aria-hidden") or attributes["aria-label"]
            if attributes.get("role") != "img":
                assert attributes.get("aria-hidden") or attributes["tabindex"] == "0"
    assert any(tag == "noscript" for tag, _ in elements.tags)


def test_failure_keeps_the_old_page(tmp_path, report, monkeypatch):
    path = tmp_path / "report.html"
    write_results(tmp_path, report)
    before = path.read_bytes()
    monkeypatch.setattr("pivec.report.pages.encodable", lambda text: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_results(tmp_path, report)
    assert path.read_bytes() == before


def test_json_cannot_end_its_element():
    text = json_for_script({"a": PAYLOADS[:9]})
    assert json.loads(text) == {"a": PAYLOADS[:9]}
    assert not set("<>&\u2028\u2029") & set(text)
    with pytest.raises(ValueError, match="JSON"):
        json_for_script(float("nan"))
