"""Nested values that share their parts cost no time, wherever they are in a pickle."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from pivec.errors import BadPolicyFile
from pivec.policies import load_policies
from pivec.policies.tensors import Name, Object, as_array, read_objects, read_torch
from spoiling import archive

ROWS = Path(__file__).parents[1] / "data" / "libraries"
MODULE = "learner_group/learner/rl_module/default_policy"
ANY = ("ray", "gymnasium", "numpy", "torch", "neat", "brax", "jax", "stable_baselines3", "flax")
pytestmark = pytest.mark.filterwarnings("ignore::pivec.errors.PivecWarning")
PUT, GET = b"r\xff\xff\x00\x00", b"j\xff\xff\x00\x00"


@dataclass(frozen=True)
class Raw:
    """Instructions that push one value."""

    program: bytes


def doubled(times, pair=GET + b"\x86", first=b")"):
    """A value that holds another one twice or more, again and again."""
    return first + (PUT + pair) * times


# 2**24 values take a second to hash or print: without a bound this test fails, but does not hang.
HOSTILE = {
    "tuples": doubled(24),
    "lists": doubled(15, b"]" + GET + b"a" + GET + b"a\x86"),
    "dictionaries": doubled(15, b"}K\x01" + GET + b"sK\x02" + GET + b"s\x86"),
    "numbers": doubled(24, first=b"K\x01"),
    "text": b"X\x00\x00\x01\x00" + b"a" * (1 << 16) + PUT + b"(" + GET * 2000 + b"t\x86",
    "deep": b")" + b"\x85" * 1000,
    "deep lists": b"]" * 1000 + b"a" * 999,
    "itself": b"]" + PUT + GET + b"a",
}


HERE = Raw(b"the place of something hostile")


def program(value):
    """Instructions that push a value as `read_objects` gives it."""
    match value:
        case Raw():
            return value.program
        case Name():
            return f"c{value.module}\n{value.name}\n".encode()
        case Object():
            return program(value.kind) + b")\x81" + program(value.state) + b"b"
        case dict():
            return (
                b"}(" + b"".join(map(program, (x for pair in value.items() for x in pair))) + b"u"
            )
        case list():
            return b"](" + b"".join(map(program, value)) + b"e"
        case tuple():
            return b"(" + b"".join(map(program, value)) + b"t"
    array = as_array(value)
    if array is None and type(value).__module__.startswith("pivec"):
        value = None  # types of numbers and random generators, which nobody reads
    return pickle.dumps(value if array is None else array, 3)[2:-1]


def variants(value, other):
    """All values that differ from ``value`` in one place, where they hold ``other``."""
    yield other
    match value:
        case Object():
            for state in variants(value.state, other):
                yield Object(value.kind, state)
        case dict():
            for key in value:
                for part in variants(value[key], other):
                    yield {**value, key: part}
        case list() | tuple():
            for i in range(len(value)):
                for part in variants(value[i], other):
                    yield type(value)([*value[:i], part, *value[i + 1 :]])


def check_everywhere(sound, load):
    """Put something hostile into each place of a value, which ``load`` must reject quickly."""
    load(written(sound))  # or this shows nothing
    count = 0
    for value, name in zip(variants(sound, HERE), cycle(("tuples", "deep")), strict=False):
        with pytest.raises(BadPolicyFile):
            load(written(value).replace(HERE.program, HOSTILE[name]))
        count += 1
    assert count > 5


def written(value):
    return b"\x80\x04" + program(value) + b"."


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_values_are_rejected_by_the_interpreter(name):
    data = b"\x80\x04}X\x01\x00\x00\x00a" + HOSTILE[name] + b"s."
    with pytest.raises(BadPolicyFile, match=r"bytes|levels"):
        read_objects(data, ())
    with pytest.raises(BadPolicyFile, match=r"bytes|levels"):
        read_torch(archive({"a/data.pkl": data}))


def test_an_attribute_that_leads_back_to_its_object_is_no_harm():
    thing = b"cneat\nThing\n)\x81" + PUT + b"}X\x01\x00\x00\x00a](" + GET + GET + b"esb"
    found = read_objects(b"\x80\x02" + thing + b".", ANY)
    assert found.state["a"] == [found, found]
    assert "state" not in repr(found)  # whose text may have any length


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ("images", f"{MODULE}/class_and_ctor_args.pkl"),
        ("filter", f"{MODULE}/class_and_ctor_args.pkl"),
        ("filter", f"{MODULE}/module_state.pkl"),
        ("filter", "env_runner/env_to_module_connector/class_and_ctor_args.pkl"),
        ("filter", "env_runner/module_to_env_connector/class_and_ctor_args.pkl"),
        ("filter", "env_runner/env_to_module_connector/MeanStdFilter/state.pkl"),
    ],
)
def test_rllib(tmp_path, row, name):
    shutil.copytree(ROWS / f"rllib-ppo-{row}" / "checkpoint_000000", tmp_path / "run")
    file = tmp_path / "run" / name
    check_everywhere(read_objects(file.read_bytes(), ANY), loader(file, tmp_path / "run"))


def loader(file, policy=None):
    """A function that writes a file and loads it, or the policy that it belongs to."""

    def load(data):
        file.write_bytes(data)
        (named,) = load_policies(policy or file)
        return named

    return load


def test_brax(tmp_path):
    sound = read_objects((ROWS / "brax-ppo" / "params").read_bytes(), ANY)
    check_everywhere(sound, loader(tmp_path / "params.pickle"))


def test_pickled_arrays(tmp_path):
    (tmp_path / "a.json").write_text('{"activation": "tanh", "head": "categorical"}')
    layer = {"kernel": np.eye(3, dtype="f4"), "bias": np.zeros(3, "f4")}
    sound = {"params": {"Dense_0": layer, "Dense_1": layer}, "step": 3}
    check_everywhere(sound, loader(tmp_path / "a.pkl"))


def test_neat(tmp_path):
    (tmp_path / "a.cfg").write_text("[DefaultGenome]\nnum_inputs = 1\nnum_outputs = 1\n")
    node = {"key": 0, "bias": 0.5, "response": 1.0, "activation": "tanh", "aggregation": "sum"}
    link = {"key": (-1, 0), "weight": 2.0, "enabled": True}
    genes = {"nodes": ("DefaultNodeGene", 0, node)}
    genes["connections"] = ("DefaultConnectionGene", (-1, 0), link)
    state = {name: {k: Object(Name("neat.genes", c), s)} for name, (c, k, s) in genes.items()}
    sound = Object(Name("neat.genome", "DefaultGenome"), {"key": 1, "fitness": 3.0, **state})
    check_everywhere(sound, loader(tmp_path / "a.pkl"))


def test_vecnormalize(tmp_path):
    shutil.copy(ROWS / "sb3-ppo" / "model.zip", tmp_path)
    (plain,) = load_policies(tmp_path)
    width = plain.policy.n_inputs
    moments = {"mean": np.ones(width), "var": np.ones(width), "count": 2.0}
    kind = Name("stable_baselines3.common.running_mean_std", "RunningMeanStd")
    box = Object(Name("gymnasium.spaces.box", "Box"), {"_shape": (width,)})
    state = {"norm_obs": True, "obs_rms": Object(kind, moments), "clip_obs": 10.0, "epsilon": 1e-8}
    kind = Name("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
    sound = Object(kind, {**state, "observation_space": box})
    load = loader(tmp_path / "model_vecnormalize.pkl", tmp_path / "model.zip")
    assert load(written(sound)).info.fingerprint != plain.info.fingerprint
    check_everywhere(sound, load)


def test_parts_of_an_observation_may_share_statistics_but_not_fill_the_memory(tmp_path):
    shutil.copy(ROWS / "sb3-ppo" / "model.zip", tmp_path)
    kind = Name("stable_baselines3.common.running_mean_std", "RunningMeanStd")
    box = Object(Name("gymnasium.spaces.discrete", "Discrete"), {"n": 1 << 20})
    many = Object(kind, {"mean": np.ones(1 << 15), "var": np.ones(1 << 15)})
    for part, statistics in ((box, None), (box, many)):
        names = [f"{i:04}" for i in range(1000)]
        shared = Raw(program(statistics) + PUT), Raw(program(part) + PUT.replace(b"\xff", b"\xfe"))
        again = Raw(GET), Raw(GET.replace(b"\xff", b"\xfe"))
        own = {} if statistics is None else dict.fromkeys(names, again[0]) | {names[0]: shared[0]}
        spaces = dict.fromkeys(names, again[1]) | {names[0]: shared[1]}
        space = Object(Name("gymnasium.spaces.dict", "Dict"), {"spaces": spaces})
        state = {"obs_rms": own, "observation_space": space, "clip_obs": 10.0, "epsilon": 1e-8}
        kind = Name("stable_baselines3.common.vec_env.vec_normalize", "VecNormalize")
        load = loader(tmp_path / "model_vecnormalize.pkl", tmp_path / "model.zip")
        with pytest.raises(BadPolicyFile, match="more than 4194304 values"):
            load(written(Object(kind, state)))


def test_statistics_of_rllib_are_read_once(tmp_path):
    shutil.copytree(ROWS / "rllib-ppo-filter" / "checkpoint_000000", tmp_path / "run")
    file = tmp_path / "run" / "env_runner/env_to_module_connector/class_and_ctor_args.pkl"
    value = read_objects(file.read_bytes(), ANY)
    connectors = value["ctor_args_and_kwargs"][1]["connectors"]
    (own,) = [entry for entry in connectors if entry[0].name == "MeanStdFilter"]
    connectors.append(own)
    with pytest.raises(BadPolicyFile, match="MeanStdFilter"):
        loader(file, tmp_path / "run")(written(value))


def test_aliases_in_the_configuration_of_a_run(tmp_path):
    shutil.copytree(ROWS / "rl_games-ppo", tmp_path / "run")
    lines = [f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 25)]
    text = "\n".join(
        ["a0: &a0 [1]", *lines, "params: {network: {mlp: {activation: [*a24, *a24]}}}"]
    )
    (tmp_path / "run" / "params" / "agent.yaml").write_text(text)
    with pytest.raises(BadPolicyFile, match=r"agent\.yaml"):
        load_policies(tmp_path / "run")


@pytest.mark.parametrize(
    "pushed",
    [
        b"K\x00" + b"}" + b"\x8a\x09" + b"\x7f" * 9 + b"K\x01s",  # a number of 72 bits
        b"K\x00" + b"}" + b"\x8a\x09" + b"\x7f" * 9 + b"K\x01\x86K\x01s",
        b"K\x00" + b"}X\x91\x01\x00\x00" + b"a" * 401 + b"K\x01s",
        b"K\x00c" + b"a" * 300 + b"\n" + b"b" * 300 + b"\n",
    ],
)
def test_keys_and_names_are_short(pushed):
    with pytest.raises(BadPolicyFile):
        read_objects(b"\x80\x02" + pushed + b"\x86.", ANY)


def test_types_of_numbers_are_not_parsed_if_they_are_long():
    fields = b"f4," * 100_000  # 0.3 s each
    data = pickle.dumps(np.zeros(2), 2).replace(
        b"X\x02\x00\x00\x00f8", b"X" + (300_000).to_bytes(4, "little") + fields
    )
    with pytest.raises(BadPolicyFile):
        read_objects(data, ANY)


def test_a_shared_array_counts_as_often_as_it_occurs(tmp_path):
    shutil.copytree(ROWS / "rllib-ppo" / "checkpoint_000000", tmp_path / "run")
    load = loader(tmp_path / "run" / MODULE / "module_state.pkl", tmp_path / "run")
    weight = np.zeros((1000, 1000), "f4")
    names = [
        f"{part}.net.mlp.{2 * i}.weight" for part in ("encoder.encoder", "pi") for i in range(500)
    ]
    shared = dict.fromkeys(names, weight) | {
        name.replace("weight", "bias"): np.zeros(1000, "f4") for name in names
    }
    with pytest.raises(BadPolicyFile, match=r"more than \d+ bytes"):
        load(pickle.dumps(shared))  # 4 MB, of which 4 GB would be made


def test_a_layer_may_be_listed_once(tmp_path):
    arrays = {"a.weight": np.eye(3, dtype="f4"), "a.bias": np.zeros(3, "f4")}
    np.savez(tmp_path / "a.npz", **arrays)
    for layers in (["a", "a"], ["a", ["a.weight", None]], ["a.weight", "a"]):
        description = {"layers": layers, "activation": "tanh", "head": "categorical"}
        (tmp_path / "a.json").write_text(json.dumps(description))
        with pytest.raises(BadPolicyFile, match="layers"):
            load_policies(tmp_path / "a.npz")


@pytest.mark.parametrize("text", [b"a", b"cloudpickle", b"model_weights", b"dyn/", b".weight"])
def test_long_text_is_searched_once(tmp_path, text):
    for name in ("a.pkl", "a.pt", "a.zip"):
        with pytest.raises(BadPolicyFile):
            loader(tmp_path / name)(b"\x80\x04" + text * (2_000_000 // len(text)))


def test_messages_are_short_and_of_one_line(tmp_path):
    shutil.copytree(ROWS / "rllib-ppo-images" / "checkpoint_000000", tmp_path / "run")
    file = tmp_path / "run" / MODULE / "class_and_ctor_args.pkl"
    value = read_objects(file.read_bytes(), ANY)
    value["ctor_args_and_kwargs"][1]["observation_space"].state["_shape"] = ("\n",) * 10_000
    with pytest.raises(BadPolicyFile) as raised:
        loader(file, tmp_path / "run")(written(value))
    assert len(str(raised.value)) < 3000
    with pytest.raises(BadPolicyFile) as raised:
        loader(tmp_path / "a.pkl")(b"\x80\x04X\x05\x00\x00\x00a\nb\x1b[X\x01\x00\x00\x00\r\x93)R.")
    assert str(raised.value).isprintable()
