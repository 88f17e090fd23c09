"""Checkpoints of Stable-Baselines3: read as SB3 itself reads them, or refused in words."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile

import numpy as np
import pytest
from readers import read_sb3

from pivec.errors import BadPolicyFile, PivecError, PivecWarning
from pivec.policies import as_policy

torch = pytest.importorskip("torch")

from sb3_models import Still, changed, model, observations_of, saved, sb3, spaces  # noqa: E402

nn = torch.nn


def assert_agrees(made, seed=0):
    """Our reading gives the distribution and the clipped actions that SB3 gives."""
    policy, _ = read_sb3(saved(made))
    observations, inputs = observations_of(made, seed=seed)
    with torch.no_grad():
        tensors, _ = made.policy.obs_to_tensor(observations)
        theirs = made.policy.get_distribution(tensors).distribution
    rng = np.random.default_rng(seed)
    if policy.head == "categorical":
        ours = policy.distribution(inputs)
        np.testing.assert_allclose(ours, theirs.probs.numpy(), atol=1e-5)
        np.testing.assert_allclose(np.log(ours), theirs.logits.numpy(), atol=2e-4)
        assert np.log(ours).std(axis=0).max() > 0.05
    else:
        mean, std = policy.distribution(inputs)
        np.testing.assert_allclose(mean, theirs.mean.numpy(), atol=1e-5)
        np.testing.assert_allclose(std, theirs.stddev.numpy(), atol=1e-5)
        actions = policy.act(inputs, rng)
        assert (actions >= made.action_space.low).all()
        assert (actions <= made.action_space.high).all()
    expected, _ = made.predict(observations, deterministic=True)
    np.testing.assert_allclose(policy.act(inputs, rng, deterministic=True), expected, atol=1e-5)
    return policy


@pytest.mark.parametrize("algorithm", ["PPO", "A2C"])
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize(
    "policy_kwargs",
    [
        {},
        {"activation_fn": nn.ReLU, "net_arch": [32]},
        {"activation_fn": nn.ELU, "net_arch": {"pi": [16, 24, 8], "vf": [32]}},
        {"net_arch": []},
        {"activation_fn": nn.LeakyReLU, "net_arch": {"pi": [], "vf": [8]}},
    ],
    ids=["default", "relu", "elu-pi-vf", "linear", "no-pi"],
)
def test_it_agrees_with_sb3(algorithm, env, policy_kwargs):
    policy = assert_agrees(model(algorithm, env, policy_kwargs=policy_kwargs))
    assert policy.head == ("categorical" if env == "CartPole-v1" else "gaussian")


@pytest.mark.parametrize("activation", [nn.GELU, nn.SiLU, nn.Sigmoid])
def test_other_activations_agree_with_sb3(activation):
    assert_agrees(model(policy_kwargs={"activation_fn": activation}))


@pytest.mark.parametrize(
    "observations",
    [
        spaces.Discrete(5),
        spaces.MultiBinary(4),
        spaces.MultiDiscrete([2, 3]),
        spaces.Box(-1, 1, (2, 3)),
    ],
    ids=str,
)
def test_flattened_observations_of_every_kind_agree_with_sb3(observations):
    assert_agrees(model(env=Still(observations, spaces.Discrete(3))))


def test_dictionaries_of_vectors_agree_with_sb3():
    space = spaces.Dict({"b": spaces.Box(-1, 1, (2,)), "a": spaces.Discrete(3)})
    made = model(env=Still(space, spaces.Discrete(4)), policy="MultiInputPolicy")
    policy, _ = read_sb3(saved(made))
    space.seed(0)
    samples = [space.sample() for _ in range(20)]
    batch = {key: np.array([sample[key] for sample in samples]) for key in space}
    with torch.no_grad():
        theirs = made.policy.get_distribution(made.policy.obs_to_tensor(batch)[0]).distribution
    inputs = np.array([spaces.flatten(space, sample) for sample in samples])
    np.testing.assert_allclose(policy.distribution(inputs), theirs.probs.numpy(), atol=1e-5)


def test_boxes_of_actions_are_read_off_the_printed_text():
    low, high = np.array([-0.1, -1e-7, -1], "f4"), np.array([1 / 3, 12345.678, 1], "f4")
    made = model(env=Still(spaces.Box(-1, 1, (2,)), spaces.Box(low, high)))
    policy, _ = read_sb3(saved(made))
    np.testing.assert_allclose(policy.low, low, rtol=1e-6)
    np.testing.assert_allclose(policy.high, high, rtol=1e-6)
    bound = policy.bind(made.observation_space, made.action_space)
    np.testing.assert_array_equal(bound.high, high)


def test_without_a_readable_box_there_is_none():
    data = saved(model(env="Pendulum-v1"))
    for text in ("[-2. ... 2.]", "nonsense", "[1. 2.]", "[nan]", "[9.]", 5):
        space = {":type:": "<class 'gymnasium.spaces.box.Box'>", "low": text, "high": "[2.]"}
        assert read_sb3(changed(data, action_space=space))[0].low is None


def test_shared_layers_of_older_versions_come_first():
    made = model(policy_kwargs={"net_arch": [8, 6]})
    expected = read_sb3(saved(made))[0]
    state = made.policy.state_dict()
    renamed = {
        key.replace("policy_net.0", "shared_net.0").replace("policy_net.2", "policy_net.0"): value
        for key, value in state.items()
    }
    buffer = io.BytesIO()
    torch.save(renamed, buffer)
    data = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(saved(made))) as old, zipfile.ZipFile(data, "w") as new:
        new.writestr("data", old.read("data"))
        new.writestr("policy.pth", buffer.getvalue())
    assert read_sb3(data.getvalue())[0].fingerprint == expected.fingerprint


def test_what_the_file_tells_is_kept():
    made = model("A2C")
    made.num_timesteps = 1234
    _, info = read_sb3(saved(made))
    assert info == {"algorithm": "A2C", "step": 1234, "sb3_version": sb3.__version__}
    assert read_sb3(saved(model("PPO")))[1]["algorithm"] == "PPO"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"policy_kwargs": {"activation_fn": nn.Hardtanh}}, "activation .*Hardtanh"),
        (
            {"policy_kwargs": {"activation_fn": nn.PReLU}},
            "activation .*PReLU",
        ),
        (
            {
                "env": Still(spaces.Box(0, 255, (36, 36, 3), np.uint8), spaces.Discrete(2)),
                "n_steps": 2,
                "batch_size": 2,
            },
            "image observations",
        ),
    ],
)
def test_what_is_not_supported_is_named(arguments, words):
    with pytest.raises(BadPolicyFile, match=words):
        read_sb3(saved(model(**arguments)), "a.zip")


class Doubling(sb3.common.torch_layers.BaseFeaturesExtractor):
    def __init__(self, observation_space):
        super().__init__(observation_space, observation_space.shape[0])

    def forward(self, observations):
        return 2 * observations


class OwnPolicy(sb3.common.policies.ActorCriticPolicy):
    pass


def test_code_of_the_user_that_the_file_does_not_hold_is_refused():
    extractor = model(policy_kwargs={"features_extractor_class": Doubling})
    with pytest.raises(BadPolicyFile, match="features extractor"):
        read_sb3(saved(extractor))
    with pytest.raises(BadPolicyFile, match="policy class"):
        read_sb3(saved(model(policy=OwnPolicy)))


def test_zips_that_are_none_of_sb3_are_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("hello", b"")
    with pytest.raises(BadPolicyFile, match="Stable-Baselines3"):
        read_sb3(buffer.getvalue())
    data = saved(model())
    for settings, words in [
        ({"clip_range": None, "gae_lambda": None}, "another algorithm"),
        ({"action_space": None}, "unknown"),
        ({"action_space": {":type:": "<class 'x.Box'>"}}, "action space"),
        ({"policy_kwargs": {"activation_fn": "<class 'mine.ReLU'>"}}, "activation"),
        ({"policy_kwargs": {"activation_fn": 5}}, "activation"),
    ]:
        with pytest.raises(BadPolicyFile, match=words):
            read_sb3(changed(data, **settings))
    for part in range(1, 20):
        with pytest.raises(BadPolicyFile, match="truncated"):
            read_sb3(data[: len(data) * part // 20])


def test_diverged_weights_are_named():
    made = model()
    with torch.no_grad():
        made.policy.action_net.bias.fill_(float("nan"))
    with pytest.raises(BadPolicyFile, match="diverged"):
        read_sb3(saved(made))


def test_models_in_memory_are_copied():
    made = model("A2C", "Pendulum-v1")
    policy = as_policy(made)
    assert policy.fingerprint == read_sb3(saved(made))[0].fingerprint
    with torch.no_grad():
        made.policy.action_net.bias.add_(1)
    assert policy.fingerprint != as_policy(made).fingerprint


def test_other_models_in_memory_are_asked_by_the_library_and_drawn_from_our_generator():
    made = model(env="Pendulum-v1", policy_kwargs={"features_extractor_class": Doubling})
    policy, rows = as_policy(made), np.ones((4, 3), np.float32)
    policy = policy.bind(made.observation_space, made.action_space)
    expected, _ = made.predict(rows, deterministic=True)
    actions = policy.act(rows, np.random.default_rng(0), deterministic=True)
    np.testing.assert_allclose(actions, expected, rtol=1e-5, atol=1e-5)
    first, again = (policy.act(rows, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_models_that_the_library_cannot_be_asked_about_are_asked_by_predict():
    settings = {"features_extractor_class": Doubling, "lstm_hidden_size": 4}
    made = model("RecurrentPPO", "Pendulum-v1", "MlpLstmPolicy", policy_kwargs=settings)
    with pytest.warns(PivecWarning, match="memory.*predict"):
        policy = as_policy(made)
    actions, memory = policy.ask(np.ones((1, 3), np.float32), None, deterministic=True)
    np.testing.assert_array_equal(actions, made.predict(np.ones((1, 3)), deterministic=True)[0])
    assert memory is not None


def test_pickled_fields_are_never_decoded(tmp_path):
    data = saved(model())
    text = json.loads(zipfile.ZipFile(io.BytesIO(data)).read("data"))
    spoiled = {**text["policy_class"], ":serialized:": "not even base64"}
    expected = read_sb3(data)[0].fingerprint
    assert read_sb3(changed(data, policy_class=spoiled))[0].fingerprint == expected


def test_flipped_bits_and_cut_files_give_no_other_error():
    data = saved(model(policy_kwargs={"net_arch": [4]}))
    rng = np.random.default_rng(0)
    inner = data.index(b"data.pkl")
    refused = 0
    for i in range(500):
        broken = bytearray(data)
        # Half of them in the pickle and the directories of the zips, where the structure is.
        where = inner + int(rng.integers(1500)) if i % 2 else int(rng.integers(len(data)))
        if i % 10 == 0:
            where = len(data) - 1 - int(rng.integers(700))
        broken[where] ^= 1 << int(rng.integers(8))
        if i % 7 == 0:
            broken = broken[: int(rng.integers(len(data)))]
        try:
            read_sb3(bytes(broken))
        except PivecError:
            refused += 1
    assert refused > 200  # the others hit parts that are not read


def test_damage_behind_a_right_checksum_gives_no_other_error():
    """Zip checksums catch most flipped bits, so spoil the parts and zip them again."""
    data = saved(model(env="Pendulum-v1", policy_kwargs={"net_arch": [4]}))
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        parts = {name: file.read(name) for name in ("data", "policy.pth")}
    with zipfile.ZipFile(io.BytesIO(parts["policy.pth"])) as file:
        inner = {name: file.read(name) for name in file.namelist()}
    program = next(name for name in inner if name.endswith("data.pkl"))
    rng = np.random.default_rng(0)

    def pack(members):
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for name, content in members.items():
                file.writestr(name, content)
        return buffer.getvalue()

    for i in range(400):
        name = program if i % 4 else str(rng.choice(list(inner)))
        content = bytearray(inner[name] or b"x")
        content[rng.integers(len(content))] = rng.integers(256)
        state = pack({**inner, name: bytes(content)})
        text = bytearray(parts["data"])
        if i % 5 == 0:
            text[rng.integers(len(text))] = rng.integers(256)
        with contextlib.suppress(PivecError):
            read_sb3(pack({"data": bytes(text), "policy.pth": state}))
