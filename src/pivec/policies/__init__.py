"""Who acts: policies, and the ways to get them from what people have.

- `policy`: the protocols `Policy` and `BatchPolicy`, and what is known about a policy
- `network`, `forward`: `NetworkPolicy`, a multilayer perceptron in NumPy
- `head`, `heads`, `discrete_heads`, `real_heads`: what the outputs of a network mean
- `normaliser`: how observations are normalised first
- `outputs`: `OutputPolicy`, any other function from observations to outputs
- `stack`, `stacked`: `Stack`, many networks that answer as one batch
- `uniform`: `UniformPolicy`, the random one
- `callables`, `imported`: functions and objects of the user as policies
- `saved`, `sb3` (with `sb3_settings`, `sb3_networks`, `cnn`, `vecnormalize`), `cleanrl`,
  `described`, `vectors`, `onnx_models`, `neat`, `neat_pickles`, `torch_models`: file formats
- `archive`, `pickles`, `objects`, `tensors`, `onnx_files`: read them without running anything
- `formats`: which extension is read by which reader; `beside`: what lies beside a file
- `paths`: labels, groups and steps from file names
- `load`: from names (paths, globs, ``random``, ``module:object``) to policies

Importing this package needs NumPy only.
"""

from __future__ import annotations

from pivec.policies.callables import CallablePolicy, as_policy
from pivec.policies.formats import register_format
from pivec.policies.head import Options
from pivec.policies.load import load_policies, name_policies
from pivec.policies.neat import save_genome
from pivec.policies.network import NetworkPolicy
from pivec.policies.normaliser import Normaliser
from pivec.policies.outputs import OutputPolicy
from pivec.policies.policy import BatchPolicy, NamedPolicy, Policy, PolicyInfo
from pivec.policies.saved import read_policy, save_policy
from pivec.policies.sb3 import read_sb3
from pivec.policies.stack import Stack
from pivec.policies.uniform import UniformPolicy

__all__ = [
    "BatchPolicy",
    "CallablePolicy",
    "NamedPolicy",
    "NetworkPolicy",
    "Normaliser",
    "Options",
    "OutputPolicy",
    "Policy",
    "PolicyInfo",
    "Stack",
    "UniformPolicy",
    "as_policy",
    "load_policies",
    "name_policies",
    "read_policy",
    "read_sb3",
    "register_format",
    "save_genome",
    "save_policy",
]
