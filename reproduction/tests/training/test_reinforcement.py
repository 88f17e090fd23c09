"""PPO and A2C: arguments, checkpoints, and going on after a stop."""

from __future__ import annotations

import random

import numpy as np
import pytest
from training_worlds import Follow, Nested

from pivec.errors import PivecError
from pivec.policies import load_policies
from pivec.rollouts import Environment
from reproduction.training.runs import Run, settings_for

torch = pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike  # noqa: E402

from reproduction.training.reinforcement import learn, make_model, read_state, schedules  # noqa: E402

SMALL = {"n_envs": 2, "n_steps": 32, "batch_size": 32, "n_epochs": 2, "steps": 320}


class Killed(Exception):
    """Stands for the end of the process."""


@pytest.fixture(autouse=True)
def _global_numbers():
    """`learn` is for processes of its own: put back what it changes here."""
    before = random.getstate(), np.random.get_state(), torch.get_num_threads()  # noqa: NPY002
    with torch.random.fork_rng():
        yield
    random.setstate(before[0])
    np.random.set_state(before[1])  # noqa: NPY002
    torch.set_num_threads(before[2])


def run(path, algorithm="ppo", env=Follow, checkpoints=6, until=None, **changes):
    environment = Environment.of(env)
    small = {key: value for key, value in SMALL.items() if algorithm == "ppo" or key != "n_epochs"}
    if algorithm == "a2c":
        del small["batch_size"]
    values = settings_for(algorithm, environment.name, {**small, **changes})
    folder = Run(path / f"{algorithm}-0", algorithm, environment, 0, values, checkpoints, "test")
    folder.begin()
    reports = []

    def report(done, steps, mean_return):
        reports.append((done, steps, mean_return))
        if until is not None and steps >= until:
            raise Killed

    learn(folder, report)
    return folder, reports


def steps_of(folder):
    return [named.info.step for named in load_policies(folder.path)]


def test_stars_are_schedules_and_the_rest_is_plain():
    made = schedules(settings_for("ppo", "CartPole-v1"))
    for key, value in (("clip_range", 0.2), ("clip_range_vf", 0.2), ("learning_rate", 1e-3)):
        assert made[key](1.0) == value
        assert made[key](0.25) == pytest.approx(value / 4)
        assert made[key](0.0) == 0.0
    assert (made["gae_lambda"], made["n_steps"]) == (0.8, 32)
    assert not {"steps", "n_envs", "decay", "hidden"} & set(made)
    assert schedules(settings_for("ppo", "Acrobot-v1"))["clip_range"] == 0.2


