"""Policy files and folders made to do harm, next to the sound ones of `fuzzing`."""

from __future__ import annotations

import base64
import io
import json
import pickle
import struct
import zipfile
from collections import OrderedDict
from functools import cache, partial
from pathlib import Path

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")
tensorstore = pytest.importorskip("tensorstore")

import fuzzing  # noqa: E402
import msgpack  # noqa: E402
from hostile_states import DEEP, TALL, content, deflated, npy  # noqa: E402
from onnx_graphs import FLOAT, helper, onnx  # noqa: E402

from spoiling import Fifo, Link, Sample, archive, forged  # noqa: E402

RLLIB = Path(__file__).parents[1] / "data/libraries/rllib-ppo-filter/checkpoint_000000"
# Those that need trust, and those that look at images, where the others see four numbers.
EXPECTED = dict.fromkeys(("torchscript", "export", "sb3 cnn", "sb3 dict"), "refused")
ODD = (None, [], {}, "x", 10**30, -1, 1e308, [10**9, 10**9], {"a": [10**400]}, [[]] * 3)


@cache
def _sound(folder):
    made = fuzzing.samples(folder)
    assert set(made) == set(NAMES)
    return made


def _policy(name, folder, canary):
    files = _sound(folder)[name]
    more = {"onnx": _onnx, "sb3 ppo": _sb3, "flax": _flax}.get(name, lambda *_: {})
    crafted = _crafted(files) | more(files, canary)
    expected = EXPECTED.get(name, "read")
    # Descriptions are read in the same way for every format.
    slow = [key for key in crafted if key.startswith("a.json: ") and name != "safetensors"]
    return Sample("attempts:use", files, expected, crafted=crafted, slow=["endless", *slow])


# ---- pickles ----


def _laughs(depth=100):
    """A small tuple that takes for ever to hash, compare or print."""
    value = ()
    for _ in range(depth):
        value = (value, value)
    return value


def _spread(depth=40):
    """A small list that is large if written out."""
    value = [0] * 10
    for _ in range(depth):
        value = [value] * 10
    return value


def _protocol2(body):
    return b"\x80\x02" + body + b"."


def pickles():
    """Name -> a pickle that must not be hashed, printed or followed too deep."""
    nested = b")" + b"\x85" * 300_000
    view = torch.zeros(1).expand(10**9, 4)
    return {
        "shared tuples": pickle.dumps(_laughs()),
        "shared tuples as a key": _protocol2(b"}" + _body(_laughs()) + b"K\x01s"),
        "shared tuples as a value": pickle.dumps({"w": _laughs(), "x": {"y": _laughs()}}),
        "shared tuples in a set": b"\x80\x04\x8f(" + _body(_laughs()) + b"\x90.",
        "shared lists": pickle.dumps({"w": _spread()}),
        "deep tuples": _protocol2(nested),
        "deep tuples as a key": _protocol2(b"}" + nested + b"K\x01s"),
        "deep tuples as a value": _protocol2(b"}X\x01\x00\x00\x00w" + nested + b"s"),
        "deep lists": _protocol2(b"]" * 300_000 + b"a" * 299_999),
        "deep dictionaries": _protocol2(b"}" + b"K\x01}" * 100_000 + b"s" * 100_000),
        "a list in itself": _protocol2(b"]q\x00h\x00a"),
        "large integer": pickle.dumps({"w": 1 << 8_000_000}),
        "large integer as text": b"(dp0\nS'w'\nI" + b"9" * 1_000_000 + b"\ns.",
        "large memo": _protocol2(b"K\x01r\xff\xff\xff\x7f"),
        "large text": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x.",
        "large frame": b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b"}.",
        "large array": pickle.dumps(np.zeros(0)).replace(b"K\x00\x85", b"J\x00\xe1\xf5\x05\x85"),
        "expanded tensor": pickle.dumps({"w": view}),
        "many marks": _protocol2(b"(" * 1_000_000),
        "many values": _protocol2(b"(" + b"N" * 1_000_000 + b"t"),
        "no end": b"\x80\x02}",
        "empty": b".",
    }  # fmt: skip


def _body(value):
    """The instructions of a pickle that push a value."""
    return pickle.dumps(value, 2)[2:-1]


# ---- files with one policy ----


