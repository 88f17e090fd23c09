"""What stands beside the code of recipes: the paper's own numbers, scales, and notes."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def toml(name: str) -> dict[str, Any]:
    """Read a file of settings that stands beside the recipes."""
    return tomllib.loads((files("reproduction") / f"{name}.toml").read_text(encoding="utf-8"))


def notes(recipe: str, **numbers: Any) -> list[str]:
    """Return the paragraphs of a recipe's notes.md, with numbers where it names them in braces."""
    text = (files("reproduction") / "notes" / f"{recipe}.md").read_text(encoding="utf-8")
    return [" ".join(part.split()) for part in text.format(**numbers).split("\n\n")]


def scaled_return(environment: str, returns: Any) -> Any:
    """Scale returns to 0 for the least and 1 for the most, by the paper's table."""
    low, high = toml("published")["reward_range"][environment]
    return (returns - low) / (high - low)


def short(environment: str) -> str:
    """Leave the version out."""
    return environment.rpartition("-v")[0]
