"""The command `encoder`: parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pivec.cli.options import Env, Policies, Quiet, env_and_policies, with_options
from pivec.options import EncoderOptions
from pivec.terminal import say

Out = Annotated[
    Path, typer.Option(metavar="FILE", help="The file to write, which ends in .safetensors.")
]


@with_options
def encoder(
    env: Env,
    policies: Policies = None,
    *,
    out: Out = Path("encoder.safetensors"),
    options: EncoderOptions,
    quiet: Quiet = False,
) -> None:
    """Make one encoder of the images that all policies see, to be used as --features.

    The policies play, and a random sample of the different images they see is kept. A small
    convolutional autoencoder learns to write an image as a few numbers (--method random draws
    the convolutions instead, and needs no torch). Compare then with the same wrappers:

      pivec encoder ALE/Breakout-v5 'runs/*.zip' --atari --out breakout.safetensors

      pivec compare ALE/Breakout-v5 'runs/*.zip' --atari --features breakout.safetensors
    """
    from pivec.workflows import fit_encoder

    named, acting = env_and_policies(env, policies)
    fit = fit_encoder(named, acting, out, progress=not quiet, **vars(options))
    if not quiet:
        pixels = " x ".join(map(str, fit.shape))
        whose = (
            "images held out" if fit.method == "autoencoder" else "what random convolutions give"
        )
        say(
            f"{fit.size} numbers of {pixels} pixels, from {fit.frames} images that {fit.policies} "
            f"policies saw; they keep {fit.explained:.1%} of what varies in {whose}"
        )
        say(f"To use it: pivec compare ... --features {out}")
    say(str(out))