def _crafted(files):
    """What harms readers of one kind of content, whatever it means."""
    (name, data), *rest = files.items()
    beside, suffix = dict(rest), name.partition(".")[2]
    crafted = {"a pipe": {name: Fifo(), **beside}, "a link to itself": {name: Link(name), **beside}}
    for other, described in rest:
        for attack, text in _json_attacks(described).items() if other.endswith("json") else ():
            crafted[f"{other}: {attack}"] = {**files, other: text}
        crafted[f"{other} is a pipe"] = {**files, other: Fifo()}
    contents = {}
    if suffix in ("pkl", "pickle"):
        prefix = b"" if suffix == "pkl" else b"\x8c\x0dbrax.training0"
        contents = {k: v[:2] + prefix + v[2:] for k, v in pickles().items()}
    elif suffix == "d3":
        contents = pickles()
        contents |= {
            f"weights: {key}": pickle.dumps({**pickle.loads(data), "torch": value})
            for key, value in _torch(pickle.loads(data)["torch"]).items()
        }
    elif suffix in ("pt", "pth", "cleanrl_model"):
        contents = _torch(data)
    elif suffix in ("npz", "zip", "pt2"):
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            members = {key: file.read(key) for key in file.namelist()}
        largest = max(members, key=lambda key: len(members[key]))
        for declared in (100, 3 << 30):
            contents[f"{declared} declared"] = forged(
                members, largest, members[largest], 3000, declared
            )
    elif suffix == "npy":
        contents = {
            "no width": npy((TALL, 0)),
            "huge": npy((TALL,)),
            "fewer": npy((3,), "<f8", bytes(24)),
        }
    elif suffix == "safetensors":
        contents = _safetensors(data)
    elif suffix == "neat":
        contents = _json_attacks(data) | _genomes(json.loads(data))
    return crafted | {key: {name: value, **beside} for key, value in contents.items()}


def _json_attacks(data):
    """JSON with values that nobody expects, and too deep."""
    known = json.loads(data)
    made = {
        f"{key} {number}": json.dumps({**known, key: value}).encode()
        for key in known
        for number, value in enumerate(ODD)
    }
    return made | {
        "deep": b'{"a":' * DEEP,
        "deep lists": b"[" * DEEP + b"]" * DEEP,
        "long number": b'{"a": ' + b"9" * 1_000_000 + b"}",
        "long": json.dumps({**known, "a": [0] * 1_000_000}).encode(),
        "sizes": json.dumps({**known, "sizes": [10**9, 10**9, 10**9]}).encode(),
    }


def _genomes(known):
    n = 20_000
    nodes = [[i, 0.5, 1.0, "tanh", "sum"] for i in range(n)]
    chain = [[i, i + 1, 1.0] for i in range(n - 1)]
    loop = [*known["connections"], [7, 7, 1.0], [0, 7, 1.0]]
    return {
        "a long chain": json.dumps({**known, "nodes": nodes, "connections": chain}).encode(),
        "a loop": json.dumps({**known, "connections": loop}).encode(),
        "many inputs": json.dumps({**known, "inputs": list(range(-200_000, 0))}).encode(),
        "large numbers": json.dumps({**known, "nodes": [[2**70, 1e308, 1e308, "exp", "product"]]})
        .encode(),
    }  # fmt: skip


def _torch(data):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {key: file.read(key) for key in file.namelist()}
    pickled = next((key for key in members if key.endswith("data.pkl")), "archive/data.pkl")
    made = {key: archive({**members, pickled: value}) for key, value in pickles().items()}
    wide = {
        "actor.0.weight": torch.zeros(1).expand(30_000, 30_000),
        "actor.2.weight": torch.zeros(1).expand(3, 30_000),
    }
    made["expanded"] = fuzzing.torch_bytes(wide)
    made["no width"] = fuzzing.torch_bytes({"actor.0.weight": torch.zeros(10**9, 0)})
    for declared in (100, 3 << 30):
        made[f"{declared} declared"] = forged(members, pickled, members[pickled], 3000, declared)
    made["old"] = pickle.dumps(119547037146038801333356, 2) + pickle.dumps(1001, 2)
    return made


