"""settings.toml is the paper's table; what users change is checked."""

from __future__ import annotations

import pytest

from pivec.errors import UsageError
from reproduction.training.runs import ALGORITHMS, is_published, settings_for

FIVE = ("BipedalWalker-v3", "LunarLander-v3", "Acrobot-v1", "CartPole-v1", "Pendulum-v1")
SIX = ("BipedalWalkerHardcore-v3", *FIVE)

# The table of the paper, column by column.
PPO = {
    "steps": (100_000_000, 5_000_000, 1_000_000, 1_000_000, 100_000, 2_000_000),
    "n_envs": (16, 16, 16, 16, 8, 8),
    "n_steps": (2048, 2048, 1024, 256, 32, 2048),
    "n_epochs": (10, 10, 4, 4, 20, 10),
    "batch_size": (1024, 1024, 512, 512, 256, 512),
    "ent_coef": (0.001, 0.001, 0.01, 0.0, 0.0, 0.0),
    "clip_range": (0.2,) * 6,
    "clip_range_vf": (0.2,) * 6,
    "learning_rate": (0.00025, 0.00025, 0.00025, 0.00025, 0.001, 0.0003),
    "gae_lambda": (0.95, 0.95, 0.98, 0.94, 0.8, 0.95),
    "gamma": (0.99, 0.99, 0.999, 0.99, 0.98, 0.99),
}
A2C = {
    "steps": (5_000_000, 200_000, 500_000, 500_000, 2_000_000),
    "n_envs": (16, 8, 16, 8, 8),
    "n_steps": (5,) * 5,
    "ent_coef": (0.0, 0.00001, 0.0, 0.0, 0.0),
    "learning_rate": (0.0007, 0.00083, 0.0007, 0.0007, 0.0007),
    "gamma": (0.99, 0.995, 0.99, 0.99, 0.95),
}
POPULATION = {
    "generations": (1024, 1024, 256, 256, 256),
    "population": (192, 128, 128, 128, 128),
}
STARS = {
    "ppo": {
        "BipedalWalkerHardcore-v3": {"clip_range", "clip_range_vf", "learning_rate"},
        "CartPole-v1": {"clip_range", "clip_range_vf", "learning_rate"},
    },
    "a2c": {"BipedalWalker-v3": {"learning_rate"}, "LunarLander-v3": {"learning_rate"}},
}


@pytest.mark.parametrize(
    ("algorithm", "table", "columns"),
    [
        ("ppo", PPO, SIX),
        ("a2c", A2C, FIVE),
        ("cmaes", POPULATION, FIVE),
        ("neat", POPULATION, FIVE),
    ],
)
def test_the_file_holds_the_table_of_the_paper(algorithm, table, columns):
    assert [name for name in SIX if is_published(algorithm, name)] == [*columns]
    for i, environment in enumerate(columns):
        settings = settings_for(algorithm, environment)
        assert {key: settings[key] for key in table} == {key: row[i] for key, row in table.items()}


@pytest.mark.parametrize("algorithm", ["ppo", "a2c"])
def test_what_has_a_star_decays_and_nothing_else(algorithm):
    for environment in SIX if algorithm == "ppo" else FIVE:
        stars = STARS[algorithm].get(environment, set())
        assert set(settings_for(algorithm, environment)["decay"]) == stars


def test_networks_of_the_appendix():
    for environment in SIX:
        assert settings_for("ppo", environment)["hidden"] == [64, 64]
    assert settings_for("cmaes", "BipedalWalker-v3")["hidden"] == [40, 40]
    assert settings_for("cmaes", "CartPole-v1")["hidden"] == [5, 5]
    neat = settings_for("neat", "Acrobot-v1")
    assert (neat["conn_add_prob"], neat["node_add_prob"]) == (0.15, 0.1)
    assert settings_for("cmaes", "LunarLander-v3")["episodes"] == 2


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_other_environments_have_general_settings(algorithm):
    settings = settings_for(algorithm, "MountainCar-v0")
    assert not is_published(algorithm, "MountainCar-v0")
    assert set(settings) == set(settings_for(algorithm, "CartPole-v1"))
    assert not is_published(algorithm, "general")


def test_a_module_before_the_name_does_not_matter():
    assert is_published("ppo", "some.module:CartPole-v1")
    assert settings_for("ppo", "some.module:CartPole-v1") == settings_for("ppo", "CartPole-v1")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_stepz": 1}, "no setting 'n_stepz'"),
        ({"n_steps": 1.5}, "n_steps"),
        ({"gamma": "high"}, "gamma"),
        ({"normalize_advantage": 1}, "normalize_advantage"),
        ({"hidden": 64}, "hidden"),
    ],
)
def test_changes_are_checked(changes, words):
    with pytest.raises(UsageError, match=words):
        settings_for("ppo", "CartPole-v1", changes)


def test_changes_replace_and_keep_their_kind():
    settings = settings_for("ppo", "CartPole-v1", {"gamma": 1, "decay": [], "hidden": [8]})
    assert settings["gamma"] == 1.0
    assert isinstance(settings["gamma"], float)
    assert (settings["decay"], settings["hidden"]) == ([], [8])
    assert settings_for("ppo", "CartPole-v1")["gamma"] == 0.98


def test_an_unknown_algorithm_is_named():
    with pytest.raises(UsageError, match="'sac'"):
        settings_for("sac", "CartPole-v1")
