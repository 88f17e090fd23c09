"""Scales: how much of everything. A scale changes counts only, never what is done."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from pivec.errors import UsageError

SCALES = ("smoke", "small", "paper")


@cache
def _tables() -> dict[str, Any]:
    text = (files("pivec.paper") / "scales.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def check_scale(scale: str) -> str:
    """Return the scale if there is one of that name."""
    if scale not in SCALES:
        raise UsageError(f"the scale must be one of {', '.join(SCALES)}, but is {scale!r}")
    return scale


def kept_checkpoints(scale: str) -> int:
    """Tell how many checkpoints are kept of a run of PPO or A2C with the paper's settings.

    Examples
    --------
    >>> kept_checkpoints("paper")
    500
    """
    return int(_tables()[check_scale(scale)]["checkpoints"])


def scaled_settings(scale: str, algorithm: str, environment: str) -> dict[str, Any]:
    """Return what a scale changes of the settings of an algorithm in an environment.

    Examples
    --------
    >>> scaled_settings("small", "ppo", "LunarLander-v3")
    {'steps': 500000, 'n_steps': 256}
    >>> scaled_settings("paper", "ppo", "LunarLander-v3")
    {}
    """
    table = _tables()[check_scale(scale)].get(algorithm, {})
    return {**table.get("general", {}), **table.get(environment, {})}
