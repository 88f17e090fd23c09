"""Where networks are trained decides nothing but rounding."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pivec.characterizations import characterization  # noqa: E402
from pivec.characterizations import torch_networks as vae  # noqa: E402
from pivec.errors import UsageError  # noqa: E402
from pivec.parallel import torch_device  # noqa: E402
from pivec.states import VisitedStates  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
def test_one_trajectory_of_one_state_has_no_likelihood(device: str) -> None:
    start = vae.starting_weights(np.random.default_rng(0), 2, 4, 2)
    learned = vae.train_autoencoder(
        start,
        [np.zeros((1, 2), dtype=np.float32)],
        epochs=2,
        batch_size=4,
        learning_rate=1e-2,
        kl_weight=0.5,
        rng=np.random.default_rng(1),
        device=device,
    )
    assert np.array_equal(learned["next_mean"], start["next_mean"])
    assert not np.array_equal(learned["latent_mean"], start["latent_mean"])


@pytest.mark.parametrize("device", DEVICES)
def test_trained_and_encoded_there_as_here(device: str, rng: np.random.Generator) -> None:
    sequences = [rng.normal(size=(n, 3)).astype(np.float32) for n in rng.integers(1, 12, 13)]
    start = vae.starting_weights(rng, 3, 6, 2)
    how = {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2, "kl_weight": 0.5}
    there, here = (
        vae.train_autoencoder(start, sequences, rng=np.random.default_rng(1), device=place, **how)
        for place in (device, "cpu")
    )
    for name, values in here.items():
        assert np.abs(values - start[name]).max() > 1e-3, name  # it did learn
        np.testing.assert_allclose(there[name], values, atol=2e-4, err_msg=name)
    encoded = vae.encode(here, sequences, device)
    np.testing.assert_allclose(encoded, vae.encode(here, sequences), atol=1e-5)


def test_a_device_that_is_not_there_is_refused_in_one_sentence() -> None:
    with pytest.raises(UsageError, match='device must be "cpu", "cuda" or "auto"'):
        torch_device("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match=r'"cuda".*use device="cpu"'):
            torch_device("cuda")


@pytest.mark.parametrize("name", ["discriminator", "encoder", "trajectory-encoder"])
@pytest.mark.parametrize("device", ["auto", *DEVICES])
def test_the_device_decides_where_and_not_what(name: str, device: str) -> None:
    rng = np.random.default_rng(0)
    data = VisitedStates.from_arrays(
        [[rng.normal(m, 1, (15, 2)) for _ in range(3)] for m in range(3)],
        actions=[[np.arange(14) % (m + 1) for _ in range(3)] for m in range(3)],
    )
    small = {"n_units": 8, "epochs": 2, "random_state": 3}
    here = characterization(name, **small)
    there = characterization(name, device=device, **small)
    assert here.parameters_json() == there.parameters_json()
    np.testing.assert_allclose(
        there.fit(data).distances(data), here.fit(data).distances(data), rtol=1e-3
    )
