"""Episodes played again: bit for bit, or a sentence that says why not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from filmed_worlds import doubled, halved, make_far, make_seen, make_walk

import pivec
from pivec.characterizations import Space, characterization
from pivec.explanations import CannotReplay, ComparisonFolder, Replayer
from pivec.explanations.clips import pictures
from pivec.options import ReplayOptions
from pivec.states import Store, json_digest

DEMO = Path(pivec.__file__).parent / "demo_policies" / "CartPole-v1"
FILES = sorted(DEMO.glob("*/*.safetensors"))[:2]
BOTH = {"p0": "p0.safetensors", "p1": "p1.safetensors"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of two policies, which is the current one."""
    monkeypatch.chdir(tmp_path)
    for number, file in enumerate(FILES):
        shutil.copy(file, tmp_path / f"p{number}.safetensors")
    return tmp_path


def states_of(data, episode, policy=0):
    record = data.records[policy]
    return next(iter(record.as_episodes([episode]))).states


def check_whole(replayer, data, label, episodes):
    policy = data.labels.index(label)
    for number, take in zip(
        episodes, replayer.stored_many([(label, n) for n in episodes]), strict=True
    ):
        record = data.records[policy]
        first = record.episodes["length"][:number].sum()
        shown = take.states[record.times[first : first + record.episodes["length"][number]]]
        assert shown.tobytes() == states_of(data, number, policy).tobytes()
        assert take.last == len(take.states) - 1 == len(take.actions)
        assert (take.label, take.episode) == (label, number)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"actions": True},
        {"keep_policies": True},
        {"max_states_per_policy": 20},
        {"max_states_per_policy": 20, "actions": True},
        {"deterministic": True, "max_steps": 30},
    ],
    ids=str,
)
def test_stored_episodes_are_the_same_to_the_last_bit(folder, options):
    data = pivec.collect("CartPole-v1", BOTH, 4, store="s",
                         **options)  # fmt: skip
    if "max_states_per_policy" in options:
        assert data.records[0].every > 1
    if "keep_policies" in options or options == {"actions": True}:
        (folder / "p0.safetensors").unlink()
    check_whole(Replayer(Store("s")), data, "p0", [3, 0])


def test_random_policies_are_made_again_and_any_policy_plays_any_seed(folder):
    data = pivec.collect("CartPole-v1", {"chance": "random", **BOTH}, 3, store="s")
    replayer = Replayer(Store("s"))
    check_whole(replayer, data, "chance", [2])
    own = replayer.stored("p0", 1)
    again = replayer.on_seed("p0", own.seed)
    assert (again.states.tobytes(), again.episode) == (own.states.tobytes(), None)
    others = [replayer.on_seed(label, own.seed) for label in ("p1", "chance")]
    assert all(take.states[0].tobytes() == own.states[0].tobytes() for take in others)
    assert others[0].states.tobytes() != own.states.tobytes()


def test_files_are_found_from_the_folder_of_the_results(folder, monkeypatch):
    data = pivec.collect("CartPole-v1", {"p0": "p0.safetensors"}, 2, store=folder / "s")
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    check_whole(Replayer(Store("../s")), data, "p0", [0])


def test_a_comparison_is_played_again_with_an_earlier_policy(folder):
    data = pivec.collect("CartPole-v1", BOTH, 2, store="s/states")
    method = characterization("gaussian").fit(data)
    space = Space(method, method.describe(data), collected=Store("s/states").settings)
    whole = ComparisonFolder(folder / "s", space, data)
    check_whole(Replayer(whole), data, "p1", [0])
    part = replace(whole, data=data.select(["p0"]))  # p1 was placed before
    with pytest.raises(CannotReplay, match="no states of p1"):
        Replayer(part).stored("p1", 0)
    seed = int(data.records[0].episodes["seed"][0])
    assert Replayer(part).on_seed("p1", seed).label == "p1"


def lean(observations):
    return (observations[:, 2] > 0).astype(int)


def test_functions_are_given_again_or_imported_with_trust(folder):
    data = pivec.collect("CartPole-v1", [lean], 2, store="s")
    label = data.labels[0]
    with pytest.raises(CannotReplay, match=r":lean.*--trust"):
        Replayer(Store("s")).stored(label, 0)
    check_whole(Replayer(Store("s"), ReplayOptions(policies=[lean])), data, label, [1])
    check_whole(Replayer(Store("s"), ReplayOptions(trust=True)), data, label, [1])


def test_what_has_gone_or_changed_is_said(folder):
    data = pivec.collect("CartPole-v1", BOTH, 2, store="s")
    shutil.copy(FILES[1], "p0.safetensors")
    changed, fine, none, unknown = Replayer(Store("s")).stored_many(
        [("p0", 0), ("p1", 1), ("p1", 2), ("p7", 0)]
    )
    assert "p0.safetensors has changed" in str(changed)
    assert fine.states.tobytes() == states_of(data, 1, 1).tobytes()
    assert "no episode 2: expected 0 to 1" in str(none)
    assert "no states of p7" in str(unknown)
    Path("p0.safetensors").unlink()
    with pytest.raises(CannotReplay, match=r"p0.safetensors.*--policies"):
        Replayer(Store("s")).stored("p0", 0)
    Path("moved").mkdir()
    shutil.copy(FILES[0], "moved/x.safetensors")
    check_whole(Replayer(Store("s"), ReplayOptions(policies="moved")), data, "p0", [1])
    with pytest.raises(CannotReplay, match="no policy p7"):
        Replayer(Store("s")).on_seed("p7", 0)


