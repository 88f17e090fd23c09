"""Recorded states: read as they are, kept beside policies that act, and written for others."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow.parquet as pq
import pytest

import pivec
from pivec.errors import BadData, UsageError
from pivec.options import TableOptions
from pivec.policies import NetworkPolicy, save_policy
from pivec.states import import_recorded, is_recorded
from pivec.states.export import export, write_parquet


def lean(observations):
    return (observations[:, 2] > 0).astype(int)


@pytest.fixture
def walks(rng):
    return [rng.normal(size=(n, 4)).astype(np.float32) for n in (5, 3, 8)]


@pytest.fixture
def network():
    weights = np.ones((4, 2), np.float32), np.zeros(2, np.float32)
    return NetworkPolicy((weights,), activation="tanh", head="categorical")


@pytest.fixture
def minari(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return pytest.importorskip("minari")


def padded(path, walks, **more):
    states = np.full((len(walks), 9, 4), np.nan, np.float32)
    for number, walk in enumerate(walks):
        states[number, : len(walk)] = walk
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, states=states, lengths=[len(walk) for walk in walks], **more)


def long(path, walks, rng, **more):
    """Rows in any order, episodes with any numbers."""
    rows = np.concatenate(walks)
    episode = np.repeat([30, 10, 20], [len(walk) for walk in walks])
    step = np.concatenate([np.arange(len(walk)) for walk in walks])
    order = rng.permutation(len(rows))
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        path, observations=rows[order], episode=episode[order], step=step[order], **more
    )


def test_both_layouts_give_the_episodes(tmp_path, walks, rng):
    padded(tmp_path / "data/run/a.npz", walks, returns=[1.0, 2.0, 3.0], terminated=[1, 0, 1])
    long(tmp_path / "data/b.npz", walks, rng)
    data = import_recorded([f"npz:{tmp_path / 'data'}"], tmp_path / "store", environment="X-v0")
    assert data.labels == ("b", "run/a")
    assert data.groups == ("data", "run")
    a, b = data["run/a"], data["b"]
    for mine, walk in zip(a.episodes(), walks, strict=True):
        assert np.array_equal(mine, walk)
    for mine, walk in zip(b.episodes(), [walks[1], walks[2], walks[0]], strict=True):
        assert np.array_equal(mine, walk)
    assert a.returns.tolist() == [1, 2, 3]
    assert a.terminated.tolist() == [True, False, True]
    assert np.isnan(b.returns).all()
    assert data.environment == "X-v0"
    assert pivec.Store(tmp_path / "store").settings["backend"] == "recorded"


def test_rows_in_order_are_divided_by_terminals_or_a_length(tmp_path, rng):
    rows, ends = rng.normal(size=(12, 3)), np.arange(12) % 4 == 3
    np.savez(tmp_path / "rows.npz", observations=rows)
    np.savez(tmp_path / "ends.npz", observations=rows, terminals=ends)
    with pytest.raises(BadData, match="episode-length"):
        import_recorded([tmp_path / "rows.npz"], tmp_path / "store")
    ended = import_recorded([tmp_path / "ends.npz"], tmp_path / "store")
    assert [len(e.states) for e in ended.records[0].as_episodes()] == [4, 4, 4]
    for length in (6, 3):  # the same file, divided in another way, is read again
        options = TableOptions(episode_length=length)
        data = import_recorded([tmp_path / "rows.npz"], tmp_path / "cut", options=options)
        lengths = [len(episode.states) for episode in data.records[0].as_episodes()]
        assert lengths == [length] * (12 // length)


def test_actions_come_along_if_all_have_them(tmp_path, walks):
    moves = np.zeros((3, 8, 2))
    moves[1, :2] = [[1, 2], [3, 4]]
    padded(tmp_path / "data/a.npz", walks, actions=moves)
    data = import_recorded([f"npz:{tmp_path / 'data'}"], tmp_path / "store")
    assert data.actions.shape == (5 + 3 + 8 - 3, 2)
    assert data.actions[4:6].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros(3)}, "states or observations, only x"),
        ({"states": np.zeros((3, 4))}, r"\(3, 4\)"),
        ({"states": np.zeros((2, 3, 4)), "lengths": [4, 1]}, "from 1 to 3"),
        ({"states": np.zeros((2, 3, 4)), "lengths": [0, 1]}, "lengths .* 2 episodes"),
        ({"states": np.zeros((3, 4)), "episode": np.zeros(2)}, "episode .*2.*3"),
        (
            {"states": np.zeros((3, 4)), "episode": np.zeros(3), "step": [0, 1, 1]},
            "episode 0.* 1 twice",
        ),
        ({"states": np.full((1, 2, 4), np.inf)}, "inf in feature 0"),
        ({"states": np.zeros((1, 2, 4)), "returns": [1, 2]}, "returns .* 1 episodes"),
        ({"states": np.zeros((1, 2, 4)), "actions": np.zeros((1, 0))}, r"\(1, 0\)"),
        ({"states": np.array([[["a"]]])}, "<U1"),
        ({"states": np.array([[[{}]]], dtype=object)}, "a.npz"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path, arrays, words):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BadData, match=words):
        import_recorded([f"npz:{tmp_path}"], tmp_path / "store")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"nonsense" * 100])
def test_what_is_no_npz_is_named(tmp_path, content):
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(BadData, match=r"a\.npz") as caught:
        import_recorded([f"npz:{tmp_path}"], tmp_path / "store")
    assert str(caught.value).count("a.npz") == 1


def test_truncated_and_flipped_files_are_errors_of_ours(tmp_path, walks, rng):
    padded(tmp_path / "a.npz", walks)
    whole = (tmp_path / "a.npz").read_bytes()
    for _ in range(60):
        content = bytearray(whole)
        if rng.random() < 0.5:
            content = content[: int(rng.integers(len(content)))]
        else:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        (tmp_path / "a.npz").write_bytes(content)
        with contextlib.suppress(pivec.PivecError):
            import_recorded([f"npz:{tmp_path}"], tmp_path / f"store-{rng.integers(1 << 60)}")


def test_recorded_states_stand_beside_policies(tmp_path, walks):
    padded(tmp_path / "demos/human.npz", walks)
    specs = ["random", f"npz:{tmp_path / 'demos'}"]
    for store in (None, tmp_path / "store"):
        data = pivec.collect("CartPole-v1", specs, episodes=2, store=store)
        assert data.labels == ("random", "human")
        assert np.diff(data.policy_starts).tolist() == [2, 3]
        assert np.array_equal(data["human"].states, np.concatenate(walks))
    again = pivec.collect("CartPole-v1", specs, episodes=2, store=tmp_path / "store")
    assert np.array_equal(again.states, data.states)
    padded(tmp_path / "demos/human.npz", walks[:1])
    changed = pivec.collect("CartPole-v1", specs, episodes=2, store=tmp_path / "store")
    assert changed["human"].n_episodes == 1
    named = pivec.collect(
        "CartPole-v1", {"me": specs[1], "lean": lean}, episodes=2, max_states_per_policy=9
    )
    assert named.labels == ("lean", "me")
    assert named["me"].n_states == 5


def test_policies_beside_what_they_left_still_act(tmp_path, network):
    pivec.collect("CartPole-v1", {"net": network}, 2, store=tmp_path / "states", keep_policies=True)
    assert is_recorded(tmp_path)
    assert is_recorded(tmp_path / "states")
    save_policy(network, tmp_path / "net.safetensors")
    assert not is_recorded(tmp_path)
    assert pivec.collect("CartPole-v1", tmp_path, episodes=3).n_episodes == 3


def test_mistakes_beside_policies_are_named(tmp_path, walks):
    padded(tmp_path / "demos/human.npz", walks)
    spec = f"npz:{tmp_path / 'demos'}"
    for env, policies, options, words in (
        ("Pendulum-v1", spec, {}, "human.*4 .*3"),
        ("CartPole-v1", spec, {"actions": True}, "human.*--actions"),
        ("CartPole-v1", [spec, spec], {}, "'human'"),
        ("CartPole-v1", "npz:nowhere", {}, "nowhere"),
        ("CartPole-v1", f"npz:{tmp_path / 'empty'}", {}, "empty .*npz"),
        ("CartPole-v1", "npz:", {}, "npz:"),
    ):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises((UsageError, BadData), match=words):
            pivec.collect(env, policies, episodes=1, **options)


def test_npz_there_and_back(tmp_path):
    policies = {"a/../lean": lean, "random": "random"}
    data = pivec.collect("CartPole-v1", policies, episodes=3, actions=True, store=tmp_path / "s")
    export(tmp_path / "s", f"npz:{tmp_path / 'out'}")
    assert sorted(path.name for path in (tmp_path / "out").rglob("*.npz")) == [
        "lean.npz",
        "random.npz",
    ]
    back = import_recorded([f"npz:{tmp_path / 'out'}"], tmp_path / "back")
    assert np.array_equal(back["random"].states, data["random"].states)
    assert np.array_equal(back["a/../lean"].actions, data["a/../lean"].actions)
    assert np.array_equal(back["random"].seeds, data["random"].seeds)
    assert back.feature_names == data.feature_names


def test_minari_there_and_back(tmp_path, minari):
    policies = {"lean": lean, "random": "random"}
    data = pivec.collect("CartPole-v1", policies, episodes=3, actions=True, store=tmp_path / "s")
    assert "Minari dataset" in export(tmp_path / "s", "minari:cartpole/test-v0")
    with pytest.raises(UsageError, match="cartpole/test-v0"):
        export(tmp_path / "s", "minari:cartpole/test-v0")
    back = import_recorded(["minari:cartpole/test-v0#policy"], tmp_path / "back")
    again = import_recorded(["minari:cartpole/test-v0#policy"], tmp_path / "back")
    assert np.array_equal(again["lean"].states, data["lean"].states)
    assert back.labels == data.labels
    assert back.groups == data.groups
    assert np.array_equal(back.states, data.states)
    assert np.array_equal(back.actions, data.actions)
    assert np.allclose(back.returns, data.returns)
    assert np.array_equal(back.seeds, data.seeds)
    assert np.array_equal(back.terminated, data.terminated)
    assert back.environment == "CartPole-v1"
    whole = pivec.collect("CartPole-v1", ["random", "minari:cartpole/test-v0"], episodes=2)
    assert whole.labels == ("random", "cartpole/test-v0")
    assert np.array_equal(whole[1].states, data.states)
    with pytest.raises(UsageError, match="'colour'"):
        import_recorded(["minari:cartpole/test-v0#colour"], tmp_path / "x")


def test_datasets_lie_in_the_folder_of_the_policies(tmp_path, minari, network):
    data = pivec.collect("CartPole-v1", {"net": network}, 2, actions=True, store=tmp_path / "s")
    export(tmp_path / "s", "minari:cartpole/mine-v0")
    folder = tmp_path / "minari"
    alone = pivec.collect("CartPole-v1", [folder], episodes=2)
    assert alone.labels == ("cartpole/mine-v0",)
    assert np.array_equal(alone.states, data.states)
    save_policy(network, folder / "net.safetensors")
    both = pivec.collect("CartPole-v1", str(folder), episodes=2)
    assert both.labels == ("minari/net", "cartpole/mine-v0")
    named = pivec.collect("CartPole-v1", {"x": str(folder)}, episodes=2)
    assert named.labels == ("x", "x/cartpole/mine-v0")


def test_minari_mistakes_are_named(tmp_path, minari):
    with pytest.raises(UsageError, match=r"'nope-v0'.*minari download nope-v0"):
        pivec.collect("CartPole-v1", "minari:nope-v0")
    pivec.collect("CartPole-v1", "random", episodes=1, store=tmp_path / "s")
    with pytest.raises(UsageError, match="--actions"):
        export(tmp_path / "s", "minari:new-v0")
    with pytest.raises(UsageError, match=r"FILE\.parquet"):
        export(tmp_path / "s", "out.csv")


@pytest.fixture
def data():
    policies = {"lean": lean, "random": "random"}
    return pivec.collect("CartPole-v1", policies, episodes=3, actions=True)


def test_pandas(data):
    pytest.importorskip("pandas")
    frame = data.to_pandas()
    assert len(frame) == data.n_states
    assert np.array_equal(frame[list(data.feature_names)].to_numpy(), data.states)
    one = frame[(frame.policy == "random") & (frame.episode == 1)]
    assert one.step.tolist() == list(range(len(one)))
    assert np.array_equal(frame.action.dropna().to_numpy(), data.actions)
    assert frame.action.isna().sum() == data.n_episodes
    assert data.to_pandas("episodes")["return"].tolist() == data.returns.tolist()
    assert data.to_pandas("policies").mean_return.tolist() == data.mean_returns.tolist()
    with pytest.raises(UsageError, match="states, episodes, policies"):
        data.to_pandas("worlds")


def test_parquet(data, tmp_path):
    for level, rows in (("states", data.n_states), ("episodes", 6), ("policies", 2)):
        write_parquet(data, tmp_path / "x.parquet", level)
        table = pq.read_table(tmp_path / "x.parquet")
        assert table.num_rows == rows
        assert set(table.column("policy").to_pylist()) == {"lean", "random"}


def test_recorded_states_that_float32_would_lose_are_refused(tmp_path):
    states = 1e9 + np.random.default_rng(0).uniform(-1, 1, (2, 9, 1))
    np.savez(tmp_path / "far.npz", states=states)
    with pytest.raises(BadData, match=r"far.*feature 0 .*float32"):
        import_recorded([f"npz:{tmp_path}"], tmp_path / "store")