def _safetensors(data):
    (size,) = struct.unpack_from("<Q", data)
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]

    def packed(known):
        text = known if isinstance(known, bytes) else json.dumps(known).encode()
        return struct.pack("<Q", len(text)) + text + body

    first = next(key for key in header if key != "__metadata__")
    made = {
        "large header": struct.pack("<Q", 1 << 62) + data[8:],
        "negative": struct.pack("<q", -1) + data[8:],
        "deep": packed(b'{"a":' * 5000),
        "deep lists": packed(b"[" * DEEP),
        "many": packed({f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
                        for i in range(50_000)}),
    }  # fmt: skip
    for number, change in enumerate(
        (
            {"shape": [TALL, 0]},
            {"shape": [1 << 62, 1 << 62]},
            {"shape": [-1]},
            {"data_offsets": [0, 1 << 62]},
            {"data_offsets": [8, 0]},
            {"dtype": "F8_E4M3"},
            {"dtype": "O"},
        )
    ):
        made[f"changed {number}"] = packed({**header, first: {**header[first], **change}})
    return made


def _flax(files, _):
    leaf = fuzzing.flax_bytes({"w": np.zeros(2, "f4")})
    inner = msgpack.ExtType(1, b"\x90")
    for _ in range(300):
        inner = msgpack.ExtType(1, msgpack.packb([[], "f4", inner]))

    def array(shape, name, raw):
        return msgpack.packb({"w": msgpack.ExtType(1, msgpack.packb([shape, name, raw]))})

    contents = {
        "deep lists": b"\x91" * DEEP,
        "deep mappings": b"\x81\xa1a" * DEEP + b"\xc0",
        "nested arrays": msgpack.packb(inner),
        "many": b"\xdf\xff\xff\xff\xff" + leaf,
        "long list": b"\xdd\xff\xff\xff\xff" + leaf,
        "long text": b"\xdb\xff\xff\xff\xff" + leaf,
        "nothing": b"\xdc\xff\xff" + b"\xc0" * 65535,
        "timestamp": msgpack.packb({"w": msgpack.Timestamp(1)}),
        "no width": array([10**3] * 7 + [0], "f4", b""),
        "objects": array([1], "O", bytes(8)),
        "text": array([1], "U2", bytes(8)),
        "a type": array([1], "f4," * 100_000, bytes(4)),
        "numbers as keys": msgpack.packb({1: 2}),
        "deep parameters": fuzzing.flax_bytes(_nested(400)),
    }
    rest = {key: value for key, value in files.items() if key != "a.msgpack"}
    return {key: {"a.msgpack": value, **rest} for key, value in contents.items()}


def _nested(depth):
    tree = {"kernel": np.zeros((2, 2), "f4")}
    for _ in range(depth):
        tree = {"a": tree}
    return tree


def _sb3(files, _):
    """Pickles inside of the JSON inside of the archive, and as statistics."""
    with zipfile.ZipFile(io.BytesIO(files["a.zip"])) as file:
        members = {key: file.read(key) for key in file.namelist()}
    known = json.loads(members["data"])
    crafted = {}
    for attack, data in pickles().items():
        crafted[f"statistics: {attack}"] = {**files, "vecnormalize.pkl": data}
        text = base64.b64encode(data).decode()
        for key in ("policy_kwargs", "observation_space", "action_space"):
            value = {":type:": "<class 'x'>", ":serialized:": text}
            changed = {**members, "data": json.dumps({**known, key: value}).encode()}
            crafted[f"{key}: {attack}"] = {**files, "a.zip": archive(changed)}
    for attack, data in _torch(members["policy.pth"]).items():
        crafted[f"weights: {attack}"] = {**files, "a.zip": archive({**members, "policy.pth": data})}
    for attack in ("deep", "deep lists"):
        data = _json_attacks(b"{}")[attack]
        crafted[f"data: {attack}"] = {**files, "a.zip": archive({**members, "data": data})}
    return crafted


# ---- ONNX ----


