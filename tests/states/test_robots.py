"""Datasets of robots: one policy each, with the right episodes, names, outcomes and frames."""

from __future__ import annotations

import json
import shutil
import sys
import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pivec.errors import BadData, MissingExtra, PivecError, PivecWarning, UsageError
from pivec.options import TableOptions
from pivec.states import find_recorded, import_recorded, is_recorded
from pivec.states.robots import films_of
from robot_files import CAMERA, FPS, MOTORS, colour, walks, write_lerobot, write_robomimic

VERSIONS = ("v2.1", "v3.0")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_dataset_is_one_policy_with_named_features_and_outcomes(tmp_path, version):
    made = walks()
    more = {"operator": [*"aabbcc"], "quality": [1.0, 2.0, 3.0, 4.0, None, 6.0], "seed": [5] * 6}
    write_lerobot(tmp_path / "demos", made, version, more=more)
    data = import_recorded([tmp_path / "demos"], tmp_path / "store")
    assert data.labels == ("demos",)
    assert data.feature_names == tuple(MOTORS)
    np.testing.assert_array_equal(data.states, np.concatenate(made))
    np.testing.assert_array_equal(data.lengths, [len(walk) for walk in made])
    np.testing.assert_array_equal(data.actions, np.concatenate([w[:-1] + 1 for w in made]))
    np.testing.assert_array_equal(data.returns, [0, 1] * 3)
    assert set(data.outcomes) == {"success", "task", "operator", "quality", "episode.seed"}
    np.testing.assert_array_equal(data.outcomes["success"], [0, 1] * 3)
    assert data.outcomes["task"].tolist() == ["pick"] * 3 + ["place"] * 3
    assert data.outcomes["operator"].tolist() == [*"aabbcc"]
    np.testing.assert_array_equal(data.outcomes["quality"], [1, 2, 3, 4, np.nan, 6])
    assert data.policies[0].metadata["time_apart"] == pytest.approx(1 / FPS)


def test_datasets_are_found_in_folders_and_by_globs_and_files_in_them_are_not(tmp_path):
    for number, (name, version) in enumerate(zip("abc", (*VERSIONS, "v3.0"), strict=True)):
        write_lerobot(tmp_path / "data" / name, walks(number), version)
    write_lerobot(tmp_path / "data" / "a" / "a_edited", walks(9))  # as older LeRobot leaves it
    for spec in (tmp_path / "data", tmp_path / "data" / "*"):
        found = find_recorded(spec)
        assert [policy.info.label for policy in found] == ["a", "b", "c"]
        assert [len(list(policy.episodes())) for policy in found] == [6, 6, 6]
    assert is_recorded(tmp_path / "data" / "a")
    assert is_recorded(str(tmp_path / "data" / "*"))
    assert not is_recorded(tmp_path, folders=False)


def test_a_dataset_is_found_by_its_name_in_the_caches_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_LEROBOT_HOME", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    with pytest.raises(UsageError, match="hf download"):
        find_recorded("lerobot:me/demos")
    made = write_lerobot(tmp_path / "made", walks(), videos=True)
    cache = tmp_path / "hf" / "hub" / "datasets--me--demos"
    (cache / "blobs").mkdir(parents=True)
    for number, file in enumerate(path for path in made.rglob("*") if path.is_file()):
        shutil.copy(file, cache / "blobs" / str(number))
        link = cache / "snapshots" / "abc" / file.relative_to(made)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(cache / "blobs" / str(number))
    [policy] = find_recorded("lerobot:me/demos")
    assert policy.info.label == "me/demos"
    assert len(list(policy.episodes())) == 6
    digest = policy.info.metadata["dataset"]
    assert len(films_of([cache / "snapshots" / "abc"], digest)) == 6
    write_lerobot(tmp_path / "lerobot" / "me" / "demos", walks(1, n=4))
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "lerobot"))
    [policy] = find_recorded("lerobot:me/demos")
    assert len(list(policy.episodes())) == 4


