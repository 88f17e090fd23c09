"""The callback sees every episode of training as it was, and training does not notice."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace

import gymnasium
import numpy as np
import pytest

pytest.importorskip("stable_baselines3")

import torch
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.logger import Figure, KVWriter, Logger, configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
)

import pivec
import pivec.integrations.sb3
from pivec.errors import PivecWarning, UsageError

FEW = {"n_components": 3}
# The velocities of cart and pole of some untrained policies.
pytestmark = pytest.mark.filterwarnings("ignore:.* are copies of each other")


class Diary(gymnasium.Wrapper):
    """Keeps what it showed, an entry an episode: observations, rewards, whether it was cut."""

    def __init__(self, env, pages):
        super().__init__(env)
        self.pages = pages

    def reset(self, **arguments):
        observation, info = super().reset(**arguments)
        self.page = ([observation], [])
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.page[0].append(observation)
        self.page[1].append(reward)
        if terminated or truncated:
            self.pages.append((np.array(self.page[0], np.float32), sum(self.page[1]), truncated))
        return observation, reward, terminated, truncated, info


def environments(n, pages, name="CartPole-v1"):
    return DummyVecEnv([lambda: Monitor(Diary(gymnasium.make(name), pages)) for _ in range(n)])


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def ppo(env, **more):
    settings = {"n_steps": 64, "batch_size": 64, "n_epochs": 1, "seed": 0, "device": "cpu"}
    return PPO("MlpPolicy", env, **{**settings, **more})


def check_pages(data, pages, exact=True, share=0.8):
    """The store holds the last pages of each window, in order."""
    got, ends = list(data.episodes()), 0
    assert len(got) >= share * len(pages)
    for episode, total, cut in zip(got, data.returns, data.truncated, strict=True):
        while not (
            ends < len(pages)
            and len(pages[ends][0]) == len(episode)
            and np.allclose(pages[ends][0], episode, atol=0 if exact else 1e-4)
        ):
            ends += 1
            assert ends < len(pages), "an episode that nobody played"
        assert total == pytest.approx(pages[ends][1], rel=1e-5)
        assert cut == pages[ends][2]
        ends += 1


def test_states_are_those_of_training_and_compare_takes_them(tmp_path):
    pages = []
    behaviour = pivec.integrations.sb3.BehaviourCallback(
        256, parameters=FEW, store=tmp_path / "states", actions=True
    )
    ppo(environments(2, pages)).learn(1536, callback=behaviour)
    data = pivec.load(tmp_path / "states")
    check_pages(data, pages)
    assert data.labels[0] == "ppo-0/step_128"
    assert set(data.groups) == {"ppo-0"}
    assert list(data.steps) == [change.step for change in behaviour.changes]
    assert data.environment == "CartPole-v1"
    assert data.actions.shape == (data.n_states - data.n_episodes,)
    taken = pivec.collect("CartPole-v1", f"store:{tmp_path / 'states'}")  # as compare does
    assert taken.policies == tuple(
        replace(info, fingerprint=found.fingerprint)
        for info, found in zip(data.policies, taken.policies, strict=True)
    )
    assert np.array_equal(taken.states, data.states)


def test_normalised_observations_are_undone(tmp_path):
    pages = []
    behaviour = pivec.integrations.sb3.BehaviourCallback(256, parameters=FEW, store=tmp_path)
    model = ppo(VecNormalize(environments(2, pages)))
    model.learn(1024, callback=behaviour)
    check_pages(pivec.load(tmp_path), pages, exact=False)


def test_terminal_observations_that_are_not_told_are_left_out(tmp_path):
    class Silent(VecEnvWrapper):
        def reset(self):
            return self.venv.reset()

        def step_wait(self):
            seen, rewards, dones, infos = self.venv.step_wait()
            for info in infos:
                info.pop("terminal_observation", None)
            return seen, rewards, dones, infos

    pages = []
    behaviour = pivec.integrations.sb3.BehaviourCallback(
        128, parameters=FEW, store=tmp_path, actions=True
    )
    ppo(Silent(environments(2, pages))).learn(512, callback=behaviour)
    data = pivec.load(tmp_path)
    assert len(data.actions) == data.n_states - data.n_episodes
    shorter = [(rows[:-1], total, cut) for rows, total, cut in pages]
    check_pages(data, shorter)


@pytest.mark.parametrize("kind", ["dqn", "sac"])
def test_algorithms_with_a_replay_buffer(tmp_path, kind):
    pages = []
    behaviour = pivec.integrations.sb3.BehaviourCallback(
        300, parameters=FEW, store=tmp_path, min_episodes=2
    )
    shared = {"learning_starts": 50, "batch_size": 8, "seed": 0, "device": "cpu"}
    if kind == "dqn":
        model = DQN("MlpPolicy", environments(2, pages), train_freq=16, **shared)
    else:
        pendulum = VecNormalize(environments(2, pages, "Pendulum-v1"))
        model = SAC("MlpPolicy", pendulum, train_freq=64, gradient_steps=1, **shared)
    model.learn(1700, callback=behaviour)
    assert len(behaviour.changes) >= 3
    check_pages(pivec.load(tmp_path), pages, exact=kind == "dqn")


def test_training_is_the_same_with_and_without():
    runs = [ppo(environments(2, [])).learn(640, callback=callback) for callback in (
        None, pivec.integrations.sb3.BehaviourCallback(128, parameters=FEW)
    )]  # fmt: skip
    weights = [[p.detach().numpy() for p in run.policy.parameters()] for run in runs]
    assert all(np.array_equal(a, b) for a, b in zip(*weights, strict=True))


class Kept(KVWriter):
    """An output of the logger that keeps what is written, by name."""

    def __init__(self):
        self.columns = {}

    def write(self, key_values, key_excluded, step=0):
        assert set(key_values) == set(key_excluded)
        for key, value in key_values.items():
            self.columns.setdefault(key, []).append((step, value))


def test_everything_is_in_the_logger():
    behaviour = pivec.integrations.sb3.BehaviourCallback(
        256, parameters=FEW, expert={"still": lambda seen: np.zeros(len(seen), int)},
        expert_episodes=5,
    )  # fmt: skip
    kept, model = Kept(), ppo(environments(2, []))
    model.set_logger(Logger(None, [kept]))
    model.learn(1500, callback=behaviour)  # and nothing is dumped after its end, at 1536
    changes = behaviour.changes
    assert [change.step for change in changes] == [128, 256, 512, 768, 1024, 1280, 1536]
    for name, column in (
        ("distance_to_previous", [c.to_previous for c in changes]),
        ("distance_to_first", [c.to_first for c in changes]),
        ("distance_to_expert", [c.to_expert for c in changes]),
        ("path_length", [c.path_length for c in changes]),
        ("path_length_low", [c.path_interval[0] for c in changes]),
        ("distance_to_expert_high", [c.expert_interval[1] for c in changes]),
        ("noise", [c.noise for c in changes]),
        ("map_x", [c.position[0] for c in changes]),
        ("map_y", [c.position[1] for c in changes]),
    ):
        expected = [(c.step, v) for c, v in zip(changes, column, strict=True) if v == v]
        assert kept.columns[f"behaviour/{name}"] == expected
    maps = kept.columns["behaviour/map"]
    assert [step for step, _ in maps] == [change.step for change in changes]
    assert all(isinstance(shown, Figure) for _, shown in maps)


def test_the_map_is_a_small_picture_in_tensorboard_and_no_other_output_minds(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    behaviour = pivec.integrations.sb3.BehaviourCallback(256, parameters=FEW)
    model = ppo(environments(2, []))
    model.set_logger(configure(str(tmp_path), ["stdout", "log", "json", "csv", "tensorboard"]))
    model.learn(512, callback=behaviour)
    model.logger.close()
    events = accumulators.EventAccumulator(str(tmp_path)).Reload()
    pictures = events.Images("behaviour/map")
    assert [picture.step for picture in pictures] == [128, 256, 512]
    assert pictures[-1].height < 1000
    assert len(pictures[-1].encoded_image_string) < 60_000
    lengths = events.Scalars("behaviour/path_length")
    assert [point.step for point in lengths] == [128, 256, 512]
    rows = csv.DictReader((tmp_path / "progress.csv").read_text().splitlines())
    described = [row for row in rows if row["behaviour/path_length"]]
    assert [row["time/total_timesteps"] for row in described] == ["128", "256", "512"]


def test_the_user_s_own_function_gets_all_descriptions_instead_of_the_logger():
    calls, kept = [], Kept()
    behaviour = pivec.integrations.sb3.BehaviourCallback(
        256, parameters=FEW, log=lambda values, step, figure: calls.append((values, step, figure))
    )
    model = ppo(environments(2, []))
    model.set_logger(Logger(None, [kept]))
    model.learn(512, callback=behaviour)
    assert [step for _, step, _ in calls] == [128, 256, 512]
    assert [values["behaviour/path_length"] for values, _, _ in calls] == [
        change.path_length for change in behaviour.changes
    ]
    assert not [name for name in kept.columns if name.startswith("behaviour")]


def test_training_that_was_too_short_to_describe_is_named():
    with pytest.warns(PivecWarning, match="min_episodes or every"):
        ppo(environments(2, [])).learn(
            128, callback=pivec.integrations.sb3.BehaviourCallback(parameters=FEW)
        )


def test_training_that_goes_on_is_seen_through(tmp_path):
    pages = []
    behaviour = pivec.integrations.sb3.BehaviourCallback(128, parameters=FEW, store=tmp_path)
    model = ppo(environments(2, pages))
    model.learn(512, callback=behaviour)
    model.learn(512, callback=behaviour, reset_num_timesteps=False)
    data = pivec.load(tmp_path)
    check_pages(data, pages)
    # A new callback begins with the first episode that it sees from its start.
    again = pivec.integrations.sb3.BehaviourCallback(128, parameters=FEW, store=tmp_path)
    known = len(pages)
    model.learn(512, callback=again, reset_num_timesteps=False)
    fresh = pivec.load(tmp_path).select([c.label for c in again.changes])
    check_pages(fresh, pages[known:], share=0.5)
    assert fresh.steps[0] > data.steps[-1]


def test_a_callback_that_begins_anew_describes_from_the_first_steps():
    behaviour = pivec.integrations.sb3.BehaviourCallback(
        256, parameters=FEW, fit_on=1, min_episodes=2
    )
    for seed in range(2):
        ppo(environments(2, []), seed=seed).learn(512, callback=behaviour)
    assert [change.step for change in behaviour.changes] == [128, 256, 512] * 2


def test_a_store_of_another_run_is_refused_before_any_step(tmp_path):
    for group in ("a", "b"):
        ppo(environments(2, [])).learn(
            256,
            callback=pivec.integrations.sb3.BehaviourCallback(
                128, fit_on=1, group=group, store=tmp_path
            ),
        )
    assert set(pivec.load(tmp_path).groups) == {"a", "b"}
    model = ppo(environments(2, []))
    with pytest.raises(UsageError, match="earlier run"):
        model.learn(
            256, callback=pivec.integrations.sb3.BehaviourCallback(128, group="a", store=tmp_path)
        )
    assert model.num_timesteps == 0


def test_experts_come_as_states_as_a_store_or_as_a_policy(tmp_path):
    def still(seen):
        return np.zeros(len(seen), dtype=int)

    states = pivec.collect("CartPole-v1", {"still": still}, 5, store=tmp_path)
    found = []
    for expert in (states, tmp_path, {"still": still}):
        behaviour = pivec.integrations.sb3.BehaviourCallback(
            128, parameters=FEW, expert=expert, expert_episodes=5
        )
        ppo(environments(1, [])).learn(768, callback=behaviour)
        found.append(behaviour.changes[-1].to_expert)
    assert found[0] == pytest.approx(found[1]) == pytest.approx(found[2])
    two = pivec.integrations.sb3.BehaviourCallback(128, expert=["random:2"])
    with pytest.raises(UsageError, match="one policy"):
        ppo(environments(1, [])).learn(128, callback=two)


def test_methods_that_look_at_networks_and_actions(tmp_path):
    for method, small in (("parameters", {}), ("state-actions", {"n_updates": 4})):
        behaviour = pivec.integrations.sb3.BehaviourCallback(
            128, method=method, parameters=small, store=tmp_path / method
        )
        ppo(environments(2, [])).learn(512, callback=behaviour)
        assert behaviour.changes[-1].to_first > 0
        assert np.isfinite(behaviour.changes[-1].position).all()
        found = pivec.characterization(method, **small).fit(data := pivec.load(tmp_path / method))
        assert np.isfinite(found.distances(data)).all()


def test_tasks_without_an_end_are_cut_into_pieces():
    class Endless(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-9, 9, (2,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return self.np_random.normal(size=2).astype(np.float32), 1.0, False, False, {}

    behaviour = pivec.integrations.sb3.BehaviourCallback(128, parameters=FEW, cut_after=16)
    ppo(DummyVecEnv([Endless])).learn(640, callback=behaviour)
    assert behaviour.changes[0].n_states == 17 * behaviour.changes[0].n_episodes
    assert len(behaviour.changes) == 5


def test_training_stops_when_behaviour_has_settled(capsys):
    behaviour = pivec.integrations.sb3.BehaviourCallback(64, parameters=FEW, min_episodes=2)
    stop = pivec.integrations.sb3.StopWhenBehaviourSettles(behaviour, 3, deviations=1e9, verbose=1)
    model = ppo(environments(2, []), learning_rate=0.0)
    model.learn(5000, callback=[behaviour, stop])
    assert len(behaviour.changes) == 4
    assert stop.stopped_at == model.num_timesteps < 1000
    assert "has not changed for 3" in capsys.readouterr().out
    # Without intervals every distance is a change.
    never = pivec.integrations.sb3.BehaviourCallback(
        64, parameters=FEW, min_episodes=2, intervals=False
    )
    strict = pivec.integrations.sb3.StopWhenBehaviourSettles(
        never, 3, tolerance=0.0, deviations=0.0
    )
    ppo(environments(2, [])).learn(640, callback=[never, strict])
    assert strict.stopped_at is None


def test_mistakes_are_named():
    for bad in ({"every": 0}, {"min_episodes": 1}, {"min_episodes": 9, "episodes": 8}):
        with pytest.raises(UsageError):
            pivec.integrations.sb3.BehaviourCallback(**bad)
    stacked = VecFrameStack(VecNormalize(environments(1, [])), 2)
    with pytest.raises(UsageError, match="outermost"):
        ppo(stacked).learn(64, callback=pivec.integrations.sb3.BehaviourCallback())
    nameless = DummyVecEnv([gymnasium.envs.classic_control.CartPoleEnv])
    with pytest.raises(UsageError, match="Gymnasium id"):
        ppo(nameless).learn(64, callback=pivec.integrations.sb3.BehaviourCallback(expert="random"))


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("sb3", "stable_baselines3", "sb3"),
        ("trust_region", "stable_baselines3", "sb3"),
        ("ribs", "ribs", "ribs"),
    ],
)
def test_what_is_missing_is_said(module, package, extra):
    code = f"""
from importlib.machinery import PathFinder
find = PathFinder.find_spec
def find_others(name, path=None, *rest):
    return None if name == {package!r} and path is None else find(name, path, *rest)
PathFinder.find_spec = find_others
import pivec.integrations.{module}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f'pip install "pivec[{extra}]"' in done.stderr
