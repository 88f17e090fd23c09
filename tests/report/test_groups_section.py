"""What the page says of behaviours and of groups of runs."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from pivec.report import (
    GroupComparison,
    GroupPair,
    RunGroup,
    groups_figure,
    permanova_sentence,
    print_groups,
    report_html,
)
from pivec.statistics import Estimate, Permanova

TEST = Permanova(5.0, 0.62, 0.2, 0.1, 0.1, 20, True)


def group(name, n):
    runs = tuple(f"{name}-{i}" for i in range(n))
    known = Estimate(0.2, 0.1, 0.9) if n > 2 else Estimate(0.2 if n > 1 else math.nan)
    return RunGroup(name, runs, 2 * n, known, known, Estimate(1.5, *(known.low, known.high)))


def compared(*groups, test=TEST):
    runs = tuple(run for part in groups for run in part.runs)
    names = [part.name for part in groups]
    pairs = tuple(
        GroupPair((a, b), Estimate(0.5, 0.4, 0.6), test)
        for k, a in enumerate(names)
        for b in names[k + 1 :]
    )
    d = tuple(tuple(0.1 * abs(i - j) for j in range(len(runs))) for i in range(len(runs)))
    return GroupComparison(groups, pairs, test, "as given", (), None, 0.02, 0.95, runs, d)


def test_policies_that_cannot_be_told_apart_are_one_behaviour(make_report, intervals_of):
    x = np.array([0, 0, 0, 5, 5, 9, 9, 9, 9, 2, 7.0])
    d = (x[:, None] - x) ** 2
    labels = [f"<b>{i}" for i in range(11)]
    report = make_report({"label": labels}, {"matrix": d, "intervals": intervals_of(d, 0.5)})
    text = report_html(report)
    assert "11 policies in 5 behaviour classes" in text
    tab = text[text.index('id="tab-behaviours"') :]
    shown = " ".join(re.sub(r"<[^>]*>", "", tab[: tab.index("</table>")]).split())
    assert "&lt;b&gt;5, &lt;b&gt;6, &lt;b&gt;7, &lt;b&gt;8" in shown
    assert "<b>" not in text
    assert report.behaviours.numbers == (2, 2, 2, 3, 3, 1, 1, 1, 1, 4, 5)
    assert "<dt>behaviour classes</dt><dd>5</dd>" in report_html(report)


def test_without_a_test_there_are_no_behaviours(make_report):
    report = make_report()
    page = report_html(report)
    assert 'id="behaviours"' not in page
    assert 'id="groups"' not in page
    assert "<dt>behaviour classes</dt>" not in page


def test_groups_are_shown_with_their_runs(make_report):
    report = make_report()
    vars(report)["groups"] = compared(group("<i>", 3), group("ppo", 3))  # which it computes
    text = report_html(report).replace("\u00a0", " ")
    assert "&lt;i&gt; and ppo cannot be distinguished with 3 + 3 runs" in text
    assert "at least 4 + 4" in text
    assert "Groups explain 62 % of the variance between runs (20 % by chance), p = 0.1" in text
    assert "p cannot fall below 0.1" in text
    assert "&lt;i&gt;-0, &lt;i&gt;-1, &lt;i&gt;-2" in text
    assert "0.2 (0.1 to 0.9)" in text
    assert "<i>-0" not in text


def test_the_least_p_value_is_said_only_where_it_matters():
    many = Permanova(5.0, 0.62, 0.05, 0.001, 0.001, 999, False)
    assert "cannot fall" not in permanova_sentence(many)


@pytest.mark.parametrize("sizes", [(3, 3), (1, 3), (2, 2, 1), (3,), (1, 1)])
def test_figure_and_console_cope_with_few_runs(sizes, capsys):
    test = TEST if len(sizes) > 1 and sum(sizes) > len(sizes) else None
    result = compared(*(group("abc"[k], n) for k, n in enumerate(sizes)), test=test)
    figure = groups_figure(result, "Walk-v0")
    lines = [text.get_text() for axes in figure.axes for text in axes.get_yticklabels()]
    assert lines.count("a") == 1
    assert ("within a" in lines) == (sizes[0] > 1)
    print_groups(result)
    said = capsys.readouterr().out
    assert "a: a-0" in said
    assert ("No test" in said) == (test is None)