def test_links_out_of_a_dataset_are_not_followed(tmp_path):
    home = write_lerobot(tmp_path / "demos", walks(), videos=True)
    [policy] = find_recorded(home)
    [video] = home.rglob("*.mp4")
    shutil.move(video, tmp_path / "elsewhere.mp4")
    video.symlink_to(tmp_path / "elsewhere.mp4")
    with pytest.raises(BadData, match="no videos"):
        films_of([home], policy.info.metadata["dataset"])
    [data] = home.glob("data/*/*.parquet")
    shutil.move(data, tmp_path / "elsewhere.parquet")
    data.symlink_to(tmp_path / "elsewhere.parquet")
    with pytest.raises(PivecError, match="link out of the folder"):
        find_recorded(home)


def test_other_columns_can_be_features(tmp_path):
    made = walks()
    home = write_lerobot(tmp_path / "demos", made, videos=True)

    def found(*columns, **more):
        [policy] = find_recorded(home, TableOptions(feature_columns=columns, **more))
        return policy

    both = found("observation.state", "action")
    names = [f"{column}.{name}" for column in ("observation.state", "action") for name in MOTORS]
    assert both.names == tuple(names)
    first = next(both.episodes())
    np.testing.assert_array_equal(first.states, np.hstack([made[0], made[0] + 1]))
    assert both.info.fingerprint != found("observation.state").info.fingerprint
    for wrong in (CAMERA, "observation.stat"):
        with pytest.raises(UsageError, match="--feature-columns"):
            found(wrong)
    with pytest.raises(UsageError, match="--policy-column does not apply"):
        found(policy_column="task_index")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ({"motors": MOTORS}, MOTORS),
        ({"left": MOTORS[:2], "right": MOTORS[2:]}, MOTORS),
        ({"z": 2, "x": 0, "y": 1}, ["x", "y", "z"]),
        (None, [f"observation.state[{i}]" for i in range(3)]),
        (["a", "b"], [f"observation.state[{i}]" for i in range(3)]),
        (["a", "a", "b"], [f"observation.state[{i}]" for i in range(3)]),
    ],
)
def test_names_of_motors_are_lists_or_dicts(tmp_path, names, expected):
    [policy] = find_recorded(write_lerobot(tmp_path / "demos", walks(), names=names))
    assert policy.names == tuple(expected)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_part_of_a_dataset_keeps_its_numbers(tmp_path, version):
    home = write_lerobot(tmp_path / "demos", walks(n=3), version, numbers=[1, 4, 5], videos=True)
    info = json.loads((home / "meta/info.json").read_text())
    (home / "meta/info.json").write_text(json.dumps(info | {"total_episodes": 6}))
    with pytest.warns(PivecWarning, match="3 episodes here, but 6"):
        [policy] = find_recorded(home)
    assert policy.info.metadata["episode_index"] == [1, 4, 5]
    assert [episode.outcomes["success"] for episode in policy.episodes()] == [1, 0, 1]
    assert set(films_of([home], policy.info.metadata["dataset"])) == {1, 4, 5}


@pytest.mark.parametrize("version", VERSIONS)
def test_frames_are_those_of_the_states(tmp_path, version):
    pytest.importorskip("av")
    made = walks()
    home = write_lerobot(tmp_path / "demos", made, version, videos=True)
    [policy] = find_recorded(home)
    films = films_of([tmp_path / "nowhere", home], policy.info.metadata["dataset"])
    for number, walk in enumerate(made):
        steps = {0, 7, 3, len(walk) - 1}
        for step, frame in films[number].pictures(steps):
            assert frame.shape == (64, 96, 3)
            assert np.abs(frame.mean(axis=(0, 1)) - colour(number, step)).max() < 4
            steps.remove(step)
        assert not steps
    with pytest.raises(BadData, match="has no frame at"):
        list(films[5].pictures([1000]))


