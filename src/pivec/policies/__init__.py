"""Who acts: policies, and the ways to get them from what people have.

- `policy`: the protocols `Policy` and `BatchPolicy`, and what is known about a policy
- `network`, `forward`: `NetworkPolicy`, a multilayer perceptron in NumPy
- `stack`: `Stack`, many networks that answer as one batch
- `uniform`: `UniformPolicy`, the random one
- `callables`, `imported`: functions and objects of the user as policies
- `saved`, `sb3`: file formats; `archive` and `tensors` read them without running anything
- `formats`: which extension is read by which reader
- `paths`: labels, groups and steps from file names
- `load`: from names (paths, globs, ``random``, ``module:object``) to policies

Importing this package needs NumPy only.
"""

from __future__ import annotations

from pivec.policies.callables import CallablePolicy, as_policy
from pivec.policies.formats import register_format
from pivec.policies.load import load_policies, name_policies
from pivec.policies.network import NetworkPolicy
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
    "save_policy",
]
