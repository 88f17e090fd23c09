"""Policies: the protocol, networks in NumPy, and loading them from files and Python objects.

- `policy`: the protocols `Policy`, `BatchPolicy` and `RecurrentPolicy`; `PolicyInfo`
- `load`: from names (paths, globs, ``random``, ``module:object``) to labelled policies; new
  checkpoints while training runs; groups of training runs
- `callables`: functions and objects as policies; `UniformPolicy`, the random one
- `networks`: `NetworkPolicy` (perceptrons), `Stack` (many at once), `MaskedPolicy`,
  `RecurrentNetwork` (LSTM) and `OutputPolicy` (any model)
- `distributions`: the table of action distributions
- `extractors`: feature extractors before a network, as for images and dictionaries
- `forward`, `kernels`: the arithmetic of networks; only `kernels` imports Numba
- `tensors`: torch files and pickles, read without running anything
- `formats`: the registry of file formats; one module per library

Importing this package needs neither torch nor Numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pivec import lazy_attributes
from pivec.policies.callables import (
    IMPORTABLE,
    CallablePolicy,
    UniformPolicy,
    as_policy,
    import_here,
    import_object,
    user_code,
)
from pivec.policies.distributions import (
    DISTRIBUTIONS,
    ActionDistribution,
    Options,
    frozen,
    make_distribution,
)
from pivec.policies.formats import (
    FORMATS,
    CheckpointFiles,
    about,
    is_policy_file,
    register_format,
)
from pivec.policies.formats.described import (
    ENCODER,
    policy_bytes,
    read_policy,
    read_safetensors,
    save_policy,
    split_vector,
    tensor_bytes,
    unpack_npz,
)
from pivec.policies.forward import ACTIVATIONS, Layer, Normaliser
from pivec.policies.load import (
    CheckpointWatcher,
    Patterns,
    group_names,
    load_policies,
    name_policies,
    named_together,
    read_paths,
    rows_of_runs,
)
from pivec.policies.networks import (
    MaskedPolicy,
    NetworkPolicy,
    OutputPolicy,
    RecurrentNetwork,
    Stack,
    row_by_row,
)
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
    natural_key,
    other_names,
)

if TYPE_CHECKING:
    from pivec.policies.extractors import ImageFeatures, Kernels, find_features
    from pivec.policies.formats.neat import (
        NEAT_ACTIVATIONS,
        NEAT_AGGREGATIONS,
        Graph,
        Node,
        make_graph,
        save_genome,
    )
    from pivec.policies.formats.onnx import first_output
    from pivec.policies.formats.sb3 import convert_sb3

__all__ = [
    "ACTIVATIONS",
    "DISTRIBUTIONS",
    "ENCODER",
    "FORMATS",
    "IMPORTABLE",
    "NEAT_ACTIVATIONS",
    "NEAT_AGGREGATIONS",
    "ActionDistribution",
    "BatchPolicy",
    "CallablePolicy",
    "CheckpointFiles",
    "CheckpointWatcher",
    "Graph",
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
    "import_here",
    "import_object",
    "is_policy_file",
    "is_text",
    "load_policies",
    "make_distribution",
    "make_graph",
    "name_policies",
    "named_together",
    "natural_key",
    "other_names",
    "policy_bytes",
    "read_paths",
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
    "user_code",
]

# Readers are imported when a file of their format is read, or a name of theirs is used.
_LAZY = {
    **dict.fromkeys(("ImageFeatures", "Kernels", "find_features"), "pivec.policies.extractors"),
    **dict.fromkeys(("Graph", "Node", "make_graph", "save_genome"), "pivec.policies.formats.neat"),
    **dict.fromkeys(("NEAT_ACTIVATIONS", "NEAT_AGGREGATIONS"), "pivec.policies.formats.neat"),
    "first_output": "pivec.policies.formats.onnx",
    "convert_sb3": "pivec.policies.formats.sb3",
}
__getattr__ = lazy_attributes(__name__, _LAZY)
