"""Which of Gymnasium's own environments a policy fits, where its file does not tell."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
from gymnasium import spaces

from pivec.policies.policy import Policy

MOST = 4  # a policy that fits more than these tells nothing


def fitting_words(policies: Sequence[Policy]) -> str:
    """Say what the first policy fits by the numbers it sees and does; empty if nobody can tell."""
    bind = getattr(policies[0], "bind", None) if policies else None
    if bind is None:
        return ""
    shown = []
    for name, seen, done in _own_spaces():
        try:
            bind(seen, done)
        except Exception:  # noqa: S112  # it does not fit, or another kind of policy says so in its own way
            continue
        shown.append(f"{name} ({_counted(seen, 'value')}, {_counted(done, 'action')})")
    return f"the first fits {' and '.join(shown)}" if 0 < len(shown) <= MOST else ""


def _own_spaces() -> Iterator[tuple[str, Any, Any]]:
    """Give the spaces of Gymnasium's own environments that are installed, of the newest version."""
    newest = {
        spec.name: spec
        for spec in sorted(gymnasium.registry.values(), key=lambda spec: spec.version or 0)
        if str(spec.entry_point).startswith("gymnasium.envs.") and not spec.namespace
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for spec in newest.values():
            try:
                env = gymnasium.make(spec.id, disable_env_checker=True)
            except Exception:  # noqa: S112  # what it needs is not installed
                continue
            yield spec.id, env.observation_space, env.action_space
            env.close()


def _counted(space: Any, what: str) -> str:
    n = int(space.n) if isinstance(space, spaces.Discrete) else spaces.flatdim(space)
    return f"{n} {what}{'s' * (n > 1)}"
