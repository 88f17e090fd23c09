"""Pictures of regions: few episodes, near the middle; who cannot be played again is passed over."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import pivec
from pivec.characterizations import Space, Visitation
from pivec.explanations import ComparisonFolder, summarize_regions
from pivec.options import ReplayOptions
from pivec.states import Store


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filmed")
    policies = ["random", lambda seen: (seen[:, 2] > 0).astype(int)]
    data = pivec.collect("CartPole-v1", policies, episodes=6, store=folder / "states")
    method = Visitation(n_components=4).fit(data)
    collected = dict(Store(folder / "states").settings)
    Space(method, method.describe(data), collected=collected).save(folder / "space")
    return folder


def test_frames_are_of_states_of_their_region(compared, tmp_path):
    """Of two policies a function cannot be found again: the other shows what it can."""
    findings = ComparisonFolder.open(compared)
    faces = summarize_regions(findings, frames=tmp_path)
    drawn = [region for region in faces if region.frame]
    assert drawn
    for region in drawn:
        visit = region.frame.visit
        assert visit.policy == "random"
        states = list(findings.states["random"].episodes())[visit.episode][visit.step :]
        move = np.concatenate([states[0], states[1] - states[0]])
        assert findings.background.background_.assign(move[None])[0] == [region.number]
        nearest = next(visit for visit in region.visits if visit.policy == "random")
        assert visit.distance <= nearest.distance + 0.25
        with Image.open(region.frame.path) as image:
            assert image.format == "WEBP"
    # An episode that shows several regions is preferred.
    assert len({region.frame.visit.episode for region in drawn}) < len(drawn)
    mine = {region.number for region in summarize_regions(findings) if _visited(region, "random")}
    assert {region.number for region in drawn} == mine
    if len(mine) < len(faces):
        assert f"no picture of {len(faces) - len(mine)} region" in faces.notes[0]
    content = faces.to_json()["regions"][drawn[0].number]
    assert (tmp_path.parent / content["frame"]["path"]).exists()


def _visited(region, label):
    return any(visit.policy == label for visit in region.visits)


def test_what_cannot_be_drawn_leaves_the_rest(compared, tmp_path):
    """An environment that cannot be made: words and shares stay, and a sentence says why."""
    faces = summarize_regions(
        compared, frames=tmp_path, replay=ReplayOptions(env_kwargs={"wheels": 3})
    )
    assert len(faces) == 4
    assert not any(region.frame for region in faces)
    assert "no picture of 4 regions: " in faces.notes[-1]
    assert "(and 1 other reason)" in faces.notes[-1]  # that of the function
