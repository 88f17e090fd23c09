"""Genomes that neat-python users have pickled, with the configuration that lies beside them.

A pickled DefaultGenome is read as data, without running anything. Pickles of other classes can
only be unpickled, which runs whatever is in them, and need the user's trust.
"""

from __future__ import annotations

import configparser
import pickle  # only for files that the user trusts
import re
from collections.abc import Mapping
from typing import Any

from pivec.errors import BadPolicyFile
from pivec.policies.beside import Beside
from pivec.policies.described import COMMON, checked, read_info, refuse_unknown
from pivec.policies.neat import make_policy
from pivec.policies.objects import Object, read_objects
from pivec.policies.outputs import OutputPolicy

MODULES = ("neat", "collections", "copyreg")
SUFFIXES = r"\.(cfg|ini|config|txt)"
ATTRIBUTES = ("bias", "response", "activation", "aggregation")


def read_pickled_genome(
    data: bytes, name: str = "the file", beside: Beside | None = None
) -> tuple[OutputPolicy, dict[str, Any]]:
    """Read a ``.pkl`` file with a genome of neat-python.

    The configuration beside it has the same name and ends in .cfg, .ini, .config or .txt, or is
    the only file in the folder whose name has "config" in it. A .json of the same name may tell
    the head.
    """
    beside = beside or Beside()
    genome = _genome(data, name, beside)
    inputs, outputs = _read_config(name, beside)
    description = beside.description(name) or {}

    def build() -> OutputPolicy:
        refuse_unknown(description, COMMON)
        return make_policy({**_lists(genome), "inputs": inputs, "outputs": outputs}, description)

    info: dict[str, Any] = {"algorithm": "NEAT"}
    fitness = genome.get("fitness")
    if isinstance(fitness, float | int) and not isinstance(fitness, bool):
        info["fitness"] = float(fitness)
    return checked(build, name), {**info, **read_info(description, name)}


def _genome(data: bytes, name: str, beside: Beside) -> Mapping[str, Any]:
    """Attributes of the pickled genome."""
    try:
        saved = read_objects(data, name, MODULES)
    except BadPolicyFile as error:
        if not beside.trust:
            raise BadPolicyFile(
                f"{error} Expected a pickled genome of neat-python's own class; if it is a genome "
                "of another class and you trust where it comes from, allow with --trust (in "
                "Python: trust=True) what unpickling runs."
            ) from error
        saved = _unpickle(data, name)
    state: Mapping[str, Any] = (
        saved.state if isinstance(saved, Object) else getattr(saved, "__dict__", {})
    )
    if not isinstance(state.get("nodes"), dict) or not isinstance(state.get("connections"), dict):
        raise BadPolicyFile(
            f"{name} holds no genome of neat-python: expected one with nodes and connections."
        )
    return state


def _unpickle(data: bytes, name: str) -> Any:
    try:
        return pickle.loads(data)  # noqa: S301 - the user said --trust
    except Exception as error:  # whatever the code in the pickle raises
        raise BadPolicyFile(
            f"{name} cannot be unpickled ({type(error).__name__}: {error})."
        ) from error


def _lists(genome: Mapping[str, Any]) -> dict[str, Any]:
    nodes, connections = [], []
    for key, gene in genome["nodes"].items():
        state = _state(gene)
        nodes.append([key, *(state.get(attribute) for attribute in ATTRIBUTES)])
    for pair, gene in genome["connections"].items():
        state = _state(gene)
        if isinstance(pair, tuple) and len(pair) == 2 and state.get("enabled"):
            connections.append([*pair, state.get("weight")])
    return {"nodes": nodes, "connections": connections}


def _state(gene: Any) -> Mapping[str, Any]:
    state = gene.state if isinstance(gene, Object) else getattr(gene, "__dict__", None)
    if not isinstance(state, dict):
        raise BadPolicyFile("A gene of the genome has no attributes.")
    return state


def _read_config(name: str, beside: Beside) -> tuple[list[int], list[int]]:
    """Keys of inputs and outputs, as neat-python numbers them."""
    own = beside.names(re.escape(beside.stem) + SUFFIXES)
    shared = beside.names(r"(?i)(?!\.)[^/]*config[^/]*")
    if not own and len(shared) != 1:
        raise BadPolicyFile(
            f"{name} needs the configuration of its genome: expected {beside.stem}.cfg beside it, "
            f"or one file with 'config' in its name, but found {len(shared)}."
        )
    file = (own or shared)[0]
    what = f"{file} beside {name}"
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string((beside.read(file) or b"").decode("utf-8"))
        section = parser["DefaultGenome"]
        n_inputs, n_outputs = section.getint("num_inputs"), section.getint("num_outputs")
        feed_forward = section.getboolean("feed_forward", fallback=True)
    except (configparser.Error, ValueError, KeyError) as error:
        detail = " ".join(str(error).split())[:200]
        raise BadPolicyFile(f"{what} is no configuration of neat-python ({detail}).") from error
    if not feed_forward:
        raise BadPolicyFile(
            f"{what} allows recurrent networks, which have a memory: not supported."
        )
    if n_inputs is None or n_outputs is None or not 0 < n_inputs <= 100_000 > n_outputs > 0:
        raise BadPolicyFile(f"{what} does not tell the numbers of inputs and outputs.")
    return [-1 - i for i in range(n_inputs)], list(range(n_outputs))