def _onnx(files, canary):
    def made(nodes, constants=(), width=3):
        seen = helper.make_tensor_value_info("x", FLOAT, ["n", 4])
        out = helper.make_tensor_value_info("y", FLOAT, ["n", width])
        model = helper.make_model(
            helper.make_graph(nodes, "g", [seen], [out], list(constants)),
            opset_imports=[helper.make_opsetid("", 17)],
        )
        model.ir_version = 8
        return model.SerializeToString()

    def constant(name, value):
        return onnx.numpy_helper.from_array(np.asarray(value), name)

    outside = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4, 3])
    outside.data_location = onnx.TensorProto.EXTERNAL
    outside.external_data.add(key="location", value=str(canary / "secret.bin"))
    hidden = onnx.TensorProto(name="w", data_type=FLOAT, dims=[4, 3])
    hidden.external_data.add(key="location", value="../canary/secret.bin")
    multiply = helper.make_node("MatMul", ["x", "w"], ["y"])
    large = onnx.TensorProto(name="w", data_type=FLOAT, dims=[1 << 20, 1 << 20])
    fill = helper.make_node("ConstantOfShape", ["s"], ["f"])
    total = helper.make_node("ReduceSum", ["f"], ["r"], keepdims=1)
    plus = helper.make_node("Add", ["x", "r"], ["y"])
    step = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Identity", ["v"], ["u"])],
        "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", FLOAT, ["n", 4]),
        ],
        [
            helper.make_tensor_value_info("d", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("u", FLOAT, ["n", 4]),
        ],
    )
    loop = helper.make_node("Loop", ["t", "b", "x"], ["y"], body=step)
    tiles = helper.make_node("Tile", ["x", "s"], ["y"])
    doubling = [
        helper.make_node("Concat", [f"x{i}" if i else "x"] * 2, [f"x{i + 1}"], axis=1)
        for i in range(40)
    ]
    last = helper.make_node("Identity", ["x40"], ["y"])
    deep = b""
    for _ in range(10_000):  # a graph in an attribute of a node in a graph
        deep = _message(1, _message(5, _message(6, deep)))
    contents = {
        "outside": made([multiply], [outside]),
        "outside, not marked": made([multiply], [hidden]),
        "large tensor": made([multiply], [large]),
        "large shape": made([fill, total, plus], [constant("s", np.array([1 << 20] * 2))], 4),
        "endless": made([loop], [constant("t", np.int64(1 << 62)), constant("b", True)], 4),
        "tiles": made([tiles], [constant("s", np.array([1, 1 << 30]))], "m"),
        "doubling": made([*doubling, last], (), "m"),
        "deep": _message(7, deep),
        "empty graph": made([]),
        "own format": b"\x00\x00\x00\x00ORTM" + bytes(100),
    }
    rest = {key: value for key, value in files.items() if key != "a.onnx"}
    return {key: {"a.onnx": value, **rest} for key, value in contents.items()}


def _message(number, data):
    """A field of a protocol buffers message."""
    size, length = len(data), b""
    while True:
        length += bytes([(size & 0x7F) | (0x80 if size > 0x7F else 0)])
        size >>= 7
        if not size:
            return bytes([number << 3 | 2]) + length + data


# ---- folders ----


def _rllib(*_):
    files = {f"run/{name}": data for name, data in content(RLLIB).items()}
    module = "run/learner_group/learner/rl_module/default_policy"
    runner = "run/env_runner"
    settings = f"{module}/class_and_ctor_args.pkl"
    first = {settings: files[settings], f"{module}/module_state.pkl": b""}
    files = {name: files[name] for name in [*first, *(n for n in files if n not in first)]}
    places = [
        *(settings, f"{module}/module_state.pkl"),
        f"{runner}/env_to_module_connector/class_and_ctor_args.pkl",
        f"{runner}/env_to_module_connector/MeanStdFilter/state.pkl",
    ]
    crafted = {f"{place} is a pipe": {**files, place: Fifo()} for place in places}
    for place in places:
        for attack, data in pickles().items():
            crafted[f"{place}: {attack}"] = {**files, place: data}
    kwargs = {
        "observation_space": gymnasium.spaces.Box(-1, 1, (3,)),
        "action_space": gymnasium.spaces.Discrete(2),
        "model_config": {"fcnet_activation": "tanh"},
        "catalog_class": OrderedDict,
    }
    config = ("fcnet_activation", "head_fcnet_activation", "conv_activation", "conv_filters")
    for name, value in (("tuples", _laughs()), ("lists", _spread())):
        odd = {f"{name} as {key}": {**kwargs, key: value} for key in kwargs}
        odd |= {f"{name} as {k}": {**kwargs, "model_config": {k: value}} for k in config}
        odd[f"{name} as a filter"] = {
            **kwargs,
            "model_config": {"conv_filters": [[1, value, 2], [1, 2, value], [value]]},
        }
        for what, arguments in odd.items():
            crafted[what] = {**files, settings: _constructed(OrderedDict, arguments)}
        crafted[f"{name} as a class"] = {**files, settings: _constructed(value, kwargs)}
        connectors = ([value], [(value, (), {})], [(OrderedDict, value, value)], value, [[value]])
        for number, listed in enumerate(connectors):
            data = _constructed(OrderedDict, {"connectors": listed})
            crafted[f"{name} as connector {number}"] = {**files, places[2]: data}
        weights = pickle.dumps({"encoder.net.mlp.0.weight": value, "x": np.zeros(2)})
        crafted[f"{name} as weights"] = {**files, places[1]: weights}
        state = {"running_stats": [{"num_pushes": value, "mean_array": value}]}
        text = pickle.dumps({"a": {**state, "clip_by_value": value, "de_mean_to_zero": value}})
        crafted[f"{name} as statistics"] = {**files, places[3]: text}
    bomb = base64.b64encode(deflated(1, 3)).decode()
    moments = {"num_pushes": 5, "mean_array": bomb, "sum_sq_diff_array": bomb}
    known = {"running_stats": [moments], "clip_by_value": 1.0}
    known |= {"de_mean_to_zero": True, "de_std_to_one": True}
    crafted["compressed statistics"] = {**files, places[3]: pickle.dumps({"a": known})}
    return Sample("attempts:load", files, crafted=crafted)


