"""Who acts: policies, and the ways to get them from what people have.

- `policy`: the protocols `Policy`, `BatchPolicy` and `RecurrentPolicy`, and what is known about a
  policy
- `network`: `NetworkPolicy`, a multilayer perceptron, and `Stack`, many that answer as one batch;
  `forward`, `kernels`: their arithmetic
- `head`, `heads`: what the outputs of a network mean
- `normaliser`: how observations are normalised first
- `lstm`: `RecurrentNetwork`, with a memory
- `outputs`: `OutputPolicy`, any other function from observations to outputs
- `uniform`: `UniformPolicy`, the random one
- `callables`: functions and objects of the user as policies
- `cnn`, `extractors`: networks that see images and dictionaries; `masked`: those that are told
  which actions are allowed
- `saved`, `sb3` (with `sb3_networks`, `sb3_run`), `cleanrl`, `layouts` (other libraries of torch),
  `rllib`, `flax` and `brax` (with `msgpack`, `pickled`), `orbax`, `described`, `vectors`,
  `onnx_models`, `neat_files` (with `neat`), `torch_models`: file formats; `trusted`: what only
  Stable-Baselines3 itself reads; `unreadable`: what nobody reads, named for what it is
- `pickles`, `tensors`: read them without running anything
- `formats`: which extension is read by which reader, and what a reader gets
- `paths`: labels, groups and steps from file names; `grouping`: which runs make a group
- `load`: from names (paths, globs, ``random``, ``module:object``) to policies; `files`: those of
  files; `copies`: several names of a policy

Importing this package needs NumPy only.
"""

from __future__ import annotations

from pivec.policies.callables import CallablePolicy, as_policy
from pivec.policies.described import read_policy
from pivec.policies.formats import Beside, register_format
from pivec.policies.head import Options
from pivec.policies.load import load_policies, name_policies
from pivec.policies.lstm import RecurrentNetwork
from pivec.policies.neat_files import save_genome
from pivec.policies.network import NetworkPolicy, Stack
from pivec.policies.normaliser import Normaliser
from pivec.policies.outputs import OutputPolicy
from pivec.policies.policy import BatchPolicy, NamedPolicy, Policy, PolicyInfo, RecurrentPolicy
from pivec.policies.saved import save_policy
from pivec.policies.sb3 import read_sb3
from pivec.policies.uniform import UniformPolicy

__all__ = [
    "BatchPolicy",
    "Beside",
    "CallablePolicy",
    "NamedPolicy",
    "NetworkPolicy",
    "Normaliser",
    "Options",
    "OutputPolicy",
    "Policy",
    "PolicyInfo",
    "RecurrentNetwork",
    "RecurrentPolicy",
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
