"""Runs of novelty search in their folders: checkpoints, stops, the command line."""

from __future__ import annotations

import numpy as np
import pytest

import pivec
from pivec.errors import PivecError, UsageError
from pivec.rollouts import Environment
from reproduction.training.novelty import read_generations, search
from reproduction.training.runs import Run, is_published, settings_for
from reproduction.training.train import train

POINT = "pivec/DeceptivePoint-v0"
FEW = {"generations": 4, "batch_episodes": 4, "batch_steps": 0, "behaviour_episodes": 1}


def test_a_run_leaves_policies_that_can_be_compared(tmp_path) -> None:
    few = {**FEW, "behaviour": 'supervector{"n_components": 2}'}
    [run] = train(POINT, "nsr-es", tmp_path, settings=few, seed=2)
    assert len(list(run.folder.glob("*.safetensors"))) == 4
    assert run.reason == "all generations are done"
    history = read_generations(run.folder)
    assert [each.number for each in history] == [0, 1, 2, 3]
    assert history[-1].steps == run.steps == 300 + 4 * 500
    assert history[-1].best_return == run.mean_return
    data = pivec.collect(POINT, str(run.folder), episodes=1)
    assert data.steps == (0, 1, 2, 3)
    assert data.groups == ("nsr-es-0",) * 4
    # The policies that are kept are those whose returns are told: noise aside they play alike.
    told = [each.mean_return for each in history]
    np.testing.assert_allclose(data.mean_returns, told, atol=0.05)
    assert train(POINT, "nsr-es", tmp_path, settings=few, seed=2)[0].reused


def test_checkpoints_and_steps_are_what_was_asked_for(tmp_path) -> None:
    [run] = train(POINT, "es", tmp_path, settings=FEW, checkpoints=[0, 2], steps=1400)
    assert {path.name for path in run.folder.glob("*.safetensors")} == {
        "generation_0.safetensors",
        "generation_2.safetensors",
    }
    assert (run.steps, run.reason) == (1500, "all steps are done")


class Stop(Exception):
    """Ends a run in the middle."""


@pytest.mark.bits
def test_a_run_that_was_killed_goes_on_to_the_same_numbers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("reproduction.training.novelty._SECONDS", 0.0)
    values = settings_for("nsr-es", POINT, {**FEW, "behaviour": "gaussian"})

    def go(name, stop=None):
        folder = Run(tmp_path / name, "nsr-es", Environment(POINT), 5, values)
        folder.begin()

        def report(done, steps, mean_return):
            if done == stop:
                raise Stop

        search(folder, report)
        return folder.path

    whole = go("whole")
    with pytest.raises(Stop):
        go("parts", stop=3)
    assert not (tmp_path / "parts" / "generations.csv").exists()
    parts = go("parts")
    assert read_generations(parts) == read_generations(whole)
    kept = [[one.policy.fingerprint for one in pivec.load_policies(run)] for run in (whole, parts)]
    assert len(kept[0]) == 4
    assert kept[0] == kept[1]


def test_a_damaged_state_is_told(tmp_path) -> None:
    folder = Run(tmp_path / "run", "es", Environment(POINT), 0, settings_for("es", POINT, FEW))
    folder.begin()
    (folder.state / "search.npz").write_bytes(b"no")
    with pytest.raises(PivecError, match="cannot be read"):
        search(folder, print)


def test_mistakes_are_told_before_anything_starts(tmp_path) -> None:
    for behaviour in ("gausian", 3):
        with pytest.raises(UsageError, match=str(behaviour)):
            train(POINT, "nsr-es", tmp_path, settings={"behaviour": behaviour})
    with pytest.raises(UsageError, match="es has no setting 'behaviour'"):
        train(POINT, "es", tmp_path, settings={"behaviour": "gaussian"})
    assert not list(tmp_path.iterdir())
    with pytest.raises(PivecError, match="finished es or nsr-es run"):
        read_generations(tmp_path)


def test_the_papers_settings() -> None:
    settings = settings_for("nsr-es", POINT)
    assert is_published("nsr-es", POINT)
    expected = {"generations": 128, "population": 3, "neighbours": 10, "sigma": 0.02, "l2": 0.005}
    assert expected.items() <= settings.items()
    shared = set(settings_for("es", POINT))
    assert shared == set(settings) - {*("population", "behaviour", "neighbours", "novelty_weight")}
    assert all(settings[key] == settings_for("es", POINT)[key] for key in shared)
