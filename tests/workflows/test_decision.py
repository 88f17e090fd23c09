"""Decisions that are made as early as possible."""

import numpy as np
import pytest

import pivec
from pivec import Decision, VisitedStates
from pivec.errors import BadData, PivecWarning, UsageError
from pivec.options import CollectOptions
from pivec.workflows import Collector


def walks(rng, step=0.0, n=20, length=25):
    return [np.cumsum(rng.normal(step, 1.0, (length, 2)), axis=0) for _ in range(n)]


def decided(rng, step, batch=20, most=600, **options):
    decision = Decision(components=4, **options)
    while decision.verdict == "unclear" and decision.n_episodes[0] < most:
        decision.update(walks(rng, 0.0, batch), walks(rng, step, batch))
    return decision


@pytest.mark.parametrize(("step", "verdict"), [(0.0, "same"), (0.7, "different")])
def test_the_verdict_comes_as_soon_as_it_is_clear(rng, step, verdict):
    decision = decided(rng, step)
    assert decision.verdict == verdict
    result = decision.result()
    assert (result.verdict, result.episodes) == (verdict, decision.n_episodes)
    if verdict == "same":
        assert decision.n_episodes[0] >= 75
        assert all(view.high < view.margin for view in result.views)
    else:
        assert any(view.beyond > view.margin for view in result.views)
        assert result.p_value < 0.05
    assert result.planned > 0


def test_batches_of_any_size_give_the_same_numbers(rng):
    a, b = walks(rng, 0.0, 60), walks(rng, 0.1, 60)
    whole, pieces = Decision(components=4), Decision(components=4)
    for decision, batch in ((whole, 20), (pieces, 1)):
        decision.update(a[:20], b[:20])
        for i in range(20, 60, batch):
            decision.update(a[i : i + batch], b[i : i + batch])
    one, other = whole.result(), pieces.result()
    for view, same in zip(one.views, other.views, strict=True):
        assert view.name == same.name
        np.testing.assert_allclose(view.distance, same.distance, rtol=1e-9, atol=1e-12)


def test_numbers_are_those_of_same_where_bins_are(rng):
    """With all episodes in the first batch, distances are those of `pivec.same`."""
    a, b = (VisitedStates.from_arrays({"a": walks(rng, s, 40)}) for s in (0.0, 0.2))
    decision = Decision(components=4)
    decision.update(a, b)
    answer = pivec.same(a, b, components=4)
    found = {view.name: view.distance for view in decision.result().views}
    for view in answer.views:
        if view.name != "moves":
            np.testing.assert_allclose(found[view.name], view.distance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["moves"], answer.distance, rtol=0.05)


def test_one_side_may_wait_and_views_can_be_chosen(rng):
    decision = Decision(components=4, views="length", margin=0.1)
    assert decision.update(walks(rng, n=30)) == "unclear"
    with pytest.raises(UsageError, match="30 and 0"):
        decision.result()
    decision.update((), walks(rng, n=30, length=60))
    assert decision.verdict == "different"
    assert [view.name for view in decision.result().views] == ["length"]
    assert decision.update(walks(rng), walks(rng)) == "different"  # it stays


@pytest.mark.parametrize(
    ("options", "fact"),
    [({"views": "speed"}, "speed"), ({"method": "gaussian"}, "visitation")],
)
def test_mistakes_are_named(rng, options, fact):
    with pytest.raises(UsageError, match=fact):
        Decision(**options).update(walks(rng), walks(rng))


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_policies_are_run_until_the_verdict_is_clear():
    lean = lambda observations: (observations[:, 2] > 0).astype(int)  # noqa: E731
    options = {"components": 4, "decide": True}
    far = pivec.same(lean, "random", "CartPole-v1", **options)
    assert (far.verdict, far.episodes, far.test) == ("different", (20, 20), "sequential")
    assert far.planned >= 20
    few = pivec.same(lean, lean, "CartPole-v1", at_most=40, **options)
    assert (few.verdict, few.episodes) == ("unclear", (40, 40))
    with pytest.raises(UsageError, match="pair"):
        pivec.same(lean, lean, "CartPole-v1", pair="seed", **options)


def test_recorded_episodes_are_read_until_there_are_no_more(rng):
    a, b = (VisitedStates.from_arrays({"a": walks(rng, n=50)}) for _ in range(2))
    answer = pivec.same(a, b, components=4, decide=True)
    assert (answer.verdict, answer.episodes) == ("unclear", (50, 50))


def test_more_episodes_are_those_that_a_larger_number_gives():
    """Playing in several rounds changes nothing."""
    whole = pivec.collect("CartPole-v1", "random", episodes=30)
    collector = Collector("CartPole-v1", "random", CollectOptions(episodes=10))
    for n in (10, 25, 30):
        grown = collector.run({"random": n})
        assert grown.n_episodes == n
    np.testing.assert_array_equal(grown.states, whole.states)
    np.testing.assert_array_equal(grown.returns, whole.returns)


def test_thinned_episodes_are_refused():
    data = pivec.collect("CartPole-v1", "random", episodes=20, max_states_per_policy=150)
    with pytest.raises(UsageError, match="max_states_per_policy"):
        Decision(components=4).update(data, data)


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_common_seeds_are_warned_of():
    lean = lambda observations: (observations[:, 2] > 0).astype(int)  # noqa: E731
    options = {"components": 4, "decide": True, "at_most": 20, "same_seeds": True}
    with pytest.warns(PivecWarning, match="seeds"):
        pivec.same(lean, "random", "CartPole-v1", **options)


def test_later_episodes_need_the_same_features(rng):
    decision = Decision(components=4)
    decision.update(walks(rng), walks(rng))
    wide = [rng.normal(size=(20, 3)) for _ in range(5)]
    with pytest.raises(BadData, match="3"):
        decision.update(wide, wide)
