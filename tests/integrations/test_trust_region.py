"""PPO whose updates a rule stops: when it is asked, what stops, and the rules themselves."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import gymnasium
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import reproduction.worlds  # noqa: F401 - registers
from pivec.characterizations import characterization
from pivec.errors import BadPolicyFile, PivecWarning, UsageError
from pivec.integrations.trust_region import (
    Actor,
    MaxBehaviourDistance,
    MaxTotalVariation,
    NoConstraint,
    TrustRegionPPO,
)
from pivec.policies import NetworkPolicy
from pivec.states import joined
from pivec.workflows import collect

SETTINGS = {
    "n_steps": 64,
    "batch_size": 32,
    "policy_kwargs": {"net_arch": [8]},
    "device": "cpu",
    "seed": 0,
}
PATH = "pivec/DangerousPath-v0"


class StopAfter:
    """Writes down what it is asked, and says stop at a number of updates."""

    def __init__(self, updates):
        self.updates, self.log = updates, []

    def begin(self, old, observations):
        self.old, self.observations = old, observations
        self.first = parameters(old.policy)
        self.log.append("begin")

    def exceeded(self, new):
        self.log.append("exceeded")
        self.last = parameters(new.policy)
        assert not torch.is_grad_enabled()
        assert not new.policy.training
        return self.log[::-1].index("begin") >= self.updates  # asked since the data came


def parameters(policy):
    return torch.nn.utils.parameters_to_vector(policy.parameters()).detach().numpy().copy()


def model(rule, env=PATH, **changes):
    return TrustRegionPPO("MlpPolicy", env, rule=rule, **{**SETTINGS, **changes})


def test_the_rule_is_asked_after_every_update_and_ends_them():
    rule = StopAfter(3)
    learner = model(rule)
    learner.learn(128)
    assert rule.log == ["begin", "exceeded", "exceeded", "exceeded"] * 2
    assert learner.updates_made == [3, 3]


def test_the_update_that_went_too_far_stays():
    rule = StopAfter(1)
    learner = model(rule)
    learner.learn(64)
    assert not np.array_equal(rule.first, rule.last)
    assert np.array_equal(rule.last, parameters(learner.policy))
    assert np.array_equal(rule.first, parameters(rule.old.policy)), "the old policy moved"


def test_updates_go_on_in_new_passes_over_the_data_up_to_their_number():
    rule = StopAfter(1_000)
    learner = model(rule, max_updates=5)  # two batches a pass
    learner.learn(64)
    assert learner.updates_made == [5]


def test_observations_are_all_that_were_collected():
    rule = StopAfter(1)
    model(rule, make_vec_env(PATH, 2)).learn(128)
    assert rule.observations.shape == (128, 5)
    starts = (rule.observations.sum(dim=1) == 0).sum()
    assert starts >= 2 * 64 // 25


def test_without_a_constraint_it_is_ppo_without_clipping():
    ours = model(NoConstraint(), max_updates=2).learn(192)
    theirs = PPO("MlpPolicy", PATH, n_epochs=1, clip_range=1e9, **SETTINGS).learn(192)
    assert np.array_equal(parameters(ours.policy), parameters(theirs.policy))


def test_it_logs_how_many_updates_were_made():
    learner = model(StopAfter(1))
    learner.learn(64)
    assert learner.logger.name_to_value["trust_region/updates"] == 1
    assert learner.logger.name_to_value["trust_region/exceeded"] == 1.0
    learner = model(NoConstraint(), max_updates=2)
    learner.learn(64)
    assert learner.logger.name_to_value["trust_region/exceeded"] == 0.0


def test_a_saved_model_is_loaded_with_a_rule(tmp_path):
    learner = model(StopAfter(1))
    learner.learn(64)
    learner.save(tmp_path / "model.zip")
    forgotten = TrustRegionPPO.load(tmp_path / "model.zip", env=learner.get_env())
    with pytest.raises(UsageError, match="rule="):
        forgotten.learn(64)
    loaded = TrustRegionPPO.load(
        tmp_path / "model.zip", env=learner.get_env(), rule=StopAfter(2), device="cpu"
    )
    assert np.array_equal(parameters(loaded.policy), parameters(learner.policy))
    loaded.learn(64)
    assert loaded.updates_made == [1, 2]


def test_the_buffer_is_whole_again_when_a_rule_fails():
    class Broken(StopAfter):
        def exceeded(self, new):
            raise ValueError("no idea")

    learner = model(Broken(1))
    with pytest.raises(ValueError, match="no idea"):
        learner.learn(64)
    learner.rule = StopAfter(1)
    learner.learn(64)
    assert learner.updates_made == [1]


def test_composite_observations_come_as_a_dict():
    class Pair(gymnasium.Env):
        observation_space = spaces.Dict({"a": spaces.Box(0, 1, (2,)), "b": spaces.Discrete(3)})
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return {"a": np.zeros(2, np.float32), "b": 1}, {}

        def step(self, action):
            return self.reset()[0], float(action), False, True, {}

    rule = StopAfter(1)
    TrustRegionPPO("MultiInputPolicy", Pair(), rule=rule, **SETTINGS).learn(64)
    assert rule.observations["a"].shape == (64, 2)
    assert rule.old.policy.get_distribution(rule.observations).distribution.probs.shape == (64, 2)


def test_total_variation_is_the_largest_of_all_states():
    learner = model(rule := MaxTotalVariation(0.5))
    other = model(NoConstraint(), seed=5, policy_kwargs={"net_arch": [8], "ortho_init": False})
    observations = torch.rand(20, 5) * 5
    with torch.no_grad():
        rule.begin(Actor(learner).frozen(), observations)
        assert not rule.exceeded(Actor(learner))
        assert rule.distance == 0.0
        rule.exceeded(Actor(other))
        p, q = (
            each.policy.get_distribution(observations).distribution.probs.double().numpy()
            for each in (learner, other)
        )
    expected = max(0.5 * sum(abs(p[i, j] - q[i, j]) for j in range(5)) for i in range(20))
    assert rule.distance == pytest.approx(expected, rel=1e-5)
    assert 0.01 < expected < 1


def test_a_smaller_threshold_leaves_fewer_updates():
    few, many = (model(MaxTotalVariation(size)).learn(64).updates_made[0] for size in (0.001, 0.05))
    assert 1 <= few < many <= 100


def test_total_variation_of_real_actions_is_refused():
    with pytest.raises(UsageError, match="Box"):
        model(MaxTotalVariation(0.1), "Pendulum-v1").learn(64)


def test_distance_of_behaviour_tells_policies_apart():
    rule = MaxBehaviourDistance(1e-6, "CartPole-v1", characterization("gaussian"))
    learner = model(NoConstraint(), "CartPole-v1")
    rule.begin(Actor(learner).frozen(), None)
    assert rule.exceeded(Actor(learner)), "two samples of one policy are never the same"
    same = rule.distance
    with torch.no_grad():
        learner.policy.action_net.bias[0] += 20  # always to the left
    rule.exceeded(Actor(learner))
    assert rule.distance > 3 * same


@pytest.mark.parametrize("debiased", [False, True])
def test_the_distance_is_that_of_supervectors_of_the_episodes_played(debiased):
    learner = model(NoConstraint())
    rule = MaxBehaviourDistance(1.0, PATH, seed=3, debiased=debiased)
    rule.begin(Actor(learner).frozen(), None)
    rule.exceeded(Actor(learner))
    seeds = np.random.default_rng(3).integers(2**31, size=2).tolist()
    player = Actor(learner).player()
    # Named as the rule names them: the order of states in a fit follows from the names.
    named = zip(("old", "new"), seeds, strict=True)
    data = joined([collect(PATH, {label: player}, 5, seed) for label, seed in named])
    method = characterization("supervector", n_components=4).fit(data)
    expected = method.distances(data)[0, 1]
    if debiased:
        expected = method.intervals(data).distance[0, 1]
    assert rule.distance == pytest.approx(expected, rel=1e-9, abs=1e-7)  # noise of float32


def test_checks_of_behaviour_follow_from_the_seed_and_leave_global_generators_alone():
    learner = model(NoConstraint())
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    measured = []
    for seed in (0, 0, 1):
        rule = MaxBehaviourDistance(1.0, PATH, noise=1e-3, seed=seed)
        rule.begin(Actor(learner).frozen(), None)
        distances = []
        for _ in range(2):
            rule.exceeded(Actor(learner))
            distances.append(rule.distance)
        measured.append(distances)
    assert measured[0] == measured[1] != measured[2]
    assert measured[0][0] != measured[0][1], "every check plays anew"
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


def test_learning_stops_by_behaviour():
    rule = MaxBehaviourDistance(1e-9, PATH, characterization("gaussian"), noise=1e-3)
    assert model(rule).learn(64).updates_made == [1]


def test_policies_that_are_not_known_play_through_torch_and_are_normalised(monkeypatch):
    def refuse(_):
        raise BadPolicyFile("its actions are drawn in another way")

    monkeypatch.setattr("pivec.integrations.trust_region.convert_sb3", refuse)
    normalised = VecNormalize(make_vec_env(PATH, 1))
    learner = model(NoConstraint(), normalised, policy_kwargs={"net_arch": [8]})
    with pytest.warns(PivecWarning, match="torch"):
        learner.learn(64)
    actor = Actor(learner)
    with pytest.warns(PivecWarning, match="torch"):
        player = actor.player()
    assert not isinstance(player, NetworkPolicy)
    shown = np.ones((3, 5), np.float32)
    seen = torch.as_tensor(normalised.normalize_obs(shown))
    with torch.no_grad():
        mode = learner.policy.get_distribution(seen).distribution.probs.argmax(dim=1).numpy()
    rng = np.random.default_rng(0)
    assert np.array_equal(player.act(shown, rng, deterministic=True), mode)
    state = torch.get_rng_state()
    one = player.act(np.repeat(shown, 20, axis=0), np.random.default_rng(1))
    two = player.act(np.repeat(shown, 20, axis=0), np.random.default_rng(1))
    assert np.array_equal(one, two)
    assert torch.equal(state, torch.get_rng_state())
    with pytest.warns(PivecWarning, match="torch"):
        still = actor.frozen().player()
    with torch.no_grad():
        learner.policy.action_net.bias[(mode[0] + 1) % 5] += 50
    assert np.array_equal(still.act(shown, rng, deterministic=True), mode)
    assert not np.array_equal(player.act(shown, rng, deterministic=True), mode)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_epochs": 3}, "max_updates"),
        ({"max_updates": 0}, "max_updates"),
    ],
)
def test_mistaken_arguments_are_told(arguments, message):
    with pytest.raises(UsageError, match=message):
        model(NoConstraint(), **arguments)


@pytest.mark.parametrize("make", [MaxTotalVariation, lambda size: MaxBehaviourDistance(size, PATH)])
def test_thresholds_are_positive(make):
    with pytest.raises(UsageError, match="threshold"):
        make(0.0)


def test_a_rule_that_was_not_begun_says_so():
    with pytest.raises(UsageError, match="call begin"):
        MaxBehaviourDistance(1.0, PATH).exceeded(Actor(model(NoConstraint())))