def _constructed(kind, arguments):
    """What RLlib writes; a class is known by its name alone, which stands for one of RLlib's."""
    made = {"class": kind, "ctor_args_and_kwargs": ((), arguments)}
    return pickle.dumps(made, protocol=2).replace(b"ccollections\n", b"cray.rllib\n")


def _torchrl(folder, canary):
    (packed,) = _sound(folder)["torchrl"].values()
    with zipfile.ZipFile(io.BytesIO(packed)) as file:
        files = {f"run/{key}": file.read(key) for key in file.namelist()}
    about = "run/manifest.json"
    files = {about: files[about], **files}
    manifest = json.loads(files[about])
    policy = f"run/{manifest['components']['policy']['path']}"
    texts = (about, f"{policy}/state.json", f"{policy}/state/meta.json")
    crafted = {f"{name} is a pipe": {**files, name: Fifo()} for name in files}
    for name in texts:
        for attack, data in _json_attacks(files[name]).items():
            crafted[f"{name}: {attack}"] = {**files, name: data}
    for place in ("..", "../run", "components/0000-x/../../../canary", str(canary), "", "a\0b"):
        odd = {"policy": {"adapter": "torchrl.state_dict", "path": place}}
        text = json.dumps({**manifest, "components": odd}).encode()
        crafted[f"named {place!r}"] = {**files, about: text}
    known = json.loads(files[texts[2]])
    first = "tensor_00000000"
    for number, change in enumerate(
        (
            {"shape": [TALL, 0]},
            {"shape": [1 << 62, 1 << 62]},
            {"shape": [-1]},
            {"shape": [TALL]},
            {"dtype": "torch.object"},
            {"dtype": "O"},
        )
    ):
        text = json.dumps({**known, first: {**known[first], **change}}).encode()
        crafted[f"changed {number}"] = {**files, texts[2]: text}
    for attack, data in _torch(fuzzing.torch_bytes({})).items():
        crafted[f"weights: {attack}"] = {**files, f"{policy}/state.pt": data}
    return Sample("attempts:use_folder", files, crafted=crafted)