@pytest.mark.parametrize(
    ("algorithm", "changes", "optimizer"),
    [
        ("a2c", {}, RMSpropTFLike),
        ("a2c", {"optimizer": "rmsprop"}, torch.optim.RMSprop),
        ("a2c", {"optimizer": "adam"}, torch.optim.Adam),
        ("ppo", {}, torch.optim.Adam),
    ],
)
def test_a2c_has_the_optimiser_of_the_papers_library(algorithm, changes, optimizer):
    values = settings_for(algorithm, "CartPole-v1", {"n_envs": 8, **changes})
    model = make_model(Environment("CartPole-v1"), values, algorithm, 0)
    assert type(model.policy.optimizer) is optimizer
    [group] = model.policy.optimizer.param_groups
    assert group["eps"] == 1e-5
    assert optimizer is torch.optim.Adam or group["alpha"] == 0.99
    if optimizer is RMSpropTFLike:  # its mean of squares starts at 1: the first step is small
        model.learn(5)
        [squares, *_] = [one["square_avg"] for one in model.policy.optimizer.state.values()]
        assert 0.98 < float(squares.min()) <= float(squares.max()) < 1.1


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_checkpoints_from_the_untrained_to_the_last(tmp_path, algorithm):
    folder, reports = run(tmp_path, algorithm)
    kept = load_policies(folder.path)
    assert [named.info.step for named in kept] == [0, 64, 128, 192, 256, 320]
    assert {named.info.group for named in kept} == {f"{algorithm}-0"}
    assert len({named.policy.fingerprint for named in kept}) == 6
    assert kept[0].policy.sizes == (1, 64, 64, 1)
    assert kept[0].policy.activation == "tanh"
    told = kept[-1].info.metadata
    assert (told["algorithm"], told["step"], told["seed"]) == (algorithm, 320, 0)
    assert told["return"] == folder.finished().mean_return == reports[-1][2] < 0
    assert kept[0].info.metadata["return"] is None
    assert folder.finished().steps == 320
    assert not (folder.state / "learner.state").exists()


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
@pytest.mark.parametrize("until", [192, 256])
def test_a_stopped_run_gives_the_policies_of_an_undisturbed_one(tmp_path, algorithm, until):
    whole, _ = run(tmp_path / "whole", algorithm)
    with pytest.raises(Killed):
        run(tmp_path / "cut", algorithm, until=until)
    state = read_state(tmp_path / "cut" / f"{algorithm}-0" / "state" / "learner.state")
    assert state["step"] == until
    np.random.default_rng().random()
    torch.rand(3)  # whatever happens to global numbers in between
    cut, reports = run(tmp_path / "cut", algorithm)
    assert reports[0][:2] == (until, until)
    assert reports[0][2] is not None  # the return is remembered too
    theirs, ours = load_policies(whole.path), load_policies(cut.path)
    assert [each.info.step for each in ours] == [0, 64, 128, 192, 256, 320]
    assert [each.policy.fingerprint for each in ours] == [
        each.policy.fingerprint for each in theirs
    ]
    assert [each.info.metadata["return"] for each in ours] == [
        each.info.metadata["return"] for each in theirs
    ]
    assert cut.finished().mean_return == whole.finished().mean_return


def test_runs_longer_than_their_parts_go_on_from_a_part(tmp_path):
    settings = {"steps": 64 * 60}  # 60 updates, a part every third
    whole, _ = run(tmp_path / "whole", **settings)
    with pytest.raises(Killed):
        run(tmp_path / "cut", until=64 * 31, **settings)
    cut, reports = run(tmp_path / "cut", **settings)
    assert reports[0][0] == 64 * 30
    last = [load_policies(each.path)[-1].policy.fingerprint for each in (whole, cut)]
    assert last[0] == last[1]


def test_schedules_go_on_where_they_were(tmp_path):
    decaying = {"decay": ["learning_rate"], "steps": 640}
    with pytest.raises(Killed):
        run(tmp_path, until=320, **decaying)
    with pytest.raises(Killed):
        run(tmp_path, until=384, **decaying)
    state = read_state(tmp_path / "ppo-0" / "state" / "learner.state")
    # The update after step 384 had 256 of 640 steps left.
    [group] = state["optimizer"]["param_groups"]
    assert group["lr"] == pytest.approx(0.0003 * 256 / 640)


def test_a_damaged_state_is_told(tmp_path):
    with pytest.raises(Killed):
        run(tmp_path, until=192)
    (tmp_path / "ppo-0" / "state" / "learner.state").write_bytes(b"nothing")
    with pytest.raises(PivecError, match="is damaged"):
        run(tmp_path)


def test_more_checkpoints_than_updates_keep_each(tmp_path):
    folder, _ = run(tmp_path, checkpoints=500)
    assert steps_of(folder) == list(range(0, 321, 64))


def test_checkpoints_at_chosen_steps(tmp_path):
    folder, _ = run(tmp_path, checkpoints=[0, 10, 129])
    assert steps_of(folder) == [0, 64, 192]


def test_observations_in_parts(tmp_path):
    folder, _ = run(tmp_path, env=Nested, checkpoints=2, steps=64)
    assert load_policies(folder.path)[0].policy.n_inputs == 3
