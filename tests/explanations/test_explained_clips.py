"""Clips: what is burnt in, how fast they play, and that they are made once."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import filmed_worlds as worlds
import numpy as np
import pytest
from PIL import Image, ImageSequence

import pivec
from pivec.errors import PivecWarning, UsageError
from pivec.explanations import Replayer, record_episodes
from pivec.explanations import clips as montage
from pivec.explanations.clips import Reel, Scene, clip, clips, draw_clip
from pivec.explanations.replay import CannotReplay, Job, Take, attempt
from pivec.parallel import Engine, using
from pivec.states import Store


@pytest.fixture
def replayer(tmp_path):
    pivec.collect(worlds.make_walk, "random", 2, seed=5, store=tmp_path / "s")
    return Replayer(Store(tmp_path / "s"), worlds.make_walk)


def shown(file):
    """Read all pictures of a clip, and for how long each is shown."""
    with Image.open(file) as film:
        frames_ = [(np.asarray(f.convert("RGB")), f.info["duration"]) for f in
                   ImageSequence.Iterator(film)]  # fmt: skip
    return [picture for picture, _ in frames_], [time for _, time in frames_]


def drawn(replayer, scenes, file, seconds=10.0):
    reel = Reel(tuple(scenes), tuple(scene.ends for scene in scenes), file, seconds)
    made = attempt(Job(replayer.studio, draw_clip, reel))
    return shown(io.BytesIO(made[file]))


def place_in(picture, left):
    """Where the walker stands in a panel of 240 points, whose picture of 192 is in the middle."""
    row = picture[20, left + 24 : left + 216].astype(int).sum(axis=1)
    return int(row.reshape(8, 24).mean(axis=1).argmax())


def test_two_scenes_go_on_side_by_side_and_the_shorter_one_stays(replayer, tmp_path):
    a, b = (replayer.stored("random", number) for number in (0, 1))
    scenes = [Scene(a, 2, 12, ["going"] * 11), Scene(b, 0, 4)]
    pictures, times = drawn(replayer, scenes, tmp_path / "x.webp")
    # 10 pictures a second: all of them, and a second for the last.
    assert times == [100] * 10 + [1000]
    assert pictures[0].shape == (48 + 3 + 2 * 15 + 6, 240 + 4 + 240, 3)
    for k, picture in enumerate(pictures):
        assert place_in(picture, 0) == a.states[2 + k, 0]
        assert place_in(picture, 244) == b.states[min(k, 4), 0]
    pale = [picture[20, 244 + 24 : 244 + 216].min() > 100 for picture in pictures]
    assert pale == [False] * 5 + [True] * 6  # what has ended is pale
    progress = [(picture[49, :240, 0].astype(int) < 150).sum() for picture in pictures]
    assert progress == sorted(progress)
    assert progress[-1] > 230


def test_a_clip_is_at_most_so_long(replayer, tmp_path):
    take = replayer.stored("random", 0)
    _, times = drawn(replayer, [Scene(take, 0, 12)], tmp_path / "x.webp", seconds=0.4)
    assert times == [67] * 6 + [1000]  # every second, and faster
    frame, _ = drawn(replayer, [Scene(take, 3, 3)], tmp_path / "y.webp")
    assert len(frame) == 1


@pytest.mark.parametrize(
    ("steps", "rate", "every", "time"),
    [(300, 50, 2, 40), (300, 30, 2, 66.7), (1000, 50, 4, 40), (12, 4, 1, 250), (100, 4, 1, 100)],
)
def test_the_pace_is_that_of_the_environment(steps, rate, every, time):
    take = Take("a", "", 0, np.zeros(steps), np.zeros((steps + 1, 1), np.float32))
    reel = Reel((Scene(take, 0, steps),), (True,), Path("x.webp"), 10.0)
    k, milliseconds = reel.pace(rate)
    assert (k, round(milliseconds, 1)) == (every, time)


def test_text_of_any_kind_is_drawn_and_fits(replayer, tmp_path):
    take = replayer.stored("random", 0)
    odd = "\x1b[31m\n" + "Ωж漢\u202e" * 40
    scene = Scene(replace(take, label=odd), 0, 2, [odd, "", "many words " * 50])
    pictures, _ = drawn(replayer, [scene], tmp_path / "x.webp")
    assert pictures[0].shape[:2] == (48 + 3 + 3 * 15 + 6, 240)
    label, *lines = montage._label(odd, 100.0), *montage._wrapped("many words " * 50, 228.0)
    assert montage._font(bold=True).getlength(label) <= 100
    assert len(lines) == 2
    assert lines[1].endswith("…")
    assert montage._font().getlength(lines[1]) <= 228
    assert label.startswith("\\x1b[3")


def test_clips_are_made_once_in_processes_and_known_by_what_they_show(
    replayer, tmp_path, monkeypatch
):
    a, b = (replayer.stored("random", number) for number in (0, 1))
    first = [Scene(a, 0, 6), Scene(b, 0, 6)]
    broken = replace(b, states=b.states + np.float32(1))
    with using("processes", 1):  # fewer processes to start
        made, failed = clips(replayer, [first, [Scene(broken, 0, 3)]], tmp_path / "c")
    assert made.suffix == ".webp"
    assert "another state" in failed
    monkeypatch.setattr(Engine, "map", None)
    assert clip(replayer, first, tmp_path / "c") == made
    others = [
        [Scene(a, 0, 6)],
        [Scene(a, 0, 7), Scene(b, 0, 6)],
        [Scene(a, 1, 6), Scene(b, 0, 6)],
        [Scene(replace(a, label="x"), 0, 6), Scene(b, 0, 6)],
        [Scene(a, 0, 6, ["x"] * 7), Scene(b, 0, 6)],
    ]
    for scenes in others:
        with pytest.raises(TypeError):  # it would be made
            clip(replayer, scenes, tmp_path / "c")


def test_what_cannot_be_filmed_is_said(tmp_path):
    pivec.collect(worlds.make_walk, "random", 1, seed=5, store=tmp_path / "s", actions=True)
    take = Replayer(Store(tmp_path / "s")).stored("random", 0)  # needs no environment
    with pytest.raises(CannotReplay, match="function make_walk"):
        clip(Replayer(Store(tmp_path / "s")), [Scene(take, 0, 3)], tmp_path / "c")
    with pytest.raises(UsageError, match="steps 0 to 12"):
        Scene(take, 3, 13)
    with pytest.raises(UsageError, match="needs 4 captions, not 2"):
        Scene(take, 0, 3, ["a", "b"])


def test_whole_episodes_are_filmed_as_gif_also_of_thinned_policies(tmp_path):
    def make(render_mode=None):  # which cannot travel, so that it is drawn here
        return worlds.Walk(render_mode=render_mode)

    np.savez(tmp_path / "other.npz", states=np.zeros((1, 3, 2)))
    data = pivec.collect(make, ["random:2", f"npz:{tmp_path}"], 2, seed=5, store=tmp_path / "s",
                         max_states_per_policy=20)  # fmt: skip
    assert data.records[0].every > 1
    replayer = Replayer(Store(tmp_path / "s"), make)
    wanted = [("random-0", 0), ("other", 0), ("random-1", 1)]
    with pytest.warns(PivecWarning, match="other was recorded elsewhere"):
        paths = record_episodes(replayer, wanted, tmp_path / "f", False)
    names = [path.relative_to(tmp_path / "f").as_posix() for path in paths]
    assert names == ["random-0/episode-0.gif", "random-1/episode-1.gif"]
    pictures, _ = shown(paths[0])
    assert len(pictures) == 13
    with pytest.raises(CannotReplay, match="recorded elsewhere"):
        record_episodes(replayer, wanted[1:2], tmp_path / "f", False)
