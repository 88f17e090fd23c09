"""Small convolutional networks for images: learned as autoencoders, or drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pivec.errors import UsageError
from pivec.options import EncoderOptions
from pivec.parallel import require_torch, single_threaded_torch
from pivec.policies import ImageFeatures, Kernels, Layer, find_features, frozen
from pivec.terminal import Progress

KERNEL = (4, 2)  # size and stride of every convolution, which halves an image,
SMALLEST = 8  # as long as it has so many rows and columns
FILTERS = (16, 32, 32, 32, 32, 32, 32, 32)
BATCH, RATE = 64, 1e-3
PATIENCE = 4, 200  # epochs and updates without a gain
HELD_OUT = 10  # every tenth image


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

    @property
    def layout(self) -> tuple[Kernels, list[tuple[int, int, int]]]:
        """The convolutions, and the shapes of what goes in and comes out of each."""
        channels, height, width = self.shape
        shapes = [(channels, height, width)]
        size, stride = KERNEL
        while min(shapes[-1][1:]) >= SMALLEST and len(shapes) <= len(FILTERS):
            _, height, width = shapes[-1]
            sides = (height - size) // stride + 1, (width - size) // stride + 1
            shapes.append((FILTERS[len(shapes) - 1], *sides))
        return (KERNEL,) * (len(shapes) - 1), shapes


def random_features(
    images: Images, options: EncoderOptions, progress: bool
) -> tuple[ImageFeatures, float]:
    """Random convolutions, and the directions in which their results vary most between images.

    Gives the features, and the share of the variance in these directions.
    """
    del progress
    kernels, shapes = images.layout
    rng = np.random.default_rng([options.seed, 0xE4C])
    layers = []
    for (channels, _, _), (filters, _, _), (size, _) in zip(
        shapes, shapes[1:], kernels, strict=False
    ):
        inputs = channels * size * size
        weights = rng.standard_normal((inputs, filters)) * np.sqrt(2 / inputs)  # He et al. 2015
        layers.append((frozen(weights), frozen(np.zeros(filters))))
    width = int(np.prod(shapes[-1]))
    _check_size(options.size, min(width, len(images.frames) - 1))

    def with_linear(linear: Layer) -> ImageFeatures:
        return ImageFeatures(
            images.shape, kernels, tuple(layers), linear, images.scale, last="identity"
        )

    rows = with_linear((frozen(np.eye(width)), frozen(np.zeros(width)))).outputs(images.frames)
    mean = rows.mean(axis=0, dtype=np.float64)
    variances, axes = np.linalg.eigh(
        np.cov(rows.astype(np.float64), rowvar=False).reshape(width, -1)
    )
    axes = axes[:, ::-1][:, : options.size]
    axes *= np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(options.size)])  # one of two signs
    kept = float(variances[::-1][: options.size].sum() / max(variances.sum(), 1e-12))
    return with_linear((frozen(axes), frozen(-mean @ axes))), kept


def learned_features(
    images: Images, options: EncoderOptions, progress: bool
) -> tuple[ImageFeatures, float]:
    """The first half of an autoencoder, which is learned until images held out gain no more.

    Gives the features, and the share of the variance of images held out that the second half
    gives back. Adam, on one thread: the same on every run.
    """
    require_torch("an autoencoder (--method random needs none)")
    import torch

    kernels, shapes = images.layout
    _check_size(options.size, int(np.prod(shapes[-1])))
    bar = Progress("learning", options.epochs, unit="epochs", show=progress)
    with torch.random.fork_rng(devices=[]), single_threaded_torch(), bar:
        torch.manual_seed(options.seed)
        encoder, decoder = _halves(kernels, shapes, options.size)
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
            bar.advance(1, f"keeps {1 - best / varies:.0%} of what varies")
            if since >= PATIENCE[0] and since * len(shown) >= PATIENCE[1] * BATCH:
                break
    names = [str(2 * i) for i in range(len(kernels))]
    linear = str(2 * len(kernels) + 1)
    features = find_features(
        state, names, linear, images.shape, kernels, images.scale, last="identity"
    )
    return features, 1 - best / varies


def _halves(kernels: Kernels, shapes: list[tuple[int, int, int]], size: int) -> tuple[Any, Any]:
    """Make an encoder, and a decoder that mirrors it."""
    from torch import nn

    down: list[nn.Module] = []
    up: list[nn.Module] = []
    for (n_in, height, width), (n_out, *_), (kernel, stride) in zip(
        shapes, shapes[1:], kernels, strict=False
    ):
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


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise UsageError(
            f"an encoder of these images can give at most {most} numbers, but --size is {size}"
        )
