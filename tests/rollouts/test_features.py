"""States that are not observations: cells, encoders, latent layers, values of info and env."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import gymnasium
import gymnasium as gym
import numpy as np
import pytest
from worlds import Pixels, RoomWithMission, Telling, coin, same

import pivec
from pivec.errors import BadData, BadPolicyFile, PivecWarning, UsageError
from pivec.explanations import Replayer
from pivec.options import ReplayOptions
from pivec.policies import NamedPolicy, NetworkPolicy, Normaliser, Options, PolicyInfo, save_policy
from pivec.rollouts import (
    Environment,
    GreyCells,
    PolicyLatent,
    Values,
    choose_backend,
    features_from_json,
    features_to_json,
    find_features_again,
    load_features,
    n_inputs,
)
from pivec.states import Store


def slow_cells(image, height, width, levels):
    """Split every pixel into so many that cells have whole numbers of them."""
    grey = image.astype(np.float64)
    if grey.ndim == 3:
        grey = grey @ [0.299, 0.587, 0.114] if grey.shape[-1] == 3 else grey.mean(axis=-1)
    fine = grey.repeat(height, axis=0).repeat(width, axis=1)
    cells = fine.reshape(height, image.shape[0], width, image.shape[1]).mean(axis=(1, 3))
    return np.floor(cells / 255 * levels + 1e-4)


@pytest.mark.parametrize("shape", [(21, 16), (84, 84, 3), (30, 13, 1), (8, 11)])
def test_cells_are_means_over_areas(shape, rng):
    images = rng.integers(0, 256, size=(3, *shape)).astype(np.uint8)
    rows = GreyCells()(images)
    assert rows.dtype == np.float32
    for row, image in zip(rows, images, strict=True):
        assert np.abs(row.reshape(8, 11) - slow_cells(image, 8, 11, 8)).max() <= 1
        assert np.mean(row.reshape(8, 11) != slow_cells(image, 8, 11, 8)) < 0.02


def test_black_is_zero_and_white_the_highest_level():
    frames = np.stack([np.zeros((50, 70, 3), np.uint8), np.full((50, 70, 3), 255, np.uint8)])
    cells = GreyCells(4, 5, 6)(frames)
    assert cells[0].tolist() == [0] * 20
    assert cells[1].tolist() == [6] * 20
    first = np.moveaxis(frames, -1, 1)  # colours first
    assert np.array_equal(GreyCells(4, 5, 6)(first), cells)
    assert GreyCells(4, 5, 0)(frames)[1] == pytest.approx(1.0, rel=3e-6)
    stacked = np.zeros((1, 4, 50, 70), np.uint8)  # four grey frames, one of them white
    stacked[:, 3] = 255
    assert GreyCells(4, 5, 8)(stacked).tolist() == [[2] * 20]
    assert np.array_equal(GreyCells(4, 5, 8)(stacked[:, 3:]), GreyCells(4, 5, 8)(stacked[:, 3]))


@pytest.mark.parametrize("axis", [-1, 1])
def test_four_stacked_frames_are_not_colours_with_transparency(axis):
    frames = np.zeros((1, 16, 22, 4), np.uint8)
    frames[..., 3] = 255  # only the newest shows something
    cells = GreyCells(levels=0)(np.moveaxis(frames, -1, axis))
    assert np.allclose(cells, 0.25)


def test_a_world_of_pixels(tmp_path):
    data = pivec.collect(Pixels, {"coin": coin}, episodes=3, features="cells", store=tmp_path)
    assert data.n_features == 88
    assert data.feature_names[:2] == ("cell[0,0]", "cell[0,1]")
    assert set(np.unique(data.states)) <= set(range(9))
    assert same(data, pivec.collect(Pixels, {"coin": coin}, episodes=3, features=GreyCells()))
    with pytest.raises(UsageError, match=r"'levels': 8.*'levels': 4"):
        pivec.collect(
            Pixels, {"coin": coin}, episodes=3, features='cells{"levels": 4}', store=tmp_path
        )


class Wander:
    """Sees a dict of parts."""

    def act(self, observations, rng, deterministic=False):
        return rng.integers(3, size=len(observations["direction"]))


WANDER = NamedPolicy(Wander(), PolicyInfo("wander"))


def test_a_world_with_a_mission_in_words():
    with pytest.warns(PivecWarning, match="mission"):
        data = pivec.collect(RoomWithMission, WANDER, episodes=2)
    assert data.feature_names[:5] == (*(f"direction={i}" for i in range(4)), "image[0,0,0]")
    assert data.n_features == 4 + 7 * 7 * 3
    network = NetworkPolicy(((np.zeros((151, 3)), np.zeros(3)),), "tanh", "categorical")
    with pytest.warns(PivecWarning), pytest.raises(UsageError, match="mission"):
        pivec.collect(RoomWithMission, network, episodes=2)
    data = pivec.collect(RoomWithMission, WANDER, episodes=2, features=where)
    assert data.n_features == 4
    assert np.array_equal(data.states[:, 2:], np.tile([[3.0, 9.0]], (data.n_states, 1)))
    cells = pivec.collect(RoomWithMission, WANDER, episodes=2, features="cells")
    assert cells.n_features == 88


def where(observations):
    """Where the agent is, and how long the mission is."""
    spots = [np.argwhere(image[..., 0] == 255)[0] for image in observations["image"]]
    words = [[len(text.split()), len(text.split()[-1])] for text in observations["mission"]]
    return np.concatenate([spots, words], axis=1)


def test_minigrid_itself():
    pytest.importorskip("minigrid")
    options = {"imports": ["minigrid"], "episodes": 2, "max_steps": 20}
    data = pivec.collect("MiniGrid-Empty-5x5-v0", WANDER, features="cells", **options)
    assert data.n_features == 88
    flat = pivec.collect(
        "MiniGrid-Empty-5x5-v0",
        {"r": "random"},
        wrappers=["minigrid.wrappers:ImgObsWrapper"],
        **options,
    )
    assert flat.n_features == 7 * 7 * 3
    with pytest.warns(PivecWarning, match="mission"):
        whole = pivec.collect("MiniGrid-Empty-5x5-v0", WANDER, **options)
    assert whole.n_features == 4 + 7 * 7 * 3


@pytest.mark.bits
@pytest.mark.parametrize("shape", [(84, 84, 3), (60, 50)])
def test_an_image_does_not_depend_on_its_company(shape, rng):
    images = rng.integers(0, 256, (20, *shape), np.uint8)
    for cells in (GreyCells(), GreyCells(levels=0)):
        whole = cells(images)
        for n in (1, 2, 7, 19):
            np.testing.assert_array_equal(cells(images[-n:]), whole[-n:])


def test_encoders_from_files(tmp_path, rng):
    torch = pytest.importorskip("torch")
    weights = rng.normal(size=(24 * 32 * 3, 5)).astype(np.float32)

    class Encoder(torch.nn.Module):
        def forward(self, x):
            return x.flatten(1) @ torch.from_numpy(weights) / 255.0

    path = tmp_path / "encoder.pt"
    script(Encoder(), path)
    images = rng.integers(0, 256, size=(4, 24, 32, 3)).astype(np.uint8)
    expected = images.reshape(4, -1) @ weights.astype(np.float64) / 255.0
    with pytest.raises(UsageError, match="--trust"):
        load_features(str(path))
    encoder = load_features(str(path), trust=True)
    # 2304 terms of about 0.5, in float32: √2304 × 6e-8 × 1000 is 3e-3.
    assert np.allclose(encoder(images), expected, rtol=0, atol=3e-3)
    again, other = (pickle.loads(pickle.dumps(encoder)) for _ in range(2))
    assert np.array_equal(again(images), encoder(images))
    assert again == encoder
    data = pivec.collect(Pixels, {"coin": coin}, episodes=2, features=str(path), trust=True)
    assert data.n_features == 5
    with pytest.raises(BadData, match=r"encoder\.pt.*shape"):
        encoder(images[:, :3])
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(BadPolicyFile, match=r"encoder\.pt .*SHA-256"):
        other(images)
    with pytest.raises(BadPolicyFile, match=r"encoder\.pt"):
        load_features(str(path), trust=True)(images)


def script(module, path):
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(module, torch.zeros(2, 24, 32, 3)).save(str(path))


def test_onnx_encoders(tmp_path, rng):
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from onnx import TensorProto, helper, numpy_helper

    weights = rng.normal(size=(2304, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["x"], ["flat"], axis=1),
            helper.make_node("MatMul", ["flat", "w"], ["y"]),
        ],
        "encoder",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 24, 32, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    path = tmp_path / "encoder.onnx"
    onnx.save(model, str(path))
    images = rng.integers(0, 256, size=(4, 24, 32, 3)).astype(np.uint8)
    encoder = load_features(str(path))
    expected = images.reshape(4, -1).astype(np.float32) @ weights
    assert np.allclose(encoder(images), expected, rtol=1e-3, atol=1e-1)
    data = pivec.collect(Pixels, {"coin": coin}, episodes=2, features=str(path))
    assert data.n_features == 3
    outside = onnx.load_from_string(model.SerializeToString())
    onnx.external_data_helper.set_external_data(outside.graph.initializer[0], "encoder.onnx")
    (tmp_path / "outside.onnx").write_bytes(outside.SerializeToString())
    with pytest.raises(BadPolicyFile, match=r"outside\.onnx"):
        load_features(str(tmp_path / "outside.onnx"))(images)
    path.write_bytes(b"nothing")
    with pytest.raises(BadPolicyFile, match=r"encoder\.onnx"):
        load_features(str(path))(images)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("cells{", "JSON"),
        ('cells{"colour": 1}', "colour"),
        ('cells{"height": 0}', "height"),
        ("nothing.onnx", "nothing.onnx"),
        ("nothing", "module:name"),
        ("no_such_module:f", "no_such_module"),
        ("math:sqrtt", "did you mean sqrt"),
    ],
)
def test_mistakes_are_named(spec, words):
    with pytest.raises(UsageError, match=words):
        load_features(spec)


def both(observations, infos):
    return np.column_stack([observations, [info["place"][1] for info in infos]])


def all_three(observations, infos, environments):
    return [[env.unwrapped.time, env.unwrapped.length] for env in environments]


def play(features, env=Telling, episodes=4, **options):
    return pivec.collect(env, {"coin": coin}, episodes=episodes, features=features, **options)


def test_values_of_info_are_states_while_policies_see_observations():
    plain, data = play(None), play("info:left.steps,place,place.1")
    assert data.feature_names == ("left.steps", "place[0]", "place[1]", "place.1")
    time, length = plain.states.T
    assert np.array_equal(data.states, np.column_stack([length - time, 10 + 0 * time, time, time]))
    assert [len(e) for e in data.episodes()] == [len(e) for e in plain.episodes()]


@pytest.mark.parametrize("options", [{"n_envs": 1}, {"n_envs": 3}, {"max_steps": 1}])
def test_what_reset_does_not_tell_is_taken_from_the_first_step(options):
    with pytest.warns(PivecWarning, match="speed"):
        data = play("info:left.steps,speed", episodes=20, **options)
    for episode in data.episodes():
        time = np.maximum(np.arange(len(episode)), 1)
        assert np.array_equal(episode[:, 1:], np.column_stack([time, 2 * time]))
        assert (np.diff(episode[:, 0]) == -1).all()


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_a_value_that_is_missing_later_is_no_state():
    with pytest.raises(BadData, match="nan in feature 0"):
        play("info:speed", lambda: Telling(gap=3), episodes=20)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ("info:sped", r"info has no 'sped' \(did you mean speed\?\): it has left, place, t, speed"),
        ("info:left.right", "'left.right'"),
        ("info:t", "t of info.* str"),
        ("info:", "info:x_position"),
        ("env:lenght", r"env has no 'lenght' \(did you mean length\?\)"),
    ],
)
def test_what_is_not_there_is_said(features, words):
    with pytest.raises(UsageError, match=words):
        play(features)


def test_functions_get_what_they_take():
    assert [n_inputs(f) for f in (None, np.sqrt, both, all_three)] == [1, 1, 2, 3]
    assert np.array_equal(play(both).states[:, 2], play(None).states[:, 0])
    assert np.array_equal(play(all_three).states, play(None).states)
    assert np.array_equal(play("env:time,length").states, play(None).states)


def test_environments_on_arrays_are_stepped_one_by_one_where_features_look(monkeypatch):
    plain = pivec.collect("CartPole-v1", {"coin": coin}, episodes=3)
    states = pivec.collect("CartPole-v1", {"coin": coin}, episodes=3, features="env:state")
    assert states.feature_names == tuple(f"state[{i}]" for i in range(4))
    assert np.array_equal(states.states, plain.states)
    plain_lanes = Environment("CartPole-v1", one_by_one=True)
    assert choose_backend("auto", plain_lanes) == "gymnasium"
    monkeypatch.setattr("importlib.util.find_spec", lambda _: True)
    with pytest.raises(UsageError, match="--backend gymnasium"):
        choose_backend("envpool", plain_lanes)


@pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
def test_episodes_play_again(tmp_path):
    gym.register("Telling-v0", Telling)
    try:
        data = play("info:place,speed", "Telling-v0", store=tmp_path)
        for number, states in enumerate(data.episodes()):
            replayer = Replayer(Store(tmp_path), ReplayOptions(policies={"coin": coin}))
            again = replayer.stored("coin", number)
            assert np.array_equal(again.states, states)
    finally:
        del gym.registry["Telling-v0"]


@pytest.mark.parametrize(
    ("features", "kept"),
    [
        (None, None),
        (Values("info", ("a b", "c.d")), {"kind": "info", "keys": ["a b", "c.d"]}),
        (Values("env", ("joint.a",)), {"kind": "env", "keys": ["joint.a"]}),
        (
            GreyCells(4, 5, 6, "it's"),
            {"kind": "cells", "height": 4, "width": 5, "levels": 6, "key": "it's"},
        ),
    ],
)
def test_features_are_found_again_from_json(features, kept):
    assert features_to_json(features) == json.loads(json.dumps(kept)) == kept
    assert features_from_json(kept) == features
    assert features_from_json({"kind": "offset", "offsets": [[0, 1e9]], "of": kept}) == features


@pytest.mark.parametrize(
    "kept",
    [
        {"kind": "env", "keys": ["close"]},  # which would be called
        {"kind": "function", "name": "system"},
        {"kind": "cells", "height": 10**9, "width": 10**9, "levels": 1, "key": None},
        {"kind": "encoder", "path": "code.pt", "digest": ""},
        {"kind": "policy", "source": "a.zip", "fingerprint": "0"},
        "GreyCells()",
    ],
)
def test_other_features_are_not_found_without_the_user(kept):
    with pytest.raises(UsageError, match="--features"):
        features_from_json(kept)


class Scaled:
    """Features of a user that describe themselves."""

    def __init__(self, by):
        self.by = by

    def __call__(self, observations):
        return observations * self.by

    def to_json(self):
        return {"kind": "scaled", "by": self.by}


def test_features_of_a_user_may_describe_themselves(tmp_path):
    play(Scaled(2), store=tmp_path)
    assert Store(tmp_path).settings["features"] == {"kind": "scaled", "by": 2}
    with pytest.raises(UsageError, match=r"'by': 2.*'by': 3"):
        play(Scaled(3), store=tmp_path)


def test_recorded_states_have_no_info(tmp_path):
    np.savez(tmp_path / "a.npz", observations=np.zeros((1, 3, 2)))
    with pytest.raises(UsageError, match="observations, infos"):
        pivec.collect(Telling, f"npz:{tmp_path}", features=both)


# ---- environments that are named as module:function ----


def test_a_function_is_named_with_arguments(tmp_path):
    data = play("info:place.0", 'worlds:Telling{"top": 3}', store=tmp_path)
    assert set(data.states.ravel()) == {3}
    settings = Store(tmp_path).settings
    assert (settings["environment"], settings["arguments"]) == ("worlds:Telling", {"top": 3})
    assert set(play("info:place.0", "worlds:Telling", env_kwargs={"top": 4}).states.ravel()) == {4}
    assert set(play("info:place.0", Telling, env_kwargs={"top": 5}).states.ravel()) == {5}
    with pytest.raises(pivec.PivecError, match=r"'top': 3"):
        play("info:place.0", "worlds:Telling", store=tmp_path)


def test_a_function_travels_to_other_processes():
    alone = play("info:place.1", "worlds:Telling")
    assert same(alone, play("info:place.1", "worlds:Telling", jobs=2))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("worlds:Teling", r"'Teling' \(did you mean Telling\?\)"),
        ("no_such_module:make", "'no_such_module'"),
        ("worlds:coin", "gymnasium.Env|TypeError"),
        ("builtins:dict", "gymnasium.Env.*builtins.dict"),
        ('worlds:Telling{"high": 1}', "TypeError"),
    ],
)
def test_a_function_that_makes_none_is_refused(name, words):
    with pytest.raises(pivec.PivecError, match=words):
        play(None, name)


RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(7, 4)).astype(np.float32)


def network(seed, activation="tanh", **changes):
    rng = np.random.default_rng(seed)
    sizes = [(4, 6), (6, 5), (5, 2)]
    layers = tuple((rng.normal(size=size), rng.normal(size=size[1])) for size in sizes)
    return NetworkPolicy(layers, activation, "categorical", **changes)


@pytest.fixture
def runs(tmp_path):
    for step in (5, 100, 20):
        path = tmp_path / "run" / f"step_{step}.safetensors"
        save_policy(network(step), path, {"step": step})
    return tmp_path / "run"


def test_it_is_the_layer_before_the_outputs():
    policy = network(1, "relu", normaliser=Normaliser.of_variance(np.ones(4), np.full(4, 4.0)))
    x = (ROWS.astype(float) - 1) / np.sqrt(4 + 1e-8)
    for weight, bias in policy.layers[:-1]:
        x = np.maximum(x @ weight.astype(float) + bias, 0)
    eyes = PolicyLatent(policy)
    np.testing.assert_allclose(eyes(ROWS), x, rtol=1e-4, atol=1e-5)
    assert eyes.names == tuple(f"latent[{i}]" for i in range(5))


def test_of_exploration_that_depends_on_the_state_too():
    plain = network(1)
    std = np.ones((5, 2), np.float32)
    options = Options(deviations="plain", squash=False)
    explorer = replace(plain, head="state_gaussian", options=options, state_std=std)
    np.testing.assert_array_equal(PolicyLatent(explorer)(ROWS), PolicyLatent(plain)(ROWS))


@pytest.mark.bits
def test_a_row_does_not_depend_on_its_company():
    eyes = PolicyLatent(network(1))
    whole = eyes(ROWS)
    for n in (1, 2, 5):
        np.testing.assert_array_equal(eyes(ROWS[-n:]), whole[-n:])


def test_the_one_trained_longest_sees_for_all_in_any_order(runs):
    with pytest.warns(PivecWarning, match="step_100"):
        first = pivec.collect("CartPole-v1", str(runs), 2, features="policy")
    paths = [str(runs / f"step_{step}.safetensors") for step in (100, 20, 5)]
    with pytest.warns(PivecWarning, match="step_100"):
        second = pivec.collect("CartPole-v1", paths, 2, features="policy", n_envs=1)
    assert first.feature_names == tuple(f"latent[{i}]" for i in range(5))
    plain = pivec.collect("CartPole-v1", str(runs), 2)
    expected = network(100).latent(plain.states)
    np.testing.assert_array_equal(first.states, expected)
    for step in (5, 20, 100):
        np.testing.assert_array_equal(
            first[f"run/step_{step}"].states, second[f"run/step_{step}"].states
        )


def test_by_label_by_path_and_as_an_object(runs):
    path = str(runs / "step_20.safetensors")
    data = [
        pivec.collect("CartPole-v1", {"a": path, "b": "random"}, 2, features=features)
        for features in (
            "policy:a",
            f"policy:{path}",
            PolicyLatent(path),
            PolicyLatent(network(20)),
        )
    ]
    for other in data[1:]:
        np.testing.assert_array_equal(other.states, data[0].states)


def test_a_store_goes_on_with_the_eyes_it_was_begun_with(runs, tmp_path):
    paths = [str(runs / f"step_{step}.safetensors") for step in (5, 20, 100)]
    store = tmp_path / "states"
    with pytest.warns(PivecWarning, match="step_20"):
        pivec.collect("CartPole-v1", paths[:2], 2, features="policy", store=store)
    data = pivec.collect("CartPole-v1", paths, 2, features="policy", store=store)
    plain = pivec.collect("CartPole-v1", paths, 2)
    np.testing.assert_array_equal(data.states, network(20).latent(plain.states))
    # The policy need not act to be found again; but it must be the same.
    pivec.collect("CartPole-v1", paths[2:], 3, features="policy", store=store)
    save_policy(network(7), paths[1], {"step": 20})
    with pytest.raises(BadPolicyFile, match=r"step_20\.safetensors .*changed"):
        pivec.collect("CartPole-v1", paths[2:], 4, features="policy", store=store)
    (runs / "step_20.safetensors").unlink()
    with pytest.raises(UsageError, match=r"step_20\.safetensors .*not exist"):
        pivec.collect("CartPole-v1", paths[2:], 4, features="policy", store=store)


def test_it_travels_and_its_name_finds_it_again(runs):
    path = str(runs / "step_20.safetensors")
    env = gymnasium.make("CartPole-v1")
    eyes = PolicyLatent(path).bind(env)
    again = pickle.loads(pickle.dumps(eyes))
    np.testing.assert_array_equal(again(ROWS), eyes(ROWS))
    kept = features_to_json(eyes)
    assert features_to_json(again) == kept
    [named] = pivec.load_policies(path)

    def find(source, fingerprint):
        return {(path, named.info.fingerprint): named}[source, fingerprint]

    for asked in (None, "policy"):
        assert features_to_json(find_features_again(asked, kept, find_policy=find)) == kept
    with pytest.raises(UsageError, match=r"step_20\.safetensors"):
        find_features_again(None, kept)


def test_who_has_no_hidden_layer_is_told(runs):
    linear = NetworkPolicy(((np.eye(2), np.zeros(2)),), "tanh", "categorical")
    with pytest.raises(UsageError, match="hidden layer"):
        PolicyLatent(linear)
    with pytest.raises(UsageError, match=r"random .*hidden layer"):
        load_features("policy:random")
    with pytest.raises(UsageError, match=r"policy:runs/best.zip"):
        load_features("policy")
    with pytest.raises(UsageError, match="run/step_5, run/step_20, run/step_100"):
        load_features(f"policy:{runs}")
