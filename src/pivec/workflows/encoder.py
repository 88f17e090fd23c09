"""fit_encoder: a small network that encodes the images of all policies in a few features."""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from pivec.errors import PivecWarning, UsageError
from pivec.files import atomic_write
from pivec.options import EncoderKeywords, EncoderOptions, takes_options
from pivec.parallel import require_torch, single_threaded_torch, using
from pivec.policies import ImageFeatures, find_features, frozen, name_policies
from pivec.rollouts import Environment, encoder_bytes, environment_of, play_policies
from pivec.terminal import Progress

FEWEST = 20  # different images that something can be learned from
POOR = 0.5  # share of what varies, below which an encoder has missed too much

KERNEL = (4, 2)  # size and stride of every convolution, which halves an image,
SMALLEST = 8  # as long as it has so many rows and columns
FILTERS = (16, 32, 32, 32, 32, 32, 32, 32)
BATCH, RATE = 64, 1e-3
PATIENCE = 4, 200  # epochs and updates without a gain
HELD_OUT = 10  # every tenth image


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


@takes_options(EncoderOptions)
def fit_encoder(
    env: str | Environment | Callable[[], Any] | None,
    policies: Any,
    out: str | os.PathLike[str] = "encoder.safetensors",
    *,
    progress: bool = False,
    **options: Unpack[EncoderKeywords],
) -> EncoderFit:
    """Fit an encoder to the images that policies see, for ``features="encoder.safetensors"``.

    The encoder is fitted on a random sample of the distinct images that the policies see. It is a
    small convolutional autoencoder (torch is needed for fitting only), or random convolutions
    followed by principal components.

    Parameters
    ----------
    env, policies
        As for `pivec.collect`. Observations must be images, with channels first or last.
    out : path
        The file to write, which ends in ``.safetensors``.
    progress : bool
        Show progress bars.

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
        raise UsageError(f"an encoder must be a .safetensors file, but out is {path}")
    allowed = chosen.trust, chosen.without_normaliser, chosen.skip_unreadable
    named = name_policies(policies, *allowed)
    world = environment_of(env, [n.info for n in named], chosen, [n.policy for n in named])
    sample = FrameSample(chosen.frames, chosen.seed)
    playing = replace(chosen, features=sample, backend="gymnasium")

    def keep(_: int, frames: Mapping[bytes, NDArray[Any]]) -> None:
        sample.merge(frames)
        bar.advance()

    bar = Progress("playing", len(named), unit="policies", show=progress)
    with using(chosen.engine, chosen.jobs), bar:
        play_policies(world, named, playing, keep, bar, pack=sample.pack)
    images = Images.of(sample.frames())
    n_frames = len(images.frames)
    if n_frames < FEWEST:
        raise UsageError(
            f"the policies saw only {n_frames} different images, too few to learn from: play more "
            "--episodes"
        )
    if chosen.method == "random":
        features, explained = random_features(images, chosen)
    else:
        features, explained = learned_features(images, chosen, progress)
    if explained < POOR:
        warnings.warn(
            f"the encoder explains only {explained:.0%} of the variance between images: more "
            "--frames, --epochs or a larger --size may help",
            PivecWarning,
            stacklevel=2,
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    about = {"method": chosen.method, "frames": n_frames, "explained": explained}
    with atomic_write(path) as file:
        file.write(encoder_bytes(features, about))
    shape = images.shape
    return EncoderFit(path, chosen.method, shape, chosen.size, n_frames, len(named), explained)


class FrameSample:
    """Features that keep a random sample of the distinct images they are given.

    Kept are those whose digests, with the seed as key, are least. So the sample depends neither on
    the order in which images come nor on which policy sees them, and samples can be merged.
    """

    n_inputs = 1  # observations alone

    def __init__(self, most: int, seed: int) -> None:
        self._most, self._key = most, seed.to_bytes(16, "little")
        self._kept: dict[bytes, NDArray[Any]] = {}
        self._bound = b"\xff" * 9  # above all digests

    def __call__(self, observations: Any) -> NDArray[np.float32]:
        """Keep some of a batch; the rows of states are not used."""
        batch = np.asarray(observations) if not isinstance(observations, dict | tuple) else None
        if batch is None or batch.ndim != 4:
            shape = "several parts" if batch is None else f"the shape {batch.shape[1:]}"
            raise UsageError(
                f"an encoder is made of images with three axes (height, width, channels), but the "
                f"observations have {shape}: choose others with --wrappers"
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
        """Return what was kept since the last time."""
        kept, self._kept = self._kept, {}
        return kept

    def frames(self) -> NDArray[Any]:
        """Return the images in the order of their digests, which is a random one."""
        return np.stack([self._kept[key] for key in sorted(self._kept)])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}


@dataclass(frozen=True)
class Images:
    """Images with the channels first, and what they are divided by."""

    frames: NDArray[Any]
    scale: float

    @classmethod
    def of(cls, frames: NDArray[Any]) -> Images:
        """Take images (n, ...) with the channels first or last."""
        first = frames.shape[1] <= frames.shape[-1]  # there are fewer channels than pixels
        turned = frames if first else np.moveaxis(frames, -1, 1)
        return cls(np.ascontiguousarray(turned), 255.0 if frames.dtype == np.uint8 else 1.0)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        _, channels, height, width = self.frames.shape
        return channels, height, width

    def layers(self, size: int, most: int | None = None) -> list[tuple[int, int, int]]:
        """The shapes before, between and after convolutions; ``size`` features need as many."""
        shapes, (kernel, stride) = [self.shape], KERNEL
        while min(shapes[-1][1:]) >= SMALLEST and len(shapes) <= len(FILTERS):
            height, width = ((side - kernel) // stride + 1 for side in shapes[-1][1:])
            shapes.append((FILTERS[len(shapes) - 1], height, width))
        most = min(int(np.prod(shapes[-1])), most or size)
        if size > most:
            raise UsageError(
                f"an encoder of these images can give at most {most} numbers, but --size is {size}"
            )
        return shapes


def random_features(images: Images, options: EncoderOptions) -> tuple[ImageFeatures, float]:
    """Random convolutions, and the directions in which their results vary most between images.

    Returns the features, and the share of the variance in these directions.
    """
    shapes = images.layers(options.size, len(images.frames) - 1)
    rng = np.random.default_rng([options.seed, 0xE4C])
    layers = []
    for (channels, _, _), (filters, _, _) in pairwise(shapes):
        inputs = channels * KERNEL[0] ** 2
        weights = rng.standard_normal((inputs, filters)) * np.sqrt(2 / inputs)  # He et al. 2015
        layers.append((frozen(weights), frozen(np.zeros(filters))))
    width = int(np.prod(shapes[-1]))

    def with_linear(weights: NDArray[Any], biases: NDArray[Any]) -> ImageFeatures:
        linear, kernels = (frozen(weights), frozen(biases)), (KERNEL,) * len(layers)
        return ImageFeatures(images.shape, kernels, tuple(layers), linear, images.scale, "identity")

    rows = with_linear(np.eye(width), np.zeros(width)).outputs(images.frames)
    mean = rows.mean(axis=0, dtype=np.float64)
    variances, axes = np.linalg.eigh(
        np.cov(rows.astype(np.float64), rowvar=False).reshape(width, -1)
    )
    axes = axes[:, ::-1][:, : options.size]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(options.size)])  # one of two signs
    kept = float(variances[::-1][: options.size].sum() / max(variances.sum(), 1e-12))
    return with_linear(axes, -mean @ axes), kept


def learned_features(
    images: Images, options: EncoderOptions, progress: bool
) -> tuple[ImageFeatures, float]:
    """The first half of an autoencoder, which is learned until images held out gain no more.

    Returns the features, and the share of the variance of images held out that the second half
    restores. Adam, on one thread: the same on every run.
    """
    require_torch("an autoencoder (--method random needs none)")
    import torch

    shapes = images.layers(options.size)
    bar = Progress("learning", options.epochs, unit="epochs", show=progress)
    with torch.random.fork_rng(devices=[]), single_threaded_torch(), bar:
        torch.manual_seed(options.seed)
        encoder, decoder = _halves(shapes, options.size)
        order = torch.randperm(len(images.frames)).numpy()
        shown, held = np.delete(order, slice(None, None, HELD_OUT)), order[::HELD_OUT]
        mean = images.frames[shown].mean(axis=0, dtype=np.float64) / images.scale
        middle = torch.tensor(mean, dtype=torch.float32)

        def errors(numbers: NDArray[np.intp]) -> Any:
            """Squared errors of what comes back of images, less what is common to all."""
            x = torch.from_numpy(images.frames[numbers]).float() / images.scale
            return torch.square(decoder(encoder(x)) - (x - middle))

        def held_out() -> float:
            with torch.inference_mode():
                return sum(float(errors(part).sum()) for part in _batches(held))

        apart = images.frames[held].astype(np.float64) / images.scale - mean
        varies = max(float(np.square(apart).sum()), 1e-12)
        learner = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=RATE)
        best, since, state = np.inf, 0, _copied(encoder)
        for _ in range(options.epochs):
            for part in _batches(shown[torch.randperm(len(shown)).numpy()]):
                learner.zero_grad()
                errors(part).mean().backward()
                learner.step()
            error = held_out()
            since = since + 1 if error > 0.999 * best else 0
            if error < best:
                best, state = error, _copied(encoder)
            bar.advance(1, f"explains {1 - best / varies:.0%} of the variance")
            if since >= PATIENCE[0] and since * len(shown) >= PATIENCE[1] * BATCH:
                break
    n = len(shapes) - 1
    names, linear = [str(2 * i) for i in range(n)], str(2 * n + 1)
    layout = images.shape, (KERNEL,) * n, images.scale, "identity"
    return find_features(state, names, linear, *layout), 1 - best / varies


def _halves(shapes: list[tuple[int, int, int]], size: int) -> tuple[Any, Any]:
    """Make an encoder, and a decoder that mirrors it."""
    from torch import nn

    kernel, stride = KERNEL
    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for (n_in, height, width), (n_out, *_) in pairwise(shapes):
        down += [nn.Conv2d(n_in, n_out, kernel, stride), nn.ReLU()]
        rest = (height - kernel) % stride, (width - kernel) % stride
        up = [nn.ConvTranspose2d(n_out, n_in, kernel, stride, output_padding=rest), *up]
        up = [nn.ReLU(), *up]
    flat = int(np.prod(shapes[-1]))
    encoder = nn.Sequential(*down, nn.Flatten(), nn.Linear(flat, size))
    decoder = nn.Sequential(nn.Linear(size, flat), nn.Unflatten(1, shapes[-1]), *up)
    return encoder, decoder


def _batches(numbers: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    return [numbers[i : i + BATCH] for i in range(0, len(numbers), BATCH)]


def _copied(module: Any) -> dict[str, NDArray[Any]]:
    return {name: tensor.numpy().copy() for name, tensor in module.state_dict().items()}