def test_a_video_that_cannot_be_decoded_is_one_sentence(tmp_path):
    pytest.importorskip("av")
    home = write_lerobot(tmp_path / "demos", walks(), videos=True)
    [policy] = find_recorded(home)
    digest = policy.info.metadata["dataset"]
    [video] = home.rglob("*.mp4")
    sound = video.read_bytes()
    playlist = f"#EXTM3U\n#EXTINF:1,\nfile://{tmp_path}/x.mp4\n".encode()
    for content in (b"", playlist, sound[: len(sound) // 2], sound[:40] + bytes(len(sound))):
        video.write_bytes(content)
        with pytest.raises(BadData, match=r"file-000\.mp4"):
            list(films_of([home], digest)[0].pictures([0, 5]))
    info = home / "meta/info.json"
    info.write_text(info.read_text().replace("so100", "so101"))
    with pytest.raises(BadData, match="has changed"):
        films_of([home], digest)
    with pytest.raises(BadData, match="no longer there"):
        films_of([tmp_path / "moved"], digest)


def test_videos_need_an_extra(tmp_path, monkeypatch):
    pytest.importorskip("av")
    home = write_lerobot(tmp_path / "demos", walks(), videos=True)
    [policy] = find_recorded(home)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(MissingExtra, match=r"pivec\[robots\]"):
        films_of([home], policy.info.metadata["dataset"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"codebase_version": "v1.6"}, "v1.6"),
        ({"fps": 0}, "fps"),
        ({"fps": "fast"}, "fast"),
        ({"features": {}}, "observation.state"),
    ],
)
def test_other_versions_and_wrong_settings_are_refused(tmp_path, change, said):
    home = write_lerobot(tmp_path / "demos", walks())
    info = json.loads((home / "meta/info.json").read_text())
    (home / "meta/info.json").write_text(json.dumps(info | change))
    with pytest.raises(PivecError, match=said):
        find_recorded(home)


def test_episodes_out_of_order_are_refused(tmp_path):
    home = write_lerobot(tmp_path / "demos", walks(), numbers=[0, 1, 2, 3, 5, 4])
    with pytest.raises(BadData, match="ascending"):
        find_recorded(home)


def test_rows_of_an_episode_may_be_in_several_row_groups(tmp_path):
    home = write_lerobot(tmp_path / "demos", walks())
    [data] = home.glob("data/*/*.parquet")
    pq.write_table(pq.read_table(data), data, row_group_size=5)
    [policy] = find_recorded(home)
    assert [len(episode.states) for episode in policy.episodes()] == [len(w) for w in walks()]


# ---- robomimic ----


def test_a_robomimic_file_is_one_policy(tmp_path):
    made = walks(n=11)
    masks = {"better": [0, 10], "train": range(10)}
    path = write_robomimic(tmp_path / "lift" / "low_dim.hdf5", made, masks)
    with pytest.warns(PivecWarning, match="agentview_image"):
        data = import_recorded([path], tmp_path / "store")
    assert data.labels == ("low_dim",)
    assert data.feature_names == ("object", "pos[0]", "pos[1]")
    np.testing.assert_array_equal(data.states, np.concatenate(made)[:, [2, 0, 1]])
    np.testing.assert_array_equal(data.actions, np.concatenate([w[:-1] + 1 for w in made]))
    np.testing.assert_array_equal(data.returns, np.ones(11))
    assert data.terminated.all()
    assert data.outcomes["mask/better"].tolist() == [1.0] + [0.0] * 9 + [1.0]
    assert data.outcomes["mask/train"].tolist() == [1.0] * 10 + [0.0]
    assert data.policies[0].metadata["time_apart"] == pytest.approx(1 / 20)


