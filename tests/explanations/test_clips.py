"""Clips: what is burnt in, how fast they play, and that they are made once."""

from __future__ import annotations

import io
from dataclasses import replace

import filmed_worlds as worlds
import numpy as np
import pytest
from PIL import Image, ImageSequence

import pivec
import pivec.explanations.clips as clips
from pivec.errors import PivecWarning
from pivec.explanations import CannotReplay, Replayer, record_episodes
from pivec.explanations.clips import ClipPlan, Segment, draw_clip, make_clips, pace
from pivec.options import ReplayOptions
from pivec.parallel import Engine, using
from pivec.states import Store


@pytest.fixture
def replayer(tmp_path):
    pivec.collect(worlds.make_walk, "random", 2, seed=5, store=tmp_path / "s")
    return Replayer(Store(tmp_path / "s"), ReplayOptions(env=worlds.make_walk))


def shown(file):
    """Read all pictures of a clip, and for how long each is shown."""
    with Image.open(file) as film:
        frames_ = [(np.asarray(f.convert("RGB")), f.info["duration"]) for f in
                   ImageSequence.Iterator(film)]  # fmt: skip
    return [picture for picture, _ in frames_], [time for _, time in frames_]


def drawn(replayer, scenes, file, seconds=10.0):
    made = draw_clip([replayer.scene] * len(scenes), scenes, file, seconds)
    return shown(io.BytesIO(made[file]))


def clips_of(replayer, segments, folder):
    return make_clips([ClipPlan("title", segments=own) for own in segments], replayer, folder)


def place_in(picture, left):
    """Where the walker stands in a panel of 240 points, whose picture of 192 is in the middle."""
    row = picture[20, left + 24 : left + 216].astype(int).sum(axis=1)
    return int(row.reshape(8, 24).mean(axis=1).argmax())


def test_two_scenes_go_on_side_by_side_and_the_shorter_one_stays(replayer, tmp_path):
    a, b = (replayer.stored("random", number) for number in (0, 1))
    scenes = [Segment(a, 2, 12, ["going"] * 11), Segment(b, 0, 4)]
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
    replay = replayer.stored("random", 0)
    _, times = drawn(replayer, [Segment(replay, 0, 12)], tmp_path / "x.webp", seconds=0.4)
    assert times == [67] * 6 + [1000]  # every second, and faster
    frame, _ = drawn(replayer, [Segment(replay, 3, 3)], tmp_path / "y.webp")
    assert len(frame) == 1


@pytest.mark.parametrize(
    ("steps", "rate", "every", "time"),
    [(300, 50, 2, 40), (300, 30, 2, 66.7), (1000, 50, 4, 40), (12, 4, 1, 250), (100, 4, 1, 100)],
)
def test_the_pace_is_that_of_the_environment(steps, rate, every, time):
    k, milliseconds = pace(steps, rate, 10.0)
    assert (k, round(milliseconds, 1)) == (every, time)


def test_text_of_any_kind_is_drawn_and_fits(replayer, tmp_path):
    replay = replayer.stored("random", 0)
    odd = "\x1b[31m\n" + "Ωж漢\u202e" * 40
    scene = Segment(replace(replay, label=odd), 0, 2, [odd, "", "many words " * 50])
    pictures, _ = drawn(replayer, [scene], tmp_path / "x.webp")
    assert pictures[0].shape[:2] == (48 + 3 + 3 * 15 + 6, 240)


