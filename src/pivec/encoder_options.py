"""What users may choose of encoders of images, as `pivec.options` says it of everything else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pivec.arguments import Count, Range
from pivec.errors import UsageError
from pivec.options import IN_PYTHON, CollectOptions, Features


@dataclass(frozen=True)
class EncoderOptions(CollectOptions):
    """How an encoder of images is made, and how the policies act that see them.

    Attributes
    ----------
    method : str
        ``autoencoder``: convolutions that are learned, with torch; ``random``: convolutions that
        are drawn, and the directions in which what they give varies most.
    size : int
        Numbers that an image becomes.
    frames : int
        Different images that are kept to learn from, a random sample of all: memory and time.
    epochs : int
        Passes over them at most; learning ends earlier when images held out gain no more.
    """

    method: str = "autoencoder"
    size: Count = 32
    frames: Count = 4000
    epochs: Count = 40
    episodes: Annotated[int, Range(1, most=10**9)] = 10
    features: Features | str | None = field(default=None, metadata=IN_PYTHON)
    actions: bool = field(default=False, metadata=IN_PYTHON)
    keep_policies: bool = field(default=False, metadata=IN_PYTHON)
    max_states_per_policy: Annotated[int, Range(2)] | None = field(default=None, metadata=IN_PYTHON)
    backend: str = field(default="auto", metadata=IN_PYTHON)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ("autoencoder", "random"):
            raise UsageError(f"method must be autoencoder or random, but is {self.method!r}")
