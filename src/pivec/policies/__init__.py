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

from pivec.policies.callables import (
    IMPORTABLE,
    CallablePolicy,
    UniformPolicy,
    as_policy,
)
from pivec.policies.distributions import (
    HEADS,
    Head,
    Options,
    OutputPolicy,
    frozen,
    make_head,
    row_by_row,
)
from pivec.policies.extractors import ImageFeatures, Kernels, find_features
from pivec.policies.formats import Beside, about, is_policy_file, register_format
from pivec.policies.formats.neat import ACTIVATIONS, Graph, Node, make_graph, save_genome
from pivec.policies.formats.onnx import first_output
from pivec.policies.formats.safetensors import read_policy, split_vector, unpack_npz
from pivec.policies.formats.sb3 import convert_sb3
from pivec.policies.forward import Layer, Normaliser
from pivec.policies.load import Arrivals, load_policies, name_policies, named_together
from pivec.policies.naming import Patterns, group_names, natural_key, rows_of_runs
from pivec.policies.networks import MaskedPolicy, NetworkPolicy, Stack
from pivec.policies.policy import (
    BatchPolicy,
    NamedPolicy,
    Policy,
    PolicyInfo,
    RecurrentPolicy,
    also_called,
    canonical_order,
    find_policy,
    fingerprint_of,
    first_names,
    is_text,
    other_names,
)
from pivec.policies.recurrent import RecurrentNetwork
from pivec.policies.saving import ENCODER, policy_bytes, read_safetensors, save_policy, tensor_bytes

__all__ = [
    "ACTIVATIONS",
    "ENCODER",
    "HEADS",
    "IMPORTABLE",
    "Arrivals",
    "BatchPolicy",
    "Beside",
    "CallablePolicy",
    "Graph",
    "Head",
    "ImageFeatures",
    "Kernels",
    "Layer",
    "MaskedPolicy",
    "NamedPolicy",
    "NetworkPolicy",
    "Node",
    "Normaliser",
    "Options",
    "OutputPolicy",
    "Patterns",
    "Policy",
    "PolicyInfo",
    "RecurrentNetwork",
    "RecurrentPolicy",
    "Stack",
    "UniformPolicy",
    "about",
    "also_called",
    "as_policy",
    "canonical_order",
    "convert_sb3",
    "find_features",
    "find_policy",
    "fingerprint_of",
    "first_names",
    "first_output",
    "frozen",
    "group_names",
    "is_policy_file",
    "is_text",
    "load_policies",
    "make_graph",
    "make_head",
    "name_policies",
    "named_together",
    "natural_key",
    "other_names",
    "policy_bytes",
    "read_policy",
    "read_safetensors",
    "register_format",
    "row_by_row",
    "rows_of_runs",
    "save_genome",
    "save_policy",
    "split_vector",
    "tensor_bytes",
    "unpack_npz",
]
