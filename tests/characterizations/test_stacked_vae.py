"""Several autoencoders trained together get the numbers that each gets alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pivec.characterizations import characterization  # noqa: E402
from pivec.characterizations.networks import sequence_vae as vae  # noqa: E402
from pivec.characterizations.networks.stacked_vae import (  # noqa: E402
    Job,
    encode_on,
    train_together,
)
from pivec.characterizations.networks.training import device_of  # noqa: E402
from pivec.errors import UsageError  # noqa: E402
from pivec.states import VisitedStates  # noqa: E402

HOW: dict[str, Any] = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "kl_weight": 0.5}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def job(seed: int, n_sequences: int) -> Job:
    rng = np.random.default_rng(seed)
    sequences = [
        rng.normal(size=(int(n), 3)).astype(np.float32) for n in rng.integers(1, 12, n_sequences)
    ]
    return Job(vae.starting_weights(rng, 3, 6, 2), sequences, rng)


@pytest.mark.parametrize("device", DEVICES)
def test_trained_together_as_alone(device: str) -> None:
    counts = (6, 13, 13, 1)  # the last batch of a job may be short, and jobs end at other times
    together = dict(
        train_together([job(*each) for each in enumerate(counts)], device=device, **HOW)
    )
    for number, count in enumerate(counts):
        one = job(number, count)
        alone = vae.train(one.weights, one.sequences, rng=one.rng, **HOW)
        for name, values in alone.items():
            assert np.abs(values - one.weights[name]).max() > 1e-3, name  # it did learn
            np.testing.assert_allclose(together[number][name], values, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("device", DEVICES)
def test_encoded_together_as_alone(device: str) -> None:
    one = job(3, 9)
    found = encode_on(device, one.weights, one.sequences)
    np.testing.assert_allclose(found, vae.encode(one.weights, one.sequences), atol=1e-5)


def test_those_with_fewest_updates_come_first() -> None:
    found = train_together([job(0, 12), job(1, 3), job(2, 8)], device="cpu", **HOW)
    assert [number for number, _ in found] == [1, 2, 0]


def test_one_trajectory_of_one_state_has_no_likelihood() -> None:
    rng = np.random.default_rng(0)
    start = vae.starting_weights(rng, 2, 4, 2)
    short = Job(start, [np.zeros((1, 2), dtype=np.float32)], np.random.default_rng(1))
    [(_, learned)] = train_together([short], device="cpu", **HOW)
    assert np.array_equal(learned["next_mean"], start["next_mean"])
    assert not np.array_equal(learned["latent_mean"], start["latent_mean"])


def test_a_device_that_is_not_there_is_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError, match='device must be "cpu", "cuda" or "auto"'):
        device_of("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="there is none; use"):
            device_of("cuda")


@pytest.mark.parametrize("name", ["discriminator", "encoder"])
@pytest.mark.parametrize("device", ["auto", *DEVICES])
def test_the_device_decides_where_and_not_what(name: str, device: str) -> None:
    rng = np.random.default_rng(0)
    data = VisitedStates.from_arrays(
        [[rng.normal(m, 1, (15, 2)) for _ in range(3)] for m in range(3)]
    )
    small = {"n_units": 8, "epochs": 2, "random_state": 3}
    here = characterization(name, **small)
    there = characterization(name, device=device, **small)
    assert here.parameters_json() == there.parameters_json()
    np.testing.assert_allclose(
        there.fit(data).distances(data), here.fit(data).distances(data), rtol=1e-3
    )
