"""Generations: what is kept, that populations improve, and that a stopped run goes on exactly."""

from __future__ import annotations

import json

import numpy as np
import pytest
from training_worlds import Follow, Nested, Switches

from pivec.errors import PivecError, UsageError
from pivec.policies import load_policies
from pivec.rollouts import Environment
from reproduction.training.evolution import (
    Architecture,
    Arena,
    CmaEs,
    NeatSearch,
    evolve,
    read_ledger,
    spaces_of,
)
from reproduction.training.runs import Run, settings_for

PACKAGES = {"cmaes": "cma", "neat": "neat"}


class Killed(Exception):
    """Stands for the end of the process."""


def run(path, algorithm, env="CartPole-v1", checkpoints=None, until=None, seed=0, **changes):
    """Evolve in this process; ``until`` ends it after so many reports."""
    pytest.importorskip(PACKAGES[algorithm])
    environment = Environment.of(env)
    values = settings_for(algorithm, environment.name, changes)
    folder = Run(path / f"{algorithm}-0", algorithm, environment, seed, values, checkpoints)
    folder.begin()
    reports = []

    def report(done, steps, mean_return):
        reports.append((done, steps, mean_return))
        if done == until:
            raise Killed

    evolve(folder, report)
    return folder, reports


def contents(folder):
    """Everything that a run leaves, policies by what they are."""
    kept = {
        named.info.label: (named.policy.fingerprint, named.info.metadata)
        for named in load_policies(folder.path)
    }
    plain = [folder.path / "run.json", folder.state / "generations.jsonl"]
    return kept, [path.read_bytes() for path in plain]


@pytest.mark.parametrize("algorithm", ["cmaes", "neat"])
def test_a_stopped_run_goes_on_exactly(tmp_path, algorithm):
    settings = {"generations": 7, "population": 10, "keep_every": 2, "seed": 3}
    whole, _ = run(tmp_path / "a", algorithm, **settings)
    for until in (1, 4, 6):
        with pytest.raises(Killed):
            run(tmp_path / "b", algorithm, until=until, **settings)
    # Killed in the middle of a line, and with a policy that was not written any more.
    with open(tmp_path / "b" / f"{algorithm}-0" / "state" / "generations.jsonl", "a") as file:
        file.write('{"checksum": "12')
    next((tmp_path / "b" / f"{algorithm}-0" / "generation_4").iterdir()).unlink()
    parts, reports = run(tmp_path / "b", algorithm, **settings)
    assert contents(parts) == contents(whole)
    assert [done for done, _, _ in reports] == list(range(1, 8))
    assert parts.finished().reason == "all generations are done"


@pytest.mark.parametrize("algorithm", ["cmaes", "neat"])
def test_a_quarter_of_every_tenth_generation_is_kept(tmp_path, algorithm):
    folder, reports = run(
        tmp_path, algorithm, generations=12, population=16, episodes=1, max_steps=20
    )
    kept = load_policies(folder.path)
    assert [named.info.step for named in kept] == [0] * 4 + [10] * 4
    assert {named.info.group for named in kept} == {f"{algorithm}-0"}
    told = kept[-1].info.metadata
    assert told["algorithm"] == algorithm
    assert (told["environment"], told["seed"], told["step"]) == ("CartPole-v1", 0, 10)
    assert 1 <= told["return"] <= 20
    assert told["environment_steps"] == reports[10][1]
    assert told["versions"]["numpy"] == np.__version__


def test_a_number_of_generations_is_spread(tmp_path):
    folder, _ = run(
        tmp_path, "cmaes", checkpoints=3, generations=9, population=4, episodes=1, max_steps=5
    )
    kept = sorted(path.name for path in folder.path.glob("generation_*"))
    assert kept == ["generation_0", "generation_4", "generation_8"]


@pytest.mark.parametrize("algorithm", ["cmaes", "neat"])
def test_populations_improve(tmp_path, algorithm):
    # The paper's first step of 0.2 leaves weights above 0, and so all actions at the upper bound.
    wide = {"sigma": 0.5} if algorithm == "cmaes" else {}
    folder, _ = run(tmp_path, algorithm, Follow, generations=25, population=24, episodes=4, **wide)
    generations = read_ledger(folder.state / "generations.jsonl")
    means = [played.fitness.mean() for played in generations]
    best = [played.fitness.max() for played in generations]
    assert np.mean(means[-3:]) > np.mean(means[:3]) + 2
    assert np.mean(best[-3:]) > -1


def test_observations_in_parts(tmp_path):
    folder, _ = run(tmp_path, "cmaes", Nested, generations=1, population=4)
    assert load_policies(folder.path)[0].policy.n_inputs == 3


def test_a_limit_of_steps_ends_the_run(tmp_path):
    folder, reports = run(
        tmp_path, "cmaes", Follow, generations=50, population=4, episodes=1, steps=100
    )
    assert folder.finished().steps == reports[-1][1] == 120
    assert folder.finished().reason == "all steps are done"


def test_a_generation_that_comes_out_differently_is_told(tmp_path):
    settings = {"generations": 3, "population": 4, "episodes": 1}
    with pytest.raises(Killed):
        run(tmp_path, "cmaes", Follow, until=2, **settings)
    path = tmp_path / "cmaes-0" / "state" / "generations.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1]["checksum"] = "another"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(PivecError, match="generation 1 comes out differently"):
        run(tmp_path, "cmaes", Follow, **settings)


def test_numbers_of_the_ledger_come_back_exactly(tmp_path):
    fitness = np.random.default_rng(0).normal(size=5) / 3
    row = {"checksum": "abc", "fitness": fitness.tolist(), "steps": 7}
    (tmp_path / "l").write_text(json.dumps(row) + "\n")
    [again] = read_ledger(tmp_path / "l")
    np.testing.assert_array_equal(again.fitness, fitness)
    assert (again.checksum, again.steps) == ("abc", 7)


def test_actions_that_no_population_takes_are_refused():
    with pytest.raises(UsageError, match="MultiBinary"):
        Architecture.of(Switches.observation_space, Switches.action_space)
    with pytest.raises(UsageError, match="discrete must be one of categorical, epsilon_greedy, pr"):
        Architecture.of(Switches.observation_space, Switches.action_space, discrete="gaussian")


@pytest.mark.parametrize(("algorithm", "parts"), [("cmaes", 3), ("neat", 2)])
def test_drawn_actions_do_not_depend_on_how_a_generation_is_cut(tmp_path, algorithm, parts):
    pytest.importorskip(PACKAGES[algorithm])
    environment = Environment("Acrobot-v1")  # three actions, so that there is something to draw
    values = settings_for(algorithm, "Acrobot-v1", {"population": 6, "max_steps": 30})
    shape = Architecture.of(
        *spaces_of(environment),
        values.get("hidden", ()),
        "sigmoid",
        discrete=values["discrete"],
        first_biases=True,
    )
    search = (CmaEs if algorithm == "cmaes" else NeatSearch)(shape, values, 0)
    population = search.ask()
    taken = []
    for room in (6, parts):
        arena = Arena(environment, room, 2, 3, 30, shape.rule.noise)
        seen = []
        for first in range(0, 6, room):
            answer = search.answer(population[first : first + room], room, 2)
            actions = []

            def watched(rows, noise, answer=answer, actions=actions):
                actions.append(answer(rows, noise))
                return actions[-1]

            arena.play(watched, 1)
            seen.append(np.stack(actions))
        taken.append(np.concatenate(seen, axis=1))
        arena.close()
    np.testing.assert_array_equal(*taken)
    assert len(np.unique(taken[0])) > 1
