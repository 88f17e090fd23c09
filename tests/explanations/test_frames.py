"""A frame belongs to its state or is not shown; an environment that fails costs its own only."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import filmed_worlds as worlds
import gymnasium
import numpy as np
import pytest
from PIL import Image

import pivec
from pivec.errors import PivecError
from pivec.explanations import CannotReplay, Replayer
from pivec.explanations.clips import (
    RenderJob,
    draw_frames,
    frame_jobs,
    frame_name,
    pictures,
    render,
    resized,
    run_job,
)
from pivec.options import ReplayOptions
from pivec.parallel import Engine, Reply, WorkFailed, using
from pivec.states import Store

pytest.importorskip("pygame")

SLOW = {"CarRacing-v3"}


def drawable():
    """Name every registered environment, of the newest version, that can be made and drawn."""
    for name, spec in sorted(gymnasium.registry.items()):
        newer = f"{name.rpartition('-v')[0]}-v{int(spec.version or 0) + 1}"
        module = str(spec.entry_point)
        known = module.startswith(("gymnasium.envs.classic", "gymnasium.envs.toy", "reproduction"))
        if (known or "box2d" in module) and newer not in gymnasium.registry:
            yield pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])


def replayed(env, where, **options):
    pivec.collect(env, "random", 2, seed=5, store=where, **options)
    return Replayer(Store(where), ReplayOptions(env=None if isinstance(env, str) else env))


def render_frames(*arguments):
    return render(frame_jobs(*arguments))


@pytest.mark.parametrize("name", list(drawable()))
def test_frames_belong_to_their_states(name, tmp_path):
    if "LunarLander" in name or "Bipedal" in name or "CarRacing" in name:
        pytest.importorskip("Box2D")
    replayer = replayed(name, tmp_path, max_steps=25)
    take = replayer.stored("random", 1)
    steps = sorted({0, take.last // 2, take.last})
    shown = dict(pictures(replayer.scene, take, steps))
    assert list(shown) == steps
    assert all(frame.dtype == np.uint8 and frame.shape[2] == 3 for frame in shown.values())
    changed = take.states.copy()
    changed[take.last // 2] = np.nextafter(changed[take.last // 2], np.float32(9))
    changed = replace(take, states=changed)
    drawn = []
    with pytest.raises(CannotReplay, match=f"step {take.last // 2} of random"):
        drawn += pictures(replayer.scene, changed, [take.last])
    assert not drawn


def test_the_picture_is_that_of_the_step(tmp_path):
    replayer = replayed(worlds.make_walk, tmp_path)
    take = replayer.stored("random", 0)
    assert replayer.scene.fps == 10
    for step, frame in pictures(replayer.scene, take, range(13)):
        assert frame[0, :, 0].argmax() == 8 * take.states[step, 0]


def test_a_doctored_store_shows_no_frame(tmp_path):
    data = pivec.collect(worlds.make_walk, "random", 2, seed=5, actions=True)
    (record,) = data.records
    states, actions = record.read_arrays()
    states = states.copy()
    states[13 + 6, 0] += 1  # of the second episode
    store = Store(
        tmp_path / "s", {"environment": "make_walk", "backend": "gymnasium"}, data.feature_names
    )
    with store.writing():
        store.add(replace(record, read_arrays=lambda: (states, actions)))
    replayer = Replayer(Store(tmp_path / "s"), ReplayOptions(env=worlds.make_walk))
    takes = [replayer.stored("random", number) for number in (0, 1)]
    early, late = tmp_path / "early.webp", tmp_path / "late.webp"
    assert list(draw_frames(replayer.scene, takes[0], {12: early})) == [early]
    with pytest.raises(CannotReplay, match="step 6 of random"):
        draw_frames(replayer.scene, takes[1], {12: late})


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_pictures_are_made_once_by_every_engine(tmp_path, monkeypatch, engine):
    replayer = replayed(worlds.make_walk, tmp_path / "s")
    takes = [replayer.stored("random", number) for number in (0, 1)]
    wanted = [(takes[0], [0, 12]), (takes[1], [3])]
    with using(engine, 1):  # fewer processes to start
        first, second = render_frames(replayer, wanted, tmp_path / "f")
    assert (list(first), list(second)) == ([0, 12], [3])
    with Image.open(first[12]) as picture:
        assert (picture.format, picture.size) == ("WEBP", (192, 48))
    assert len(list((tmp_path / "f").iterdir())) == 3
    monkeypatch.setattr(Engine, "map", None)  # nobody draws again
    assert render_frames(replayer, wanted, tmp_path / "f") == [first, second]
    # Another past is another picture.
    other = replace(takes[0], actions=1 - takes[0].actions)
    world = replayer.environment
    assert frame_name(world, takes[0], 0) == frame_name(world, other, 0)
    assert frame_name(world, takes[0], 12) == frame_name(world, takes[0].until(12), 12)
    assert frame_name(world, takes[0], 12) != frame_name(world, other, 12)


def test_what_ends_all_processes_is_given_up(tmp_path):
    class Deadly(Engine):
        tried = 0

        def _map(self, task, items):
            for item in items:
                self.tried += 1
                yield Reply(item, failure=WorkFailed("its process died"))

    replayer = replayed(worlds.make_walk, tmp_path / "s")
    take = replayer.stored("random", 0)
    with using(Deadly()) as engine:
        results = render_frames(replayer, [(take, [step]) for step in range(6)], tmp_path / "f")
    assert engine.tried == 3
    assert results == ["make_walk cannot be rendered: its process died"] * 6


def test_a_cluster_draws_the_same(ray_engine, tmp_path):
    replayer = replayed(worlds.make_walk, tmp_path / "s")
    wanted = [(replayer.stored("random", number), [0, 12]) for number in (0, 1)]
    drawn = {}
    for engine in ("serial", ray_engine):
        with using(engine):
            files = render_frames(replayer, wanted, tmp_path / str(engine))
        drawn[engine] = [made[step].read_bytes() for made in files for step in (0, 12)]
    assert drawn["serial"] == drawn[ray_engine]


def test_an_environment_that_ends_its_process_costs_its_own_frames_only(tmp_path):
    pivec.collect(worlds.make_dying, "random", 4, seed=5, store=tmp_path / "s")
    replayer = Replayer(Store(tmp_path / "s"), ReplayOptions(env=worlds.make_dying))
    takes = [replayer.stored("random", number) for number in range(4)]
    dying = [bool(take.states[0, 0] < 4) for take in takes]
    assert sum(dying) == 1
    assert not dying[-1]
    with using("processes", 1):
        results = render_frames(replayer, [(take, [2, 3]) for take in takes], tmp_path / "f")
    for result, dies in zip(results, dying, strict=True):
        assert isinstance(result, str) == dies
        assert not dies or "make_dying" in result
        assert not dies or "its process ended with code 3" in result


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (worlds.make_raising, "render(): the screen fell off"),
        (worlds.make_undrawn, "rgb_array"),
        (worlds.make_blind, "render_mode"),
    ],
)
def test_what_cannot_be_drawn_is_a_sentence(tmp_path, make, words):
    replayer = replayed(make, tmp_path / "s")
    take = replayer.stored("random", 0)
    with pytest.raises(PivecError, match=re.escape(words)):
        draw_frames(replayer.scene, take, {3: tmp_path / "x.webp"})


def test_what_cannot_travel_is_drawn_here(tmp_path):
    def make(render_mode=None):
        return worlds.Walk(render_mode=render_mode)

    replayer = replayed(make, tmp_path / "s")
    (result,) = render_frames(replayer, [(replayer.stored("random", 0), [1])], tmp_path / "f")
    assert result[1].exists()


def test_a_process_has_no_screen(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "offscreen")
    monkeypatch.delenv("SDL_AUDIODRIVER", raising=False)
    assert run_job(RenderJob("x", lambda _: {}, None), None) == {}
    assert (os.environ["SDL_VIDEODRIVER"], os.environ.pop("SDL_AUDIODRIVER")) == (
        "offscreen",
        "dummy",
    )


def test_a_process_that_draws_imports_nothing_heavy():
    code = "import sys, pivec.explanations.clips; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    heavy = {"matplotlib", "numba", "pyarrow", "scipy", "sklearn", "torch"}
    assert not heavy & set(done.stdout.split())


def test_pictures_are_of_a_handy_size():
    assert resized(np.zeros((400, 640, 3), np.uint8)).size == (320, 200)
    assert resized(np.zeros((7, 9, 3), np.uint8)).size == (162, 126)
    assert resized(np.zeros((200, 200, 3), np.uint8)).size == (200, 200)
