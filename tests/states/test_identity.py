"""A policy visits the same states alone, beside namesakes, in any order, under any label."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import pivec
from pivec.errors import PivecWarning
from pivec.policies import NamedPolicy, NetworkPolicy, save_policy
from pivec.rollouts import play as playing
from pivec.states import Store, load

EPISODES = 3


def lean(observations):
    return (observations[:, 2] > 0).astype(int)


def network(seed):
    rng = np.random.default_rng(seed)
    return NetworkPolicy(((rng.normal(size=(4, 2)), np.zeros(2)),), "tanh", "categorical")


def collect(policies, **more):
    return pivec.collect("CartPole-v1", policies, EPISODES, **more)


def visited(data, label):
    one = data[label]
    return one.states.tobytes(), tuple(one.seeds), tuple(one.returns)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two experiments whose files have the same names."""
    monkeypatch.chdir(tmp_path)
    for seed, run in enumerate(("exp1", "exp2")):
        save_policy(network(seed), tmp_path / run / "seed_0" / "best.safetensors")
    return tmp_path


@pytest.fixture
def played(monkeypatch):
    """Labels of the policies that acted."""
    names = []

    def counting(environment, policies, *rest):
        names.extend(named.info.label for named in policies)
        return playing.play_policies(environment, policies, *rest)

    monkeypatch.setattr(sys.modules["pivec.workflows.collector"], "play_policies", counting)
    return names


FIRST, SECOND = (f"{run}/seed_0/best.safetensors" for run in ("exp1", "exp2"))


def test_files_beside_namesakes_in_any_order_under_any_label(runs):
    alone = collect(FIRST)
    assert alone.labels == ("seed_0/best",)
    expected = visited(alone, "seed_0/best")
    for policies, label in (
        ([FIRST, SECOND], "exp1/seed_0/best"),
        ([SECOND, "random", FIRST], "exp1/seed_0/best"),
        ({"mine": FIRST, "other": SECOND}, "mine"),
        ({"object": network(0)}, "object"),
    ):
        assert visited(collect(policies), label) == expected
    assert visited(collect(SECOND), "seed_0/best") != expected