def _zoo(folder, _):
    model = _sound(folder)["sb3 dqn"]["a.zip"]
    home = "logs/CartPole-v1_1"
    config = (
        b"!!python/object/apply:collections.OrderedDict\n"
        b"- - - n_envs\n    - 8\n  - - normalize\n    - false\n  - - policy\n    - MlpPolicy\n"
        b"  - - env_kwargs\n    - {a: 1}\n"
    )
    command = b"!!python/object/apply:collections.OrderedDict\n- - - env\n    - CartPole-v1\n"
    files = {
        f"{home}/CartPole-v1/config.yml": config,
        f"{home}/CartPole-v1/args.yml": command,
        f"{home}/a.zip": model,
    }
    keys = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    merged = ["a0: &a0 {" + ", ".join(f"{k}: {i}" for i, k in enumerate(keys[:10])) + "}"]
    alias = ["a0: &a0 [" + ", ".join("0" * 10) + "]"]
    for i in range(1, 26):
        merged.append(f"a{i}: &a{i} {{<<: [" + ", ".join([f"*a{i - 1}"] * 10) + "]}")
        alias.append(f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]")
    texts = {
        "merge keys": "\n".join(merged),
        "fewer merge keys": "\n".join(merged[:7]),
        "some merge keys": "\n".join(merged[:9]),
        "aliases": "\n".join(alias),
        "aliases as arguments": "\n".join(alias) + "\nenv_kwargs: {a: *a25}",
        "aliases as a key": "\n".join(alias) + "\n? *a25\n: 1",
        "aliases as wrappers": "\n".join(alias) + "\nenv_wrapper: *a25",
        "itself": "a: &a [*a]\nenv_kwargs: *a",
        "itself as a key": "&a [*a]: 1",
        "deep": "a: " + "[" * 100_000,
        "deep, shallow enough": "a: " + "[" * 900 + "]" * 900,
        "deep mappings": "{a: " * 50_000,
        "deep blocks": "\n".join(" " * i + "a:" for i in range(700)),
        "long number": "a: " + "9" * 200_000,
        "base 60": "a: 1" + ":1" * 100_000,
        "base 60 with a point": "a: 1" + ":1" * 100_000 + ".5",
        "base 16": "a: 0x" + "f" * 200_000,
        "base 2": "a: 0b" + "1" * 200_000,
        "binary": "a: !!binary " + "A" * 200_000,
        "many keys": "\n".join(f"k{i}: {i}" for i in range(15_000)),
        "many documents": "--- 1\n" * 30_000,
        "many anchors": "\n".join(f"k{i}: &b{i} 1" for i in range(10_000)),
        "code": "!!python/object/apply:os.system ['touch ran']",
        "new": "!!python/object/new:os.system ['touch ran']",
        "module": "!!python/module:os",
        "literal": "env_kwargs: '" + "(" * 9000 + "'",
        "literal minus": "env_kwargs: '" + "-" * 9000 + "1'",
        "literal power": "env_kwargs: '9**9**9**9'",
        "literal product": "env_kwargs: '[0]*10000000000'",
        "literal number": "env_kwargs: '" + "9" * 9999 + "'",
        "literal lists": "env_kwargs: '" + "[" * 150 + "]" * 150 + "'",
        "literal sum": "normalize: '" + "1+" * 4900 + "1j'",
        "call": "normalize: \"__import__('os').system('touch ran')\"",
        "stack": "frame_stack: 1000000000000",
        "empty": "",
        "tabs": "\t\t",
        "zeros": "\0" * 100,
        "time": "a: 2001-99-99",
        "a set": "!!set {? a, ? [b]}",
        "pairs": "!!omap [a: 1, a: 2, {}]",
        "a mapping as a key": "{{}: 1}",
    }
    crafted = {}
    for attack, text in texts.items():
        crafted[attack] = {**files, f"{home}/CartPole-v1/config.yml": text.encode()}
        crafted[f"command: {attack}"] = {**files, f"{home}/CartPole-v1/args.yml": text.encode()}
    crafted["a pipe"] = {**files, f"{home}/CartPole-v1/config.yml": Fifo()}
    for attack, data in pickles().items():
        own = {**files, f"{home}/a_vecnormalize.pkl": data}
        crafted[f"statistics: {attack}"] = own
    return Sample("attempts:use_folder", files, crafted=crafted)


# ---- Orbax ----


