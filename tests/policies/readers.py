"""Readers of policy files for content in memory, found by extension."""

from __future__ import annotations

from functools import partial
from importlib import import_module

from pivec.policies import FORMATS


def read(suffix, data, *arguments):
    """Read bytes as a file of this kind: policy and metadata."""
    module, _, function = FORMATS[suffix].partition(":")
    return getattr(import_module(module), function)(data, *arguments)


read_cleanrl = partial(read, ".pth")
read_flax = partial(read, ".msgpack")
read_genome = partial(read, ".neat")
read_onnx = partial(read, ".onnx")
read_sb3 = partial(read, ".zip")
