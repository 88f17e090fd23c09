"""Rules that separate two policies: the shares of time are true, and nothing is found in noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

import pivec
from pivec.explanations import Feature, separating_rules

FEATURES = (Feature("x", "m"), Feature("y"))


def boxes(rng, shares, episodes=30, steps=40):
    """Walks that jump between x < 0 and x > 0; the share of time beyond 0 varies by episode."""
    beyond = (
        rng.uniform(size=(episodes, steps))
        < rng.beta(8 * shares, 8 * (1 - shares), episodes)[:, None]
    )
    x = np.where(beyond, rng.uniform(0.1, 2, beyond.shape), rng.uniform(-2, -0.1, beyond.shape))
    return list(np.stack([x, rng.normal(size=x.shape)], axis=2))


def rules_of(*policies, labels=("a", "b"), of="states", features=FEATURES, seed=0):
    data = pivec.VisitedStates.from_arrays(list(policies), labels=list(labels))
    method = pivec.characterization(
        "visitation", n_components=2, of=of, n_init=1, random_state=seed
    )
    return separating_rules(method.fit(data), data[0], data[1], features)


def test_a_planted_rule_is_found_with_its_shares(rng):
    found = rules_of(boxes(rng, 0.2, 80), boxes(rng, 0.8, 60))
    [rule] = found.certain
    [span] = rule.spans
    assert span.feature == 0
    assert -0.1 <= min(span.low, span.high, key=abs) <= 0.1
    more = 1 if math.isinf(span.high) else -1
    assert rule.low < 0.6 * more < rule.high
    assert rule.shares[0] == pytest.approx(0.2 if more > 0 else 0.8, abs=0.1)
    assert found.low < 0.6 < found.high
    assert found.episodes == (40, 30)
    assert "x " in rule.sentence()
    assert " m:" in rule.sentence()
    assert sum(rule.shares[0] for rule in found.rules) == pytest.approx(1.0)


def test_shares_are_those_of_the_rule_as_it_is_shown(rng):
    """Thresholds are round, also of features that are far from 0 compared with their spread."""
    policies = [[walk + np.array([1000, 0]) for walk in boxes(rng, share)] for share in (0.1, 0.9)]
    [rule] = rules_of(*policies).certain
    [span] = rule.spans
    cut = span.low if math.isinf(span.high) else span.high
    assert f"{cut:g}" in rule.where
    assert float(f"{cut:g}") == cut
    assert abs(cut - 1000) < 0.2
    # Of all episodes; those that no tree was grown on have nearly the same.
    shares = [np.mean([(walk[:, 0] > cut).mean() for walk in own]) for own in policies]
    if math.isinf(span.low):
        shares = [1 - share for share in shares]
    assert rule.shares == pytest.approx(shares, abs=0.1)


def test_rules_do_not_depend_on_the_order(rng):
    a, b = boxes(rng, 0.3), boxes(rng, 0.7)
    one, other = rules_of(a, b), rules_of(b, a, labels=("b", "a"))
    assert {rule.spans for rule in one.rules} == {rule.spans for rule in other.rules}
    turned = {rule.spans: rule.shares[::-1] for rule in other.rules}
    for rule in one.rules:
        assert turned[rule.spans] == pytest.approx(rule.shares)
    assert one.total_variation == pytest.approx(other.total_variation)


def test_steps_are_used_where_states_do_not_separate(rng):
    """Up a line and down again in a few steps, against the reverse: the same places."""
    up = np.concatenate([np.linspace(0, 1, 40), np.linspace(1, 0, 5)])
    walks = [np.column_stack([up, np.zeros(45)]) + rng.normal(0, 0.001, (45, 2)) for _ in range(20)]
    features = (*FEATURES, *(feature.step for feature in FEATURES))
    found = rules_of(walks[:10], [walk[::-1] for walk in walks[10:]], of="moves", features=features)
    assert found.certain
    assert any(features[span.feature].is_step for span in found.certain[0].spans)
    assert found.total_variation > 0.7


def test_few_episodes_and_constant_features_have_no_rules(rng):
    assert rules_of(boxes(rng, 0.2, 3), boxes(rng, 0.8)) is None
    constant = [np.ones((5, 2))] * 6
    found = rules_of(constant, constant)
    assert found.certain == []
    assert len(found.words()) == 1
    # Two episodes of each are not enough to be certain, however different they are.
    assert rules_of(boxes(rng, 0.01, 4), boxes(rng, 0.99, 4)).certain == []
    assert rules_of(boxes(rng, 0.01, 12), boxes(rng, 0.99, 12)).certain


@pytest.mark.slow
def test_intervals_cover_and_nothing_is_found_in_noise():
    """Of 200 pairs each; the share beyond the rule's threshold is known exactly."""
    covered, alarms, n = [], 0, 200
    for seed in range(n):
        rng = np.random.default_rng(seed)
        for rule in rules_of(boxes(rng, 0.3, 20), boxes(rng, 0.6, 20), seed=seed).rules:
            if len(rule.spans) != 1 or rule.spans[0].feature != 0:
                continue
            span = rule.spans[0]
            truth = [beyond(share, span) for share in (0.3, 0.6)]
            covered.append(rule.low <= truth[1] - truth[0] <= rule.high)
        alarms += bool(rules_of(boxes(rng, 0.3, 20), boxes(rng, 0.3, 20), seed=seed).certain)
    assert len(covered) > n
    assert 0.92 <= np.mean(covered) <= 0.985
    assert alarms <= 0.05 * n + 3 * math.sqrt(0.05 * 0.95 * n)


def beyond(share, span):
    """The share of time within a span of x."""

    def below(x):
        x = np.clip(x, -2, 2)
        left = np.clip((x + 2) / 1.9, 0, 1)
        right = np.clip((x - 0.1) / 1.9, 0, 1)
        return (1 - share) * left + share * right

    return below(span.high) - below(span.low)
