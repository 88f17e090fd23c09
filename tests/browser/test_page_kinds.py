"""Pages of other ways to compare, and of unusual comparisons: they open, and their numbers hold."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from made_pages import report_of
from sight import chosen, figure

from pivec.characterizations import Space, characterization, measure
from pivec.states import VisitedStates

METHODS = {
    "supervector": {"n_components": 4},
    "gaussian": {},
    "discretization": {"bins": 4},
    "mmd": {"n_frequencies": 64},
    "trajectories": {},
    "returns": {},
}


def compared(n=7, method="visitation", parameters=None, *, steps=True, returns=True):
    """Compare policies that walk about places side by side; the last is of an earlier space."""
    rng = np.random.default_rng(0)
    walks = [[rng.normal(0.4 * i, 1.0, (30, 3)) for _ in range(5)] for i in range(n)]
    data = VisitedStates.from_arrays(
        walks,
        labels=[f"p{i}" for i in range(n)],
        groups=["run"] * (n - 1) + [""],
        steps=[i if steps else None for i in range(n)],
        returns=[rng.normal(i, 1, 5).tolist() for i in range(n)] if returns else None,
        environment="Walk-v0",
    )
    if parameters is None:
        parameters = {"n_components": 3}
    fitted = characterization(method, **parameters).fit(data)
    described = fitted.describe(data, influences=fitted.traits.influences)
    positions = rng.normal(size=(n, 2))
    space = Space(fitted, described, positions, {"environment": "Walk-v0"}, int(n > 3))
    measured = measure(fitted, described, data)
    return SimpleNamespace(data=data, space=space, report=report_of(space, measured))


@pytest.mark.filterwarnings("ignore:no intervals")
@pytest.mark.parametrize("method", METHODS)
def test_the_distance_is_that_of_the_method(page_of, method):
    made = compared(method=method, parameters=METHODS[method])
    panel = chosen(page_of(made.report), "p1", "p5")
    said = panel.locator(".distance .figure strong").text_content()
    assert figure(said) == pytest.approx(made.report.measured.estimates[1, 5], rel=0.01)


@pytest.mark.parametrize("n", [1, 2])
def test_few_policies_are_a_page_too(page_of, n):
    page = page_of(compared(n).report)
    page.locator("#search").fill(f"p{n - 1}")
    page.locator("#search").press("Enter")
    page.locator("#panel h2", has_text=f"p{n - 1}").wait_for()


def test_a_page_without_steps_and_returns_says_nothing_of_them(page_of):
    page = page_of(compared(steps=False, returns=False).report)
    assert page.locator("#steps").is_hidden()
    assert page.locator("#colour option[value=return]").count() == 0
    panel = chosen(page, "p0", "p6")
    assert "nan" not in panel.inner_text().lower()
    assert "undefined" not in page.locator("main").inner_text()