def _orbax(kind, folder, canary):
    """A checkpoint of Flax parameters, as Orbax writes it with TensorStore."""
    folder = folder / f"orbax-{kind}"
    folder.mkdir()
    tree = {
        f"params.hidden_{i}.{part}": array
        for i, layer in enumerate(fuzzing.tree(4, 5, 3).values())
        for part, array in layer.items()
    }
    driver = "zarr3" if kind == "zarr3" else "zarr"
    for name, array in tree.items():
        place = {"driver": "file", "path": f"{folder}/run/{name}/"}
        if kind == "ocdbt":
            base = {"driver": "file", "path": f"{folder}/run/"}
            place = {"driver": "ocdbt", "base": base, "path": f"{name}/"}
        spec = {"driver": driver, "kvstore": place}
        if driver == "zarr":
            spec["metadata"] = {"compressor": {"id": "zlib", "level": 1}}
        tensorstore.open(
            spec, create=True, dtype=tensorstore.dtype("float32"), shape=array.shape
        ).result().write(array).result()
    metadata = {
        "tree_metadata": {
            str(tuple(name.split("."))): {
                "key_metadata": [{"key": key, "key_type": 2} for key in name.split(".")],
                "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False},
            }
            for name in tree
        },
        "use_ocdbt": kind == "ocdbt",
        "use_zarr3": kind == "zarr3",
    }
    about, described = "run/_METADATA", "run/policies.json"
    files = {about: json.dumps(metadata).encode()}
    files |= {described: json.dumps(fuzzing.DESCRIPTION).encode()} | content(folder)
    crafted = {}
    for attack, data in _json_attacks(files[about]).items():
        crafted[f"metadata: {attack}"] = {**files, about: data}
    entry = next(iter(metadata["tree_metadata"].values()))
    for place in ("..", "../run", "a/../../canary", str(canary), "", ".", "a\0b", "x" * 5000):
        odd = {**entry, "key_metadata": [{"key": place}]}
        changed = {**metadata, "tree_metadata": {"a": odd}}
        crafted[f"named {place[:20]!r}"] = {**files, about: json.dumps(changed).encode()}
    many = {str(i): entry for i in range(20_000)}
    text = json.dumps({**metadata, "tree_metadata": many}).encode()
    crafted["many times the same"] = {**files, about: text}
    deep = {**entry, "key_metadata": [{"key": "a"}] * 20_000}
    text = json.dumps({**metadata, "tree_metadata": {"a": deep}}).encode()
    crafted["deep names"] = {**files, about: text}
    kernel = "run/params.hidden_0.kernel"
    if kind == "ocdbt":
        inner = next(name for name in files if "/d/" in name)
        manifest = "run/manifest.ocdbt"
        for name in (inner, manifest):
            crafted[f"{name} is a pipe"] = {**files, name: Fifo()}
            crafted[f"{name} is a link"] = {**files, name: Link(str(canary / "secret.bin"))}
            for size in (0, 1, 12, 100):
                crafted[f"{name} of {size}"] = {**files, name: files[name][:size]}
        return Sample("attempts:use_folder", files, crafted=crafted)
    settings = f"{kernel}/zarr.json" if kind == "zarr3" else f"{kernel}/.zarray"
    chunk = next(n for n in files if n.startswith(kernel) and n != settings)
    made = _zarr3(json.loads(files[settings])) if kind == "zarr3" else _zarr(
        json.loads(files[settings])
    )  # fmt: skip
    for attack, (known, data) in made.items():
        text = known if isinstance(known, bytes) else json.dumps(known).encode()
        rest = {key: value for key, value in files.items() if key != chunk}
        crafted[attack] = {**rest, settings: text, **({} if data is None else {chunk: data})}
    for attack, data in _json_attacks(files[settings]).items():
        crafted[f"settings: {attack}"] = {**files, settings: data}
    crafted["a chunk is a pipe"] = {**files, chunk: Fifo()}
    crafted["settings are a pipe"] = {**files, settings: Fifo()}
    crafted["a chunk is a link"] = {**files, chunk: Link(str(canary / "secret.bin"))}
    crafted["an array is a link"] = {
        **{key: value for key, value in files.items() if not key.startswith(kernel)},
        kernel: Link(str(canary)),
    }
    return Sample("attempts:use_folder", files, crafted=crafted)


def _zstd_zeros(gigabytes):
    """Zeros as blocks of zstd that repeat one byte 131,072 times."""
    block = struct.pack("<I", (1 << 17) << 3 | 1 << 1)[:3] + b"\0"
    last = struct.pack("<I", (1 << 17) << 3 | 1 << 1 | 1)[:3] + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x58" + block * (gigabytes << 13) + last


def _zarr(known):
    side = 27_000
    wide = {**known, "chunks": [side, side]}
    blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 0}
    sizes = bytes([2, 1, 0x20, 4]) + struct.pack("<3I", 2**31 - 64, 2**31 - 64, 40) + bytes(24)
    copied = bytes([2, 1, 0x02, 4]) + struct.pack("<3I", 2**31 - 64, 1 << 20, 40) + bytes(24)
    return {
        "a chunk larger than the array": (wide, deflated(1, 3)),
        "zlib beyond the chunk": (known, deflated(1, 3)),
        "gzip beyond the chunk": ({**known, "compressor": {"id": "gzip", "level": 1}},
                                  deflated(1, 3)),
        "zstd": ({**wide, "compressor": {"id": "zstd", "level": 1}}, _zstd_zeros(3)),
        "zstd beyond the chunk": ({**known, "compressor": {"id": "zstd", "level": 1}},
                                  _zstd_zeros(3)),
        "blosc": ({**wide, "compressor": blosc}, sizes),
        "blosc copied": ({**known, "compressor": blosc}, copied),
        "missing chunks": ({**known, "shape": [8_000_000, 1], "chunks": [1, 1]}, None),
        "fewer missing chunks": ({**known, "shape": [1_000_000, 1], "chunks": [1, 1]}, None),
        "missing, large": ({**known, "shape": [TALL, 1], "chunks": [TALL, 1]}, None),
        "missing chunk larger than the array": (wide, None),
        "too large for numbers": ({**known, "shape": [1 << 40] * 2, "chunks": [1] * 2}, None),
        "many axes": ({**known, "shape": [1] * 40, "chunks": [1] * 40}, None),
        "no width": ({**known, "shape": [TALL, 0], "chunks": [1, 1]}, None),
        "bytes": ({**known, "dtype": "|V1000000000"}, None),
        "text": ({**known, "dtype": "<U100000000"}, None),
        "fields": ({**known, "dtype": [["a", "<f4", [30_000, 30_000]]]}, None),
        "deep": (b"[" * DEEP, None),
        "slashes": ({**known, "dimension_separator": "/"}, None),
        "bz2": ({**known, "compressor": {"id": "bz2", "level": 1}}, bytes(10)),
        "not compressed": ({**known, "compressor": None}, bytes(10)),
    }  # fmt: skip


