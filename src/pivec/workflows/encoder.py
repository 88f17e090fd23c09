"""fit_encoder: one small network that turns the images of all policies into a few numbers."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecWarning, UsageError
from pivec.files import atomic_write
from pivec.options import EncoderOptions
from pivec.parallel import using
from pivec.policies import NamedPolicy, name_policies
from pivec.rollouts import Environment, encoder_bytes, environment_of, play_policies
from pivec.terminal import Progress
from pivec.workflows.image_networks import Images, learned_features, random_features

FEWEST = 20  # different images that something can be learned from
POOR = 0.5  # share of what varies, below which an encoder has missed too much
METHODS = {"autoencoder": learned_features, "random": random_features}


@dataclass(frozen=True)
class EncoderFit:
    """An encoder in its file, and how good it is."""

    path: Path
    method: str
    shape: tuple[int, int, int]  # of an image: channels, height, width
    size: int  # numbers that an image becomes
    frames: int  # images it was made of
    policies: int
    explained: float  # share of what varies between images that it keeps; of images held out,
    # where it was learned


def fit_encoder(
    env: str | Environment | Callable[[], Any] | None,
    policies: Any,
    out: str | os.PathLike[str] = "encoder.safetensors",
    *,
    progress: bool = False,
    **options: Any,
) -> EncoderFit:
    """Make one encoder of the images that all policies see, for ``features="encoder.safetensors"``.

    The policies play, and a bounded random sample of the different images they see is kept. Of
    these an encoder is learned: a small convolutional autoencoder (with torch; the encoder then
    runs without), or random convolutions and the directions in which what they give varies most.

    Parameters
    ----------
    env, policies
        As of `pivec.collect`. Observations must be images: channels first or last.
    out : path
        The file to write, which ends in ``.safetensors``.
    progress : bool
        Draw progress bars.
    **options
        Fields of `pivec.options.EncoderOptions`: ``method``, ``size``, ``frames``,
        ``epochs``, and how the policies act, as of `pivec.collect`.

    Returns
    -------
    EncoderFit

    Examples
    --------
    >>> import gymnasium, numpy as np, tempfile, pathlib
    >>> from gymnasium.wrappers import TransformObservation
    >>> def pictures():
    ...     space = gymnasium.spaces.Box(0, 255, (1, 8, 8), np.uint8)
    ...     draw = lambda x: np.full((1, 8, 8), np.uint8(128 + 500 * x[2]))
    ...     return TransformObservation(gymnasium.make("CartPole-v1"), draw, space)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "encoder.safetensors"
    >>> fit = fit_encoder(pictures, "random", path, method="random", size=1)
    >>> fit.shape, fit.size, fit.explained > 0.9
    ((1, 8, 8), 1, True)
    """
    chosen = EncoderOptions(**options)
    path = Path(out)
    if path.suffix != ".safetensors":
        raise UsageError(f"an encoder is a .safetensors file, but it is to be {path}")
    allowed = chosen.trust, chosen.without_normaliser, chosen.skip_unreadable
    named = name_policies(policies, *allowed)
    world = environment_of(env, [n.info for n in named], chosen, [n.policy for n in named])
    images = Images.of(sample_frames(world, named, chosen, progress))
    if len(images.frames) < FEWEST:
        raise UsageError(
            f"the policies saw only {len(images.frames)} different images, too few to learn from: "
            "let them play more --episodes"
        )
    features, explained = METHODS[chosen.method](images, chosen, progress)
    if explained < POOR:
        warnings.warn(
            f"the encoder keeps only {explained:.0%} of what varies between images: more --frames, "
            "--epochs or a larger --size may help",
            PivecWarning,
            stacklevel=2,
        )
    about = {"method": chosen.method, "frames": len(images.frames), "explained": explained}
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(encoder_bytes(features, about))
    made = path, chosen.method, images.shape, chosen.size, len(images.frames), len(named)
    return EncoderFit(*made, explained)


def sample_frames(
    world: Environment, policies: Sequence[NamedPolicy], options: EncoderOptions, progress: bool
) -> NDArray[Any]:
    """Let policies play; give at most ``options.frames`` of the different images they see."""
    sample = FrameSample(options.frames, options.seed)
    playing = replace(options, features=sample, backend="gymnasium")

    def keep(_: int, frames: Mapping[bytes, NDArray[Any]]) -> None:
        sample.merge(frames)
        bar.advance()

    bar = Progress("playing", len(policies), unit="policies", show=progress)
    with using(options.engine, options.jobs), bar:
        play_policies(world, policies, playing, keep, bar, pack=sample.pack)
    return sample.frames()


class FrameSample:
    """Features that keep a random sample of the images they are shown, all of which differ.

    Kept are those whose digests, with the seed as key, are least. So it depends neither on the
    order in which images come nor on who sees which of them, and samples can be joined.

    Examples
    --------
    >>> import numpy as np
    >>> images = np.arange(100, dtype=np.uint8).reshape(100, 1, 1, 1)
    >>> first, second = FrameSample(5, 0), FrameSample(5, 0)
    >>> _ = first(images), second(images[::-1][:60]), second(images)
    >>> np.array_equal(first.frames(), second.frames()), len(first.frames())
    (True, 5)
    """

    n_inputs = 1  # observations alone

    def __init__(self, most: int, seed: int) -> None:
        self._most, self._key = most, seed.to_bytes(16, "little")
        self._kept: dict[bytes, NDArray[Any]] = {}
        self._bound = b"\xff" * 9  # above all digests

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        """Keep some of a batch; as rows of states they are nothing."""
        batch = np.asarray(observations) if not isinstance(observations, dict | tuple) else None
        if batch is None or batch.ndim != 4:
            shape = "several parts" if batch is None else f"the shape {batch.shape[1:]}"
            raise UsageError(
                f"an encoder is made of images with three axes (height, width, channels), but the "
                f"observations have {shape}: choose others with --wrapper"
            )
        new: dict[bytes, NDArray[Any]] = {}
        for image in batch:
            digest = hashlib.blake2b(image.tobytes(), digest_size=8, key=self._key).digest()
            if digest < self._bound and digest not in self._kept:
                new[digest] = image.copy()
        if new:
            self.merge(new)
        return np.zeros((len(batch), 1), np.float32)

    def merge(self, frames: Mapping[bytes, NDArray[Any]]) -> None:
        """Add images by their digests."""
        self._kept |= frames
        if len(self._kept) > self._most:
            least = sorted(self._kept)[: self._most]
            self._kept, self._bound = {key: self._kept[key] for key in least}, least[-1]

    def pack(self, _: Any) -> dict[bytes, NDArray[Any]]:
        """Give what was kept since the last time."""
        kept, self._kept = self._kept, {}
        return kept

    def frames(self) -> NDArray[Any]:
        """Give the images in the order of their digests, which is a random one."""
        return np.stack([self._kept[key] for key in sorted(self._kept)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}