def with_settings(store, **settings):
    """Change what a store says of itself."""
    index = json.loads((Path(store) / "store.json").read_text())
    index.pop("sha256")
    index["settings"] |= settings
    (Path(store) / "store.json").write_text(json.dumps({**index, "sha256": json_digest(index)}))
    return Store(store)


def test_other_settings_are_noticed(folder):
    pivec.collect("CartPole-v1", {"random": "random", "p0": "p0.safetensors"}, 1, store="s")
    with pytest.raises(CannotReplay, match="--backend gymnasium"):
        Replayer(with_settings("s", backend="envpool")).stored("random", 0)
    assert Replayer(Store("s")).on_seed("random", 0).last > 0  # in Gymnasium, where it may act
    heavier = with_settings("s", backend="gymnasium", deterministic=True)
    with pytest.raises(CannotReplay, match="episode 0 of p0"):
        Replayer(heavier).stored("p0", 0)
    with pytest.raises(CannotReplay, match="--trust"):
        Replayer(with_settings("s", environment="antigravity:Fly-v0")).stored("random", 0)
    wrapped = with_settings("s", environment="CartPole-v1", wrappers=["os:system"])
    with pytest.raises(CannotReplay, match=r"os:system.*--trust"):
        Replayer(wrapped).stored("random", 0)


def test_features_are_found_again_or_given(folder):
    data = pivec.collect(make_walk, "random", 2, store="s", features=halved)
    with pytest.raises(CannotReplay, match="make_walk"):
        Replayer(Store("s")).stored("random", 0)
    with pytest.raises(CannotReplay, match=r"halved.*--features"):
        Replayer(Store("s"), ReplayOptions(env=make_walk)).stored("random", 0)
    for features in (halved, f"{halved.__module__}:halved"):
        options = ReplayOptions(env=make_walk, features=features)
        check_whole(Replayer(Store("s"), options), data, "random", [1])
    options = ReplayOptions(env=make_walk, features=doubled)
    with pytest.raises(CannotReplay, match="doubled"):
        Replayer(Store("s"), options).stored("random", 0)


@pytest.mark.parametrize(
    ("make", "features"), [(make_seen, 'cells{"height": 2, "width": 8}'), (make_far, None)]
)
def test_what_pivec_makes_of_observations_is_found_again(folder, make, features):
    data = pivec.collect(make, "random", 2, store="s", features=features)
    assert Store("s").settings["features"] is not None
    replayer = Replayer(Store("s"), ReplayOptions(env=make))
    check_whole(replayer, data, "random", [0])
    take = replayer.stored("random", 1)
    assert len(list(pictures(replayer.scene, take, [0, take.last]))) == 2


def test_settings_of_a_stranger_are_no_traceback(folder):
    pivec.collect("CartPole-v1", "random", 1, store="s")
    for settings in ({"features": {"a": 1}}, {"arguments": {"mass": 1}}, {"environment": 3}):
        plain = {"features": None, "arguments": {}, "environment": "CartPole-v1"}
        with pytest.raises(CannotReplay):
            Replayer(with_settings("s", **plain | settings)).stored("random", 0)
    fine = with_settings("s", **plain, max_steps="many", deterministic="no")
    assert len(Replayer(fine).stored_many([("random", 0)])) == 1


@pytest.mark.parametrize("source", ["", "\0", "~nobody/x.zip", "a" * 5000, "/", "os:system"])
def test_sources_of_a_stranger_are_no_traceback(tmp_path, source):
    data = pivec.VisitedStates.from_arrays([[np.zeros((3, 4))], [np.ones((3, 4))]], ["a", "b"])
    method = characterization("gaussian").fit(data)
    described = method.describe(data)
    infos = tuple(replace(i, source=source, fingerprint="x") for i in described.policies)
    space = Space(method, replace(described, policies=infos))
    with pytest.raises(CannotReplay, match="--policies"):
        Replayer(ComparisonFolder(tmp_path, space, None), ReplayOptions(env="CartPole-v1")).on_seed(
            "a", 0
        )


def test_recorded_states_cannot_be_played_again(folder):
    Path("n").mkdir()
    np.savez("n/data.npz", observations=np.zeros((1, 4, 4)))
    pivec.collect("CartPole-v1", ["npz:n", "random"], 1, store="s")
    with pytest.raises(CannotReplay, match="elsewhere"):
        Replayer(Store("s")).stored("data", 0)
    with pytest.raises(CannotReplay, match="elsewhere"):
        Replayer(Store("s")).on_seed("data", 0)
