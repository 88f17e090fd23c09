"""Reads parameters of Flax's modules, without Flax: MLPs, by what a description says of them.

Flax saves numbers and their names, and neither activations nor what outputs mean: a .json beside
the file says that. Of CleanRL's scripts for JAX both are known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from pivec.errors import BadPolicyFile, UsageError
from pivec.policies.described import described_network, read_info
from pivec.policies.formats import Beside, reader
from pivec.policies.msgpack import read_msgpack
from pivec.policies.network import NetworkPolicy
from pivec.policies.paths import natural_key
from pivec.policies.tensors import Tensors

ACTOR = re.compile(r"actor|policy|(^|[._])pi([._]|$)", re.IGNORECASE)
Chain = list[str]  # names of layers of which each gives what the next one takes


@reader
def read_flax(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read what ``flax.serialization.to_bytes`` wrote of parameters or of a TrainState.

    The description beside it has ``activation`` and ``head``, and ``layers`` where the names and
    shapes of the layers do not tell which of them are the policy's.
    """
    described = beside.description() or {}
    return tree_policy(read_msgpack(data), described, beside, f"{beside.stem or 'it'}.json")


def tree_policy(
    tree: Any, description: Mapping[str, Any], beside: Beside, where: str
) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Make the policy of nested dictionaries of parameters; ``where`` they are to be described."""
    tensors = flat_tensors(tree)
    names = ", ".join(f"{name} {tensors[name].shape}" for name in list(tensors)[:12])
    if not {"activation", "head"} <= set(description):
        raise BadPolicyFile(
            "it holds parameters of Flax, and neither their activation nor what the outputs mean: "
            f'put {where} beside it, as {{"activation": "tanh", "head": "categorical"}} (it has '
            f"{names[:400]})"
        )
    if description["activation"] == "gelu":
        beside.assume("gelu is the exact one, of which Flax's nn.gelu differs by up to 0.0005")
    if "layers" not in description:
        chain = find_chain(tensors)
        # In calls within calls Flax numbers the outer one first.
        beside.assume(
            f"layers of the policy assumed {', '.join(chain)}, one after another; layers in a "
            ".json beside can say otherwise"
        )
        description = {**description, "layers": chain}
    if description["head"] == "gaussian" and "log_std" not in description:
        spreads = [name for name in tensors if name.rpartition(".")[2] in ("log_std", "logstd")]
        description = {**description, **({"log_std": spreads[0]} if len(spreads) == 1 else {})}
    policy, info = described_network({"weights": "in-out", **description}, tensors, beside)
    step = tree.get("step") if isinstance(tree, dict) else None
    if isinstance(step, np.ndarray) and step.shape == () and step.dtype.kind in "iu":
        step = int(step)
    return policy, ({"step": step} if type(step) is int else {}) | info


def flat_tensors(tree: Any) -> Tensors:
    """Name the arrays of nested dictionaries by their ways, as torch does: Dense_0.weight, .bias.

    Collections of parameters ("params") are no part of a name, states of optimisers left out.

    Examples
    --------
    >>> tree = {"params": {"Dense_0": {"kernel": np.zeros((2, 3))}}, "opt_state": {}}
    >>> {name: array.shape for name, array in flat_tensors(tree).items()}
    {'Dense_0.weight': (2, 3)}
    """
    tensors: Tensors = {}

    def walk(branch: Any, way: tuple[str, ...]) -> None:
        if isinstance(branch, np.ndarray) and way:
            name = "weight" if way[-1] == "kernel" else way[-1]
            tensors[".".join((*way[:-1], name))] = branch
        elif isinstance(branch, dict):
            for key in sorted(branch, key=natural_key):
                if key != "opt_state":
                    walk(branch[key], way if key == "params" else (*way, key))

    walk(tree, ())
    if not tensors:
        raise BadPolicyFile("it holds no parameters of Flax: expected nested names of arrays")
    return tensors


def find_chain(tensors: Tensors) -> Chain:
    """Find the layers of the policy by their names and shapes, or say that they must be named."""
    chains = _chains(tensors)
    chosen = [chain for chain in chains if ACTOR.search(chain[0])]
    if not chosen:  # a critic gives one number
        chosen = [chain for chain in chains if tensors[f"{chain[-1]}.weight"].shape[1] > 1]
    chosen = chains if len(chains) == 1 else chosen
    if len(chosen) != 1:
        layers = "; ".join(", ".join(chain) for chain in chains)
        raise UsageError(
            'layers is missing: name those of the policy in order, as ["Dense_0", "Dense_1"] '
            f"(it has {layers[:400] or 'no layers'})"
        )
    return chosen[0]


def _chains(tensors: Tensors) -> list[Chain]:
    chains: list[Chain] = []
    width, parent = -1, ""
    for name, array in tensors.items():
        layer, _, what = name.rpartition(".")
        if what != "weight" or array.ndim != 2:
            continue
        if array.shape[0] != width or layer.rpartition(".")[0] != parent:
            chains.append([])
        chains[-1].append(layer)
        width, parent = array.shape[1], layer.rpartition(".")[0]
    return chains


def read_cleanrl_jax(data: bytes, beside: Beside) -> tuple[NetworkPolicy, dict[str, Any]]:
    """Read what CleanRL's scripts for JAX save: DQN, DDPG and TD3."""
    tree = read_msgpack(data)
    description: Mapping[str, Any] = beside.description() or {}
    known: dict[str, Any]
    match tree:
        case {"params": dict()} if len(tree) == 1:
            algorithm, known = "DQN", {"head": "epsilon_greedy"}
        case {"0": {"params": dict()} as actor, "1": {"params": dict()}}:
            algorithm, known = "DDPG or TD3", {"head": "deterministic", "squash": True}
            tree = actor
        case _:
            raise BadPolicyFile(
                "this looks like one of CleanRL's scripts for JAX that is not supported: expected "
                "DQN, DDPG or TD3"
            )
    tensors = flat_tensors(tree)
    if "activation" not in description:
        beside.assume(
            f"activation assumed relu, as CleanRL's {algorithm} has it; a .json beside can say "
            "otherwise"
        )
    full = {"weights": "in-out", "activation": "relu", **known, **description}
    if "layers" not in full:
        full["layers"] = find_chain(tensors)
    policy, _ = described_network(full, tensors, beside)
    return policy, {"algorithm": algorithm, **read_info(description, policy)}
