"""The paper's own numbers, read from published.toml."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def published() -> dict[str, Any]:
    """Return the tables of published.toml by name.

    Examples
    --------
    >>> published()["imitation"]["correlation"]
    [-0.465, 0.297]
    """
    text = (files("pivec.paper") / "published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def scaled_return(environment: str, returns: Any) -> Any:
    """Scale returns to 0 for the least and 1 for the most, by the paper's table.

    Examples
    --------
    >>> scaled_return("CartPole-v1", 250.0)
    0.5
    """
    low, high = published()["reward_range"][environment]
    return (returns - low) / (high - low)