def test_checkpoints_of_stable_baselines3_saved_twice(tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    made = sb3.PPO("MlpPolicy", "CartPole-v1", n_steps=64, device="cpu", seed=0)
    for i, name in enumerate("ab"):
        (tmp_path / name).mkdir()
        made.num_timesteps = i
        made.save(tmp_path / name / "model.zip")
    one, other = (collect(tmp_path / name / "model.zip") for name in "ab")
    assert visited(one, 0) == visited(other, 0) == visited(collect({"x": made}), "x")


@pytest.mark.parametrize("spec", ["random", f"{__name__}:lean"])
def test_what_has_no_weights_follows_its_specification(spec):
    expected = visited(collect(spec), spec)
    assert visited(collect(["random:2", spec]), spec) == expected
    assert visited(collect({"other": spec}), "other") == expected


def test_samples_of_chance_differ_and_stay_when_more_are_asked_for():
    two, three = collect("random:2"), collect("random:3")
    assert visited(two, 0) != visited(two, 1)
    for label in two.labels:
        assert visited(two, label) == visited(three, label)


def test_a_function_follows_the_label_it_was_given():
    one = collect({"lean": lean})
    assert visited(collect({"still": lambda o: 0 * lean(o), "lean": lean}), "lean") == visited(
        one, "lean"
    )
    assert visited(collect([lean]), "lean") == visited(collect(["random", lean]), "lean")


def test_going_on_beside_a_namesake_plays_nothing_again_and_leaves_no_ghost(runs, played):
    alone = collect(FIRST, store="states")
    before = visited(alone, "seed_0/best")
    played.clear()
    both = collect([SECOND, FIRST], store="states")
    assert played == ["exp2/seed_0/best"]
    assert both.labels == ("exp2/seed_0/best", "exp1/seed_0/best")
    assert visited(both, "exp1/seed_0/best") == before
    assert tuple(Store("states")) == both.labels
    assert load("states").policies == both.policies
    assert both["exp1/seed_0/best"].groups == ("exp1/seed_0",)
    assert Store("states").verify() == []


def test_a_subset_keeps_the_others_and_a_namesake_makes_room(runs, played):
    collect(FIRST, store="states")
    first = visited(load("states"), "seed_0/best")
    second = collect(SECOND, store="states")
    assert second.labels == ("seed_0/best",)
    assert set(Store("states")) == {"seed_0/best", "seed_0/best-2"}
    assert visited(load("states"), "seed_0/best-2") == first
    played.clear()
    again = collect(FIRST, store="states")
    assert visited(again, "seed_0/best") == first
    assert set(Store("states")) == {"seed_0/best", "seed_0/best-2"}
    both = collect([FIRST, SECOND], store="states")
    assert played == []
    assert set(Store("states")) == set(both.labels) == {"exp1/seed_0/best", "exp2/seed_0/best"}
    assert visited(both, "exp2/seed_0/best") == visited(second, "seed_0/best")


def test_namesakes_survive_the_loss_of_the_index(runs):
    collect(FIRST, store="states")
    collect(SECOND, store="states")
    kept = {visited(load("states"), label) for label in Store("states")}
    (runs / "states" / "store.json").unlink()
    collect(SECOND, store="states")
    assert {visited(load("states"), label) for label in Store("states")} == kept


def test_a_policy_that_was_trained_on_replaces_what_it_was(runs):
    before = visited(collect(FIRST, store="states"), 0)
    save_policy(network(5), runs / FIRST)
    assert visited(collect(FIRST, store="states"), 0) != before
    assert tuple(Store("states")) == ("seed_0/best",)
    assert len(list((runs / "states").glob("*.arrow"))) == 1


def test_stores_under_other_labels_differ_in_the_label_only(runs):
    collect({"a": FIRST, "b": SECOND}, store="one")
    collect({"y": SECOND, "x": FIRST}, store="two")
    names = {"a": "x", "b": "y"}
    one, two = load("one"), load("two")
    for a, b in names.items():
        assert visited(one, a) == visited(two, b)
        assert replace(one[a].policies[0], label=b) == two[b].policies[0]
    rows = json.loads((runs / "one" / "store.json").read_text())["policies"]
    assert {row["label"] for row in rows} == {"a", "b"}
    assert all(len(row["fingerprint"]) == 64 for row in rows)


def test_thinned_states_stay_thinned_under_another_label(runs):
    first = collect({"a": FIRST}, store="states", max_states_per_policy=20)
    assert first.policies[0].metadata["kept_every"] > 1
    second = collect({"b": FIRST}, store="states", max_states_per_policy=20)
    assert second.policies == (replace(first.policies[0], label="b"),)


def test_copies_are_collected_once_and_found_by_all_names(runs):
    save_policy(network(0), runs / "exp1" / "seed_0" / "step_10.safetensors")
    with pytest.warns(PivecWarning, match=r"step_10 \(also seed_0/best\)"):
        data = collect(["exp1"], store="states")
    assert data.labels == ("seed_0/step_10",)
    assert visited(data, "seed_0/best") == visited(data, "seed_0/step_10")
    assert visited(load("states"), "seed_0/best") == visited(collect(FIRST), "seed_0/best")


def test_a_policy_in_an_earlier_space_is_not_shown_twice(runs):
    settings = {"episodes": EPISODES, "parameters": {"n_components": 2}}
    pivec.compare("CartPole-v1", [FIRST, "random"], "out", **settings)
    more = pivec.compare("CartPole-v1", [FIRST, SECOND], "more", space="out", **settings)
    assert set(more.labels) == {"exp1/seed_0/best", "exp2/seed_0/best", "random"}


def test_distances_and_places_do_not_depend_on_the_order(runs):
    policies = [FIRST, SECOND, "random:3", f"{__name__}:lean"]
    found = []
    for order in (policies, policies[::-1]):
        out = f"out-{len(found)}"
        made = pivec.compare(
            "CartPole-v1", order, out, episodes=EPISODES, parameters={"n_components": 4}
        )
        rows = np.argsort(made.labels)
        assert sorted(made.labels) == [made.labels[i] for i in rows]
        found.append((made.distances[np.ix_(rows, rows)], made.space.positions[rows]))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)


def test_a_named_policy_without_a_fingerprint_gets_the_one_of_its_weights():
    info = pivec.policies.policy.PolicyInfo("mine")
    named = NamedPolicy(network(0), info)
    assert visited(collect(named), "mine") == visited(collect({"x": network(0)}), "x")
