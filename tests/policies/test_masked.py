"""MaskablePPO is read, and plays where its environment tells which actions are allowed."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from readers import read_sb3
from sb3_models import model, saved, spaces, torch

import pivec
from pivec.errors import PivecError, UsageError
from pivec.policies import load_policies

pytest.importorskip("sb3_contrib")


class Corridor(gymnasium.Env):
    """Counts to ten; the forbidden action, which changes with the place, ends the episode."""

    observation_space, action_space = spaces.Box(-1, 20, (2,)), spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self._see(), {}

    def _see(self):
        return np.array([self.place, self.place % 3], np.float32)

    def action_masks(self):
        return np.arange(3) != self.place % 3

    def step(self, action):
        wrong = action == self.place % 3
        self.place += 1
        return self._see(), float(action), bool(wrong), self.place == 10, {}


class Several(gymnasium.Env):
    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 3])

    def action_masks(self):
        return np.array([True, False, True, True, False])


@pytest.mark.parametrize("kind", [Corridor, Several])
def test_numbers_are_the_librarys_own(kind):
    made = model("MaskablePPO", kind())
    policy, info = read_sb3(saved(made), "it")
    assert info["algorithm"] == "MaskablePPO"
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 2)).astype(np.float32)
    width = policy.network.n_outputs
    masks = rng.random((50, width)) < 0.7
    masks[:, [0, width - 1]] = True
    with torch.no_grad():
        given = made.policy.get_distribution(torch.as_tensor(rows), masks)
    parts = given.distributions if kind is Several else [given.distribution]
    probabilities = np.concatenate([part.probs.numpy() for part in parts], axis=1)
    np.testing.assert_allclose(policy.distribution(rows, masks), probabilities, atol=1e-5)
    best, _ = made.predict(rows, deterministic=True, action_masks=masks)
    np.testing.assert_array_equal(policy.respond(rows, None, masks), best)
    with pytest.raises(UsageError, match=r"action_masks\(\)"):
        policy.act(rows, rng)
    with pytest.raises(UsageError, match=r"action_masks\(\)"):
        policy.respond(rows, None, masks[:, :1])


def test_it_never_does_what_is_forbidden(tmp_path):
    model("MaskablePPO", Corridor()).save(tmp_path / "masked.zip")
    (named,) = load_policies(tmp_path)
    played = [
        pivec.collect(Corridor, [named], episodes=20, n_envs=n, deterministic=mode)
        for n, mode in ((1, False), (7, False), (3, True))
    ]
    assert [set(data.lengths.tolist()) for data in played] == [{11}] * 3  # with the terminal state
    np.testing.assert_array_equal(played[0].states, played[1].states)


def test_an_environment_without_masks_is_named(tmp_path):
    class Free(Corridor):
        action_masks = property()

    model("MaskablePPO", Corridor()).save(tmp_path / "masked.zip")
    with pytest.raises(PivecError, match=r"action_masks\(\)"):
        pivec.collect(Free, str(tmp_path), episodes=2)
