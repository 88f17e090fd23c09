"""Policy files of every format: sound ones."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import sys
import types
from unittest import mock

import numpy as np
import pytest
import safetensors.numpy

from pivec.policies import NetworkPolicy, save_policy

torch = pytest.importorskip("torch")

from onnx_graphs import graph  # noqa: E402
from sb3_models import Still, model, saved, spaces  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

from spoiling import archive  # noqa: E402

SEEN, ACTIONS = spaces.Box(-9, 9, (4,)), spaces.Discrete(3)
SMALL = {"net_arch": [4]}
CONFIG = b"[DefaultGenome]\nnum_inputs = 4\nnum_outputs = 3\nfeed_forward = True\n"
DESCRIPTION = {
    "activation": "tanh",
    "head": "categorical",
    "normaliser": {"mean": [0, 0, 0, 1], "var": [1, 1, 1, 2], "clip": 5},
    "info": {"step": 3},
}
GENOME = {
    "format": "pivec-neat",
    "version": 1,
    "inputs": [-1, -2, -3, -4],
    "outputs": [0, 1, 2],
    "nodes": [[i, 0.5, 1.0, "tanh", "sum"] for i in (0, 1, 2, 7)],
    "connections": [[-1, 7, 1.0], [7, 0, 2.0], [-2, 1, 0.5], [-3, 2, 1.5]],
    "info": {},
}


def torch_bytes(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def network():
    rng = np.random.default_rng(0)
    return NetworkPolicy(
        ((rng.normal(size=(4, 5)), np.zeros(5)), (rng.normal(size=(5, 3)), np.zeros(3))),
        "tanh",
        "categorical",
    )


def samples(folder):
    """Name -> {file name: bytes} of one sound policy for each format, the policy file first."""
    env = Still(SEEN, ACTIONS)
    box = Still(SEEN, spaces.Box(-1, 1, (2,)))
    images = Still(spaces.Box(0, 255, (36, 36, 1), np.uint8), ACTIONS)
    both = Still(spaces.Dict({"eye": images.observation_space, "x": SEEN}), ACTIONS)
    lstm = {**SMALL, "lstm_hidden_size": 4}
    few = {**SMALL, "features_extractor_kwargs": {"cnn_output_dim": 4}}
    statistics = VecNormalize(DummyVecEnv([lambda: env]))
    statistics.reset()
    weights = {f"actor.{i}.{part}": tensor for i, part, tensor in _tensors()}
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    values = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 9))
    returns = {f"network.{key}": value for key, value in values.state_dict().items()}
    c51 = {"model_weights": {**returns, "atoms": torch.linspace(0, 1, 3)}, "args": {"seed": 1}}
    script = io.BytesIO()
    torch.jit.save(torch.jit.trace(module, torch.zeros(1, 4)), script)
    program = io.BytesIO()
    torch.export.save(torch.export.export(module, (torch.zeros(2, 4),)), program)
    save_policy(network(), folder / "a.safetensors", {"step": 1})
    vector = np.random.default_rng(0).normal(size=4 * 5 + 5 + 5 * 3 + 3)
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, vector)
    np.savez(npz, best=vector)
    sizes = json.dumps({**DESCRIPTION, "sizes": [4, 5, 3]}).encode()
    named = {key: value.numpy().copy() for key, value in weights.items()}
    layers = json.dumps({**DESCRIPTION, "layers": ["actor.0", "actor.2"]}).encode()
    return {
        "sb3 ppo": {
            "a.zip": saved(model("PPO", env, policy_kwargs=SMALL)),
            "vecnormalize.pkl": pickle.dumps(statistics),
        },
        "sb3 dqn": {"a.zip": saved(model("DQN", env, policy_kwargs=SMALL))},
        "sb3 sac": {"a.zip": saved(model("SAC", box, policy_kwargs=dict(SMALL), use_sde=True))},
        "sb3 td3": {"a.zip": saved(model("TD3", box, policy_kwargs=SMALL))},
        "sb3 lstm": {
            "a.zip": saved(model("RecurrentPPO", env, "MlpLstmPolicy", policy_kwargs=lstm))
        },
        "sb3 dict": {"a.zip": saved(model("DQN", both, "MultiInputPolicy", policy_kwargs=few))},
        "sb3 cnn": {
            "a.zip": saved(
                model(
                    "DQN",
                    images,
                    "CnnPolicy",
                    policy_kwargs={"features_extractor_kwargs": {"features_dim": 4}},
                )
            )
        },
        "saved": {"a.safetensors": (folder / "a.safetensors").read_bytes()},
        "safetensors": {"a.safetensors": safetensors.numpy.save(named), "a.json": layers},
        "npy": {"a.npy": npy.getvalue(), "a.json": sizes},
        "npz": {"a.npz": npz.getvalue(), "a.json": sizes},
        "cleanrl": {"a.cleanrl_model": torch_bytes(weights), "a.json": b'{"activation": "relu"}'},
        "c51": {"a.cleanrl_model": torch_bytes(c51)},
        "pth": {"a.pth": torch_bytes((weights, {})), "a.json": layers},
        "pt": {"a.pt": torch_bytes(weights)},
        "d3rlpy": {"a.d3": d3_bytes(values.state_dict())},
        "torchrl": {"a.zip": archive(torchrl_files(module.state_dict()))},
        "torchscript": {"a.pt": script.getvalue()},
        "export": {"a.pt2": program.getvalue()},
        "onnx": {"a.onnx": graph(), "a.json": b'{"head": "epsilon_greedy", "epsilon": 0.1}'},
        "onnx inside": {"a.onnx": graph(description={"head": "categorical"})},
        "neat": {"a.neat": json.dumps(GENOME).encode()},
        "pickled neat": {"a.pkl": _pickled_genome(), "a.cfg": CONFIG},
        "flax": {
            "a.msgpack": flax_bytes({"step": 3, "params": tree(4, 5, 3), "opt_state": {}}),
            "a.json": json.dumps(DESCRIPTION).encode(),
        },
        "brax": {"a.pickle": brax_bytes(tree(4, 5, 4))},
        "pickled flax": {
            "a.pkl": pickle.dumps({"params": tree(4, 5, 3)}),
            "a.json": json.dumps(DESCRIPTION).encode(),
        },
    }


def d3_bytes(weights, kind="dqn", module="q_funcs", action_size=3, **params):
    """What d3rlpy saves of a Sequential of two layers; by default a DQN with quantiles."""
    part = "0." if module == "q_funcs" else ""
    names = {"0": f"{part}_encoder._layers.0", "2": f"{part}_fc"}
    states = {f"{names[key[0]]}{key[1:]}": tensor for key, tensor in weights.items()}
    encoder = {"type": "vector", "params": {"activation": "tanh"}}
    known = {
        "observation_scaler": {"type": "standard", "params": {"mean": [0] * 4, "std": [1] * 4}},
        **dict.fromkeys(("encoder_factory", "actor_encoder_factory"), encoder),
        "q_func_factory": {"type": "qr", "params": {"n_quantiles": 3}},
    }
    known["observation_scaler"]["params"]["eps"] = 1e-3
    config = {"type": kind, "params": {**known, **params}}
    settings = {"observation_shape": [4], "action_size": action_size, "config": config}
    parts = {module: states, "optim": {"optim": {"state": {}, "param_groups": [{"lr": 1e-3}]}}}
    saved = {"torch": torch_bytes(parts), "config": json.dumps(settings), "version": "2.8.1"}
    return pickle.dumps(saved)


def torchrl_files(weights, losses=("value_network_params",), folder=""):
    """File name -> bytes of a checkpoint of TorchRL with a policy and the names of its loss."""
    components = {
        "loss_module": {f"{name}.x": np.zeros(1, "f4") for name in losses},
        "policy": {f"module.0.module.{key}": array.numpy() for key, array in weights.items()},
    }
    files, records = {}, {}
    for i, (name, state) in enumerate(components.items()):
        place = f"components/{i:04d}-{name}"
        records[name] = {"adapter": "torchrl.state_dict", "path": place}
        items, about = [], {"shape": [], "_type": "TensorDict"}
        for j, (key, array) in enumerate(state.items()):
            tensor = f"tensor_{j:08d}"
            coded = {"kind": "tensor", "key": tensor, "device": "cpu"}
            items.append([{"kind": "value", "value": key}, coded])
            about[tensor] = {"shape": list(array.shape), "dtype": f"torch.{array.dtype}"}
            files[f"{place}/state/{tensor}.memmap"] = array.tobytes()
        schema = {"kind": "ordered_dict", "items": items}
        files[f"{place}/state.json"] = json.dumps(schema).encode()
        files[f"{place}/state/meta.json"] = json.dumps(about).encode()
    manifest = {"format": "torchrl.checkpoint", "format_version": 1, "components": records}
    files["manifest.json"] = json.dumps(manifest).encode()
    return {folder + name: content for name, content in files.items()}


def tree(*sizes):
    """Parameters as Flax nests them."""
    rng = np.random.default_rng(0)
    return {
        f"hidden_{i}": {
            "kernel": rng.normal(size=shape).astype("f4"),
            "bias": rng.normal(size=shape[1]).astype("f4"),
        }
        for i, shape in enumerate(itertools.pairwise(sizes))
    }


def flax_bytes(value):
    """What ``flax.serialization.to_bytes`` makes of nested dictionaries of arrays."""
    msgpack = pytest.importorskip("msgpack")

    def pack(array):
        content = array.shape, array.dtype.name, array.tobytes()
        return msgpack.ExtType(1, msgpack.packb(content, use_bin_type=True))

    return msgpack.packb(value, default=pack, use_bin_type=True, strict_types=True)


def brax_bytes(params):
    """What ``brax.io.model.save_params`` makes of statistics and parameters of a policy."""
    name = "brax.training.acme.running_statistics"
    statistics = type("RunningStatisticsState", (), {"__module__": name})
    module = types.ModuleType(name)
    module.RunningStatisticsState = statistics
    seen = statistics()
    seen.mean, seen.std = np.full(4, 0.5, "f4"), np.full(4, 2.0, "f4")
    parts = name.split(".")
    packages = {".".join(parts[:i]): types.ModuleType(".".join(parts[:i])) for i in (1, 2, 3)}
    with mock.patch.dict(sys.modules, {**packages, name: module}):
        return pickle.dumps((seen, {"params": params}, {"params": params}))


def _tensors():
    rng = np.random.default_rng(0)
    for i, (n_in, n_out) in enumerate(((4, 5), (5, 3))):
        yield 2 * i, "weight", torch.from_numpy(rng.normal(size=(n_out, n_in)).astype("f4"))
        yield 2 * i, "bias", torch.from_numpy(rng.normal(size=n_out).astype("f4"))


def _pickled_genome():
    """A genome as neat-python pickles it, without neat-python."""
    neat = pytest.importorskip("neat")
    genome = neat.DefaultGenome(1)
    for key, bias, response, activation, aggregation in GENOME["nodes"]:
        node = neat.genes.DefaultNodeGene(key)
        node.bias, node.response = bias, response
        node.activation, node.aggregation = activation, aggregation
        genome.nodes[key] = node
    for source, target, weight in GENOME["connections"]:
        gene = neat.genes.DefaultConnectionGene((source, target), innovation=1)
        gene.weight, gene.enabled = weight, True
        genome.connections[source, target] = gene
    return pickle.dumps(genome)


class Payload:
    """Touches a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)