def test_clips_are_made_once_in_processes_and_known_by_what_they_show(
    replayer, tmp_path, monkeypatch
):
    a, b = (replayer.stored("random", number) for number in (0, 1))
    first = [Segment(a, 0, 6), Segment(b, 0, 6)]
    broken = replace(b, states=b.states + np.float32(1))
    with using("processes", 1):  # fewer processes to start
        made, failed = clips_of(replayer, [first, [Segment(broken, 0, 3)]], tmp_path / "c")
    assert made.path.suffix == ".webp"
    assert "another state" in failed.reason
    monkeypatch.setattr(Engine, "map", None)
    assert clips_of(replayer, [first], tmp_path / "c") == (made,)
    others = [
        [Segment(a, 0, 6)],
        [Segment(a, 0, 7), Segment(b, 0, 6)],
        [Segment(a, 1, 6), Segment(b, 0, 6)],
        [Segment(replace(a, label="x"), 0, 6), Segment(b, 0, 6)],
        [Segment(a, 0, 6, ["x"] * 7), Segment(b, 0, 6)],
    ]
    for scenes in others:
        with pytest.raises(TypeError):  # it would be made
            clips_of(replayer, [scenes], tmp_path / "c")


def test_what_cannot_be_filmed_is_said(tmp_path):
    pivec.collect(worlds.make_walk, "random", 1, seed=5, store=tmp_path / "s", actions=True)
    replay = Replayer(Store(tmp_path / "s")).stored("random", 0)  # needs no environment
    [clip] = clips_of(Replayer(Store(tmp_path / "s")), [[Segment(replay, 0, 3)]], tmp_path / "c")
    assert "make_walk" in clip.reason


def on_sheet(content, layout, frame):
    """Cut a frame out of a sheet."""
    columns, width, height = layout
    with Image.open(io.BytesIO(content)) as sheet:
        left, top = frame % columns * width, frame // columns * height
        return np.asarray(sheet.convert("RGB"))[top : top + height, left : left + width]


def place_on(frame):
    """Where the walker stands in a frame of 192 points."""
    return int(frame[20].astype(int).sum(axis=1).reshape(8, 24).mean(axis=1).argmax())


def test_each_segment_has_a_sheet_with_a_frame_for_every_step(replayer, tmp_path):
    a, b = (replayer.stored("random", number) for number in (0, 1))
    scenes = [Segment(a, 2, 12, ["x", "y"] * 5 + ["x"], True), Segment(b, 0, 4)]
    file, told = tmp_path / "x.webp", []
    made = draw_clip([replayer.scene] * len(scenes), scenes, file, 0.4, told.append)
    for path, content in made.items():
        path.write_bytes(content)
    clip = ClipPlan("title", "words", scenes).clip(file)
    assert (clip.path, clip.fps, len(clip.sheets)) == (file, 10.0, 2)
    for sheet, segment, replay in zip(clip.sheets, scenes, (a, b), strict=True):
        assert (sheet.label, sheet.episode, sheet.seed) == ("random", replay.episode, replay.seed)
        assert (sheet.first, sheet.last, sheet.every) == (segment.first, segment.last, 1)
        assert sheet.frames == segment.last - segment.first + 1
        layout = sheet.columns, sheet.width, sheet.height
        for k in range(sheet.frames):
            frame = on_sheet(sheet.path.read_bytes(), layout, k)
            assert place_on(frame) == replay.states[segment.first + k, 0]
    assert clip.sheets[0].is_end
    assert [clip.sheets[0].texts[k] for k in clip.sheets[0].captions] == ["x", "y"] * 5 + ["x"]
    assert clip.sheets[1].captions == ()
    # The first frames come first, then how much is drawn.
    first, *rest = told
    assert first.share == 0.0
    for frame, replay, step in zip(first.first, (a, b), (2, 0), strict=True):
        shown = on_sheet(frame.content, (1, frame.width, frame.height), 0)
        assert place_on(shown) == replay.states[step, 0]
    shares = [drawn.share for drawn in rest]
    assert shares == sorted(shares)
    assert 0.5 < shares[-1] <= 1.0