def _zarr3(known):
    side = 27_000

    def with_codecs(codecs, shape=(4, 5), chunks=(4, 5)):
        grid = {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}
        return {**known, "shape": list(shape), "chunk_grid": grid, "codecs": codecs}

    plain = {"name": "bytes", "configuration": {"endian": "little"}}
    gzip = {"name": "gzip", "configuration": {"level": 1}}
    zstd = {"name": "zstd", "configuration": {"level": 1}}
    sharded = [plain]
    for _ in range(200):
        inner = {"chunk_shape": [1, 1], "codecs": sharded, "index_codecs": [plain]}
        sharded = [{"name": "sharding_indexed", "configuration": inner}]
    shards = {"chunk_shape": [1, 1], "codecs": [plain], "index_codecs": [plain]}
    once = [{"name": "sharding_indexed", "configuration": shards}]
    many = [plain, *[zstd] * 6]
    packed = _zstd_zeros(3)
    return {
        "gzip": (with_codecs([plain, gzip], chunks=(side, side)), _gzip(3)),
        "gzip beyond the chunk": (with_codecs([plain, gzip]), _gzip(3)),
        "zstd": (with_codecs([plain, zstd], chunks=(side, side)), packed),
        "zstd beyond the chunk": (with_codecs([plain, zstd]), packed),
        "zstd many times": (with_codecs(many), packed),
        "shards in shards": (with_codecs(sharded), bytes(100)),
        "a large shard": (with_codecs(once, chunks=(10**5, 10**5)), bytes(1000)),
        "an array of shards": (
            with_codecs(once, shape=(8_000_000, 1), chunks=(4_000_000, 1)),
            b"\xff" * 1000,
        ),
        "missing chunks": (with_codecs([plain], (8_000_000, 1), (1, 1)), None),
        "missing, large": (with_codecs([plain], (TALL, 1), (TALL, 1)), None),
        "missing chunk larger than the array": (with_codecs([plain], chunks=(side, side)), None),
        "no width": (with_codecs([plain], (TALL, 0), (1, 1)), None),
        "many axes": (with_codecs([plain], [1] * 40, [1] * 40), None),
        "transposed": (
            with_codecs([{"name": "transpose", "configuration": {"order": [1, 0] * 9}}, plain]),
            None,
        ),
        "text": ({**known, "data_type": "string"}, None),
        "raw": ({**known, "data_type": "r8000000000"}, None),
        "deep": (b"[" * DEEP, None),
    }


def _gzip(gigabytes):
    """Zeros as gzip, whose frame differs from that of zlib."""
    body = deflated(1, gigabytes)[2:-4]
    return b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03" + body + bytes(8)


# As in `hostile_states`.
NAMES = (
    *("sb3 ppo", "sb3 dqn", "sb3 sac", "sb3 td3", "sb3 lstm", "sb3 dict", "sb3 cnn", "saved"),
    *(
        "safetensors",
        "npy",
        "npz",
        "cleanrl",
        "c51",
        "pth",
        "pt",
        "d3rlpy",
        "torchrl",
        "torchscript",
        "export",
        "onnx",
    ),
    *("onnx inside", "neat", "pickled neat", "flax", "brax", "pickled flax"),
)
READERS = {
    **{f"policy: {name}": partial(_policy, name) for name in NAMES},
    "policy: rllib": _rllib,
    "policy: torchrl folder": _torchrl,
    "policy: rl zoo": _zoo,
    **{f"policy: orbax {kind}": partial(_orbax, kind) for kind in ("zarr", "zarr3", "ocdbt")},
}
