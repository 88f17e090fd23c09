"""Pickles, whatever they are called: parameters of Brax, or genomes of neat-python."""

from __future__ import annotations

from typing import Any

from pivec.policies.formats import Beside, reader
from pivec.policies.formats.jax import read_params
from pivec.policies.formats.neat import read_pickled
from pivec.policies.policy import Policy


@reader
def read_pickle(data: bytes, beside: Beside) -> tuple[Policy, dict[str, Any]]:
    """Read a pickle by what it says it needs; nothing of it is run unless the user trusts it."""
    return (read_params if b"brax.training" in data else read_pickled)(data, beside)