@pytest.mark.parametrize("limit", ["_SHEET_PIXELS", "_SHEET_BYTES"])
def test_a_sheet_that_would_be_too_large_has_fewer_frames(replayer, tmp_path, monkeypatch, limit):
    replay, file = replayer.stored("random", 0), tmp_path / "x.webp"
    scenes = [Segment(replay, 0, 12), Segment(replay, 3, 8)]
    area = 192 * 48
    monkeypatch.setattr(clips, limit, 6 * area if limit == "_SHEET_PIXELS" else 500)
    for path, content in draw_clip([replayer.scene] * len(scenes), scenes, file, 10.0).items():
        path.write_bytes(content)
    plan = ClipPlan("title", segments=scenes)
    fps, sheets = plan.sheets(file)
    every = sheets[0].every
    assert every > 1
    assert fps == 10.0 / every
    for sheet, segment in zip(sheets, scenes, strict=True):
        assert sheet.every == every  # of both, on one timeline
        steps = [*range(segment.first, segment.last, every), segment.last]
        assert sheet.frames == len(steps)
        content = sheet.path.read_bytes()
        layout = sheet.columns, sheet.width, sheet.height
        shown = [place_on(on_sheet(content, layout, k)) for k in range(len(steps))]
        assert shown == replay.states[steps, 0].tolist()
        if limit == "_SHEET_PIXELS":
            assert len(steps) * area <= 6 * area
    if limit == "_SHEET_BYTES":
        assert sum(len(sheet.path.read_bytes()) for sheet in sheets) <= 500


def test_a_clip_whose_sheets_are_gone_or_broken_is_made_again(replayer, tmp_path):
    segments = [Segment(replayer.stored("random", 0), 0, 3)]
    with using("serial"):
        (made,) = clips_of(replayer, [segments], tmp_path)
        sheet = made.sheets[0]
        known = made.path.with_suffix(".json")
        for content in ("", "[]", "{}", '{"fps": 0, "every": 1, "layouts": [[1, 1, 1]]}',
                        '{"fps": 10, "every": 1, "layouts": []}'):  # fmt: skip
            known.write_text(content)
            assert clips_of(replayer, [segments], tmp_path) == (made,)
            assert len(known.read_text()) > 40
        sheet.path.unlink()
        assert clips_of(replayer, [segments], tmp_path) == (made,)
        assert sheet.path.is_file()


def test_progress_of_all_clips_is_reported(replayer, tmp_path):
    plans = [
        ClipPlan(f"clip {n}", segments=[Segment(replayer.stored("random", n), 0, 6)])
        for n in (0, 1)
    ]
    heard = []
    with using("serial"):
        make_clips(plans, replayer, tmp_path, on_drawn=lambda *message: heard.append(message))
    assert [plan.title for plan, drawn in heard if drawn.first] == ["clip 0", "clip 1"]
    shares = [drawn.share for _, drawn in heard]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert any(0.4 < share < 0.6 for share in shares)


def test_whole_episodes_are_filmed_as_gif_also_of_thinned_policies(tmp_path):
    def make(render_mode=None):  # which cannot travel, so that it is drawn here
        return worlds.Walk(render_mode=render_mode)

    np.savez(tmp_path / "other.npz", states=np.zeros((1, 3, 2)))
    data = pivec.collect(make, ["random:2", f"npz:{tmp_path}"], 2, seed=5, store=tmp_path / "s",
                         max_states_per_policy=20)  # fmt: skip
    assert data.records[0].every > 1
    replayer = Replayer(Store(tmp_path / "s"), ReplayOptions(env=make))
    wanted = [("random-0", 0), ("other", 0), ("random-1", 1)]
    with pytest.warns(PivecWarning, match="other .*elsewhere"):
        paths = record_episodes(replayer, wanted, tmp_path / "f", False)
    names = [path.relative_to(tmp_path / "f").as_posix() for path in paths]
    assert names == ["random-0/episode-0.gif", "random-1/episode-1.gif"]
    pictures, _ = shown(paths[0])
    assert len(pictures) == 13
    with pytest.raises(CannotReplay, match="elsewhere"):
        record_episodes(replayer, wanted[1:2], tmp_path / "f", False)
