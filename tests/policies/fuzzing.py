"""Policy files of every format, and ways to spoil them."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import zipfile

import gymnasium
import numpy as np
import pytest
import safetensors.numpy

from pivec.errors import PivecError
from pivec.policies import NetworkPolicy, load_policies
from pivec.policies.saved import save_policy

torch = pytest.importorskip("torch")

from onnx_graphs import graph  # noqa: E402
from sb3_models import Still, model, saved, spaces  # noqa: E402
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize  # noqa: E402

SEEN, ACTIONS = spaces.Box(-9, 9, (4,)), spaces.Discrete(3)
ROWS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
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


def archive(members, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
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
    statistics = VecNormalize(DummyVecEnv([lambda: env]))
    statistics.reset()
    weights = {f"actor.{i}.{part}": tensor for i, part, tensor in _tensors()}
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
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
        "pth": {"a.pth": torch_bytes((weights, {})), "a.json": layers},
        "pt": {"a.pt": torch_bytes(weights)},
        "torchscript": {"a.pt": script.getvalue()},
        "export": {"a.pt2": program.getvalue()},
        "onnx": {"a.onnx": graph(), "a.json": b'{"head": "epsilon_greedy", "epsilon": 0.1}'},
        "onnx inside": {"a.onnx": graph(description={"head": "categorical"})},
        "neat": {"a.neat": json.dumps(GENOME).encode()},
        "pickled neat": {"a.pkl": _pickled_genome(), "a.cfg": CONFIG},
    }


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


def spoil(data: bytes, rng: np.random.Generator, others: list[bytes]) -> bytes:
    """The same content with some damage."""
    content = bytearray(data or b"x")
    match int(rng.integers(9)):
        case 0:
            return bytes(content[: rng.integers(len(content))])
        case 1 | 2:
            for _ in range(int(rng.integers(1, 4))):
                content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
        case 3:
            at = int(rng.integers(len(content)))
            content[at : at + int(rng.integers(1, 9))] = rng.bytes(int(rng.integers(9)))
        case 4:
            at, size = int(rng.integers(len(content))), int(rng.integers(1, 9))
            extreme = rng.choice([b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7])
            content[at : at + size] = bytes(extreme)[:size]
        case 5:
            other = others[rng.integers(len(others))]
            cut = int(rng.integers(len(content)))
            return bytes(content[:cut]) + other[int(rng.integers(len(other) + 1)) :]
        case 6:
            first, second = sorted(rng.integers(len(content), size=2).tolist())
            content[second:second] = content[first:second][:2000]
        case _:
            if data.startswith(b"PK"):
                return _spoil_inside(data, rng, others)
            if data[:1] in b"{[":
                return _spoil_json(data, rng)
            content[rng.integers(len(content))] = rng.integers(256)
    return bytes(content)


def _spoil_inside(data, rng, others):
    """Damage behind right checksums: a member is spoilt and the archive packed again."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        members = {name: file.read(name) for name in file.namelist()}
    pickles = [name for name in members if name.endswith((".pkl", ".pth", "data", ".json"))]
    chosen = str(rng.choice(pickles if pickles and rng.random() < 0.7 else list(members)))
    members[chosen] = spoil(members[chosen], rng, others)
    if rng.random() < 0.1:
        members[str(rng.choice(["../../escaped", "/escaped", "a/../../escaped"]))] = b"x"
    return archive(members)


def _spoil_json(data, rng):
    """Valid JSON with a value that nobody expects."""
    odd = [None, True, -1, 0, 10**30, 1e308, float("nan"), "", "x", [], {}, [[]], ["a"], 2**31]
    try:
        value = json.loads(data)
    except ValueError:
        return data[::-1]
    at = value
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not keys:
            break
        key = keys[rng.integers(len(keys))]
        if isinstance(at[key], dict | list) and at[key] and rng.random() < 0.7:
            at = at[key]
            continue
        if isinstance(at, dict) and rng.random() < 0.2:
            del at[key]
        else:
            at[key] = odd[rng.integers(len(odd))]
        break
    return json.dumps(value).encode()


def attempt(folder, files) -> str:
    """Load and use the policy; tell how that ended. Anything but a PivecError is raised."""
    for name, content in files.items():
        (folder / name).write_bytes(content)
    path = folder / next(iter(files))
    try:
        (named,) = load_policies(path)
        policy = named.policy
        space = gymnasium.spaces.Box(-1, 1, (2,)) if _is_real(policy) else ACTIONS
        bound = policy.bind(SEEN, space)
        bound.act(ROWS, np.random.default_rng(0))
    except PivecError:
        return "refused"
    finally:
        for name in files:
            (folder / name).unlink()
    return "read"


def _is_real(policy):
    head = getattr(policy, "head", None)
    return isinstance(head, str) and ("gaussian" in head or head == "deterministic")


class Payload:
    """Touches a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def bomb(member: str, size: int = 40_000_000) -> bytes:
    """A small zip archive whose member unpacks to ``size`` zeros."""
    return archive({member: bytes(size)}, zipfile.ZIP_DEFLATED)


def liar(member: str) -> bytes:
    """A zip archive whose directory claims a small member that unpacks to a large one."""
    size = 20_000_000
    data = bytearray(archive({member: bytes(size)}, zipfile.ZIP_DEFLATED))
    true, false = struct.pack("<L", size), struct.pack("<L", 100)
    while true in data:
        at = data.index(true)
        data[at : at + 4] = false
    return bytes(data)