def test_filter_keys_can_be_policies(tmp_path):
    made = walks()
    path = write_robomimic(tmp_path / "a.h5", made, {"worse": [4], "better": [0, 1]}, images=False)
    found = find_recorded(path, TableOptions(policy_column="mask"))
    assert {policy.info.label for policy in found} == {"a/better", "a/worse"}
    for policy, numbers in zip(
        sorted(found, key=lambda p: p.info.label), ([0, 1], [4]), strict=True
    ):
        got = [episode.states for episode in policy.episodes()]
        for states, number in zip(got, numbers, strict=True):
            np.testing.assert_array_equal(states, made[number][:, [2, 0, 1]])


def test_the_usual_observations_of_robomimic_are_the_states(tmp_path):
    path = write_robomimic(tmp_path / "a.hdf5", walks(), images=False, usual=True)
    with pytest.warns(PivecWarning, match="'pos'"):
        [policy] = find_recorded(path)
    parts = [
        f"robot0_{part}[{i}]" for part in ("eef_pos", "eef_quat", "gripper_qpos") for i in range(3)
    ]
    assert policy.names == (*parts, "object")
    [policy] = find_recorded(path, TableOptions(feature_columns=("pos",)))
    assert policy.names == ("pos[0]", "pos[1]")
    with pytest.raises(UsageError, match="'pos'"):
        find_recorded(path, TableOptions(feature_columns=("states",)))


# ---- RLDS ----


def test_rlds_is_read_by_tensorflow_datasets(tmp_path, monkeypatch):
    """A fake of what is used of it: builders, splits and nested steps."""
    made = walks()
    folder = tmp_path / "bridge" / "1.0.0"
    folder.mkdir(parents=True)
    about = folder / "features.json"
    about.write_text('{"pythonClassName": "tensorflow_datasets.core.features.FeaturesDict"}')

    def episode(states):
        n = len(states)
        steps = [
            {
                "observation": {
                    "state": states[t],
                    "grip": np.float32(t),
                    "image": np.zeros((2, 2, 3)),
                },
                "action": states[t] + 1,
                "reward": float(t == n - 1),
                "is_terminal": t == n - 1,
                "language_instruction": b"pick",
            }
            for t in range(n)
        ]
        return {"steps": steps, "episode_metadata": {"success": np.bool_(n % 2), "path": b"x"}}

    class Builder:
        info = types.SimpleNamespace(splits={"train": None, "val": None})

        def as_dataset(self, split):
            return [episode(walk) for walk in (made[:4] if split == "train" else made[4:])]

    fake = types.SimpleNamespace(builder_from_directory=lambda _: Builder(), as_numpy=iter)
    monkeypatch.setitem(sys.modules, "tensorflow", fake)
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", fake)
    with pytest.warns(PivecWarning, match="image"):
        data = import_recorded([f"rlds:{folder}"], tmp_path / "store")
    assert data.labels == ("bridge",)
    assert data.feature_names == ("state[0]", "state[1]", "state[2]", "grip")
    np.testing.assert_array_equal(data.states[:, :3], np.concatenate(made))
    np.testing.assert_array_equal(data.returns, np.ones(6))
    assert data.outcomes["task"].tolist() == ["pick"] * 6
    np.testing.assert_array_equal(data.outcomes["success"], [len(walk) % 2 for walk in made])
    with pytest.raises(UsageError, match="do not apply"):
        find_recorded(f"rlds:{folder}", TableOptions(policy_column="task"))
    about.write_text('[{"pythonClassName": "evil.module.Feature"}]')
    with pytest.raises(BadData, match="evil"):
        find_recorded(f"rlds:{folder}")
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(MissingExtra, match=r"pivec\[rlds\]"):
        find_recorded(f"rlds:{folder}")


def test_a_table_beside_datasets_is_still_read(tmp_path):
    write_lerobot(tmp_path / "data" / "demos", walks())
    rows = {
        "episode": [0, 0, 1, 1],
        "step": [0, 1, 0, 1],
        **{name: [0.0, 1, 2, 3] for name in MOTORS},
    }
    pq.write_table(pa.table(rows), tmp_path / "data" / "other.parquet")
    found = find_recorded(tmp_path / "data")
    assert [policy.info.label for policy in found] == ["demos", "other"]
