"""Images become few numbers: cells by area, encoders from files, and other kinds of worlds."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from test_play import coin, same
from worlds import Pixels, RoomWithMission

import pivec
from pivec.errors import BadData, BadPolicyFile, PivecWarning, UsageError
from pivec.policies import NamedPolicy, NetworkPolicy, PolicyInfo
from pivec.rollouts.features import GreyCells, load_features


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
    with pytest.raises(BadData, match=r"encoder.pt.*shape"):
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


@pytest.mark.parametrize("axis", [-1, 1])
def test_four_stacked_frames_are_not_colours_with_transparency(axis):
    frames = np.zeros((1, 16, 22, 4), np.uint8)
    frames[..., 3] = 255  # only the newest shows something
    cells = GreyCells(levels=0)(np.moveaxis(frames, -1, axis))
    assert np.allclose(cells, 0.25)
