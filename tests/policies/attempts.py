"""What the process that reads spoilt policy files does with one."""

from __future__ import annotations

import gymnasium
import numpy as np

from pivec.errors import PivecError
from pivec.policies import FORMATS, RecurrentPolicy, load_policies

SEEN, ACTIONS = gymnasium.spaces.Box(-9, 9, (4,)), gymnasium.spaces.Discrete(3)
ROWS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def use(folder):
    """Load the policy in a folder and let it act; errors of the latter are not the file's."""
    (path,) = [path for path in folder.glob("a.*") if path.suffix in FORMATS]
    (named,) = load_policies(path)
    policy = named.policy
    space = gymnasium.spaces.Box(-1, 1, (2,)) if _is_real(policy) else ACTIONS
    try:
        bound = policy.bind(SEEN, space)
        if isinstance(bound, RecurrentPolicy):
            bound.respond(ROWS, None, bound.initial_memory(len(ROWS)))
        else:
            bound.act(ROWS, np.random.default_rng(0))
    except PivecError as error:
        raise PivecError(f"{path}: {error}") from error


def _is_real(policy):
    head = getattr(policy, "head", None)
    return isinstance(head, str) and ("gaussian" in head or head == "deterministic")
