"""torch and its devices, asked for where they are needed; importing this loads no torch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from pivec.errors import MissingExtra, UsageError

if TYPE_CHECKING:
    import torch


def require_torch(what: str) -> None:
    """Raise `MissingExtra` if torch, which ``what`` needs, is not installed."""
    if find_spec("torch") is None:
        raise MissingExtra(what, "torch")


@contextmanager
def single_threaded_torch() -> Iterator[None]:
    """Let every operation of torch use one thread, so that workers side by side share the cores."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def card_allocations() -> int:
    """Count how often this process got memory of graphics cards.

    More after some work than before tells that a card had a part in it.

    Examples
    --------
    >>> card_allocations() >= 0
    True
    """
    torch = sys.modules.get("torch")  # who has not loaded it has used none
    if torch is None or not torch.cuda.is_initialized():
        return 0
    cards = range(torch.cuda.device_count())
    return sum(torch.cuda.memory_stats(card)["allocation.all.allocated"] for card in cards)


def torch_device(name: str) -> torch.device:
    """Give the device called "cpu" or "cuda"; "auto" is the graphics card where there is one.

    Examples
    --------
    >>> torch_device("cpu").type
    'cpu'
    """
    require_torch(f'device="{name}"')
    import torch

    there = torch.cuda.is_available()
    if name == "auto":
        return torch.device("cuda" if there else "cpu")
    if name not in ("cpu", "cuda"):
        raise UsageError(f'device must be "cpu", "cuda" or "auto", but is {name!r}')
    if name == "cuda" and not there:
        raise UsageError(
            'device="cuda" needs a graphics card that torch can use, but there is none; '
            'use device="cpu"'
        )
    return torch.device(name)
