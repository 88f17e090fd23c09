"""Small datasets in the layouts of LeRobot (v2.1 and v3) and robomimic."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MOTORS = ["shoulder.pos", "elbow.pos", "gripper.pos"]
CAMERA = "observation.images.top"
FPS = 30


def walks(seed=0, n=6, steps=12, shift=0.0):
    """Episodes of different lengths, whose states drift."""
    rng = np.random.default_rng(seed)
    sizes = [(steps + e, len(MOTORS)) for e in range(n)]
    return [(shift + rng.normal(size=size).cumsum(0) * 0.1).astype(np.float32) for size in sizes]


def write_lerobot(
    folder, episodes, version="v3.0", *, numbers=None, names=MOTORS, videos=False, more=None
):
    """Write states as LeRobot does; odd episodes succeed in their last frame.

    ``more`` has further columns of meta/episodes by name, with one value per episode.
    """
    numbers = list(range(len(episodes))) if numbers is None else numbers
    width = episodes[0].shape[1]
    one = {"shape": [1], "names": None}
    features = {
        "observation.state": {"dtype": "float32", "shape": [width], "names": names},
        "action": {"dtype": "float32", "shape": [width], "names": names},
        "observation.velocity": {"dtype": "float32", "shape": [width], "names": names},
        "next.reward": {"dtype": "float32", **one},
        "next.success": {"dtype": "bool", **one},
        "timestamp": {"dtype": "float32", **one},
        **{
            name: {"dtype": "int64", **one}
            for name in ("frame_index", "episode_index", "index", "task_index")
        },
    }
    if videos:
        features[CAMERA] = {"dtype": "video", "shape": [64, 96, 3], "names": None}
    tables, first = [], 0
    for number, states in zip(numbers, episodes, strict=True):
        n = len(states)
        last = (np.arange(n) == n - 1) & bool(number % 2)
        flat = pa.list_(pa.float32(), width)
        tables.append(
            pa.table(
                {
                    "observation.state": pa.array(states.tolist(), flat),
                    "action": pa.array((states + 1).tolist(), flat),
                    "observation.velocity": pa.array((states * 0).tolist(), flat),
                    "next.reward": pa.array(last.astype(np.float32)),
                    "next.success": pa.array(last),
                    "timestamp": pa.array((np.arange(n) / FPS).astype(np.float32)),
                    "frame_index": pa.array(np.arange(n)),
                    "episode_index": pa.array(np.full(n, number)),
                    "index": pa.array(first + np.arange(n)),
                    "task_index": pa.array(np.full(n, number // 3)),
                }
            )
        )
        first += n
    ends = np.cumsum([len(states) for states in episodes]) / FPS
    rows = [
        {"episode_index": number, "tasks": [("pick", "place")[number // 3 % 2]], "length": len(s)}
        | {name: values[place] for name, values in (more or {}).items()}
        for place, (number, s) in enumerate(zip(numbers, episodes, strict=True))
    ]
    is_old = version.startswith("v2")
    info = {
        "codebase_version": version,
        "robot_type": "so100",
        "total_episodes": len(episodes),
        "total_frames": first,
        "chunks_size": 1000,
        "fps": FPS,
        "features": features,
    }
    _write(folder / "meta/info.json", json.dumps(info))
    if is_old:
        for number, table in zip(numbers, tables, strict=True):
            _parquet(folder / f"data/chunk-000/episode_{number:06d}.parquet", table)
        _write(folder / "meta/episodes.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        _write(folder / "meta/tasks.jsonl", '{"task_index": 0, "task": "pick"}\n')
    else:
        _parquet(folder / "data/chunk-000/file-000.parquet", pa.concat_tables(tables))
        for row, end, states in zip(rows, ends, episodes, strict=True):
            row |= {f"videos/{CAMERA}/{part}_index": 0 for part in ("chunk", "file") if videos}
            if videos:
                row[f"videos/{CAMERA}/from_timestamp"] = end - len(states) / FPS
            row |= {"stats/action/max": [0.0], "data/file_index": 0, "dataset_from_index": 0}
        episodes_table = pa.Table.from_pylist(rows)
        _parquet(folder / "meta/episodes/chunk-000/file-000.parquet", episodes_table)
        tasks = {"task_index": [0, 1], "__index_level_0__": ["pick", "place"]}
        _parquet(folder / "meta/tasks.parquet", pa.table(tasks))
    if videos and is_old:
        for number, states in zip(numbers, episodes, strict=True):
            path = folder / f"videos/chunk-000/{CAMERA}/episode_{number:06d}.mp4"
            write_video(path, [(number, step) for step in range(len(states))])
    elif videos:
        frames = [(n, t) for n, s in zip(numbers, episodes, strict=True) for t in range(len(s))]
        write_video(folder / f"videos/{CAMERA}/chunk-000/file-000.mp4", frames)
    return folder


def colour(number, step):
    """The colour of a frame, which says which one it is."""
    return np.array([20 + 12 * number, 10 * step % 250, 128], np.uint8)


def write_video(path, frames, codec="libx264"):
    """Write frames of one colour each."""
    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream(codec, rate=FPS)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv444p"
        stream.options = {"crf": "4", "g": "20"}
        for number, step in frames:
            pixels = np.tile(colour(number, step), (64, 96, 1))
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def write_robomimic(path, episodes, masks=None, *, images=True, usual=False):
    """Write demonstrations; the state of each is in two observations, ``object`` and ``pos``."""
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        env = {"env_name": "Lift", "type": 1, "env_kwargs": {"control_freq": 20}}
        file.create_group("data").attrs["env_args"] = json.dumps(env)
        for number, states in enumerate(episodes):
            group = file.create_group(f"data/demo_{number}")
            n = len(states) - 1
            for name, rows in (("obs", states[:-1]), ("next_obs", states[1:])):
                group[f"{name}/pos"], group[f"{name}/object"] = rows[:, :2], rows[:, 2]
                if images:
                    group[f"{name}/agentview_image"] = np.zeros((n, 4, 4, 3), np.uint8)
                if usual:
                    for key in ("robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos"):
                        group[f"{name}/{key}"] = rows
            group["actions"] = states[:-1] + 1
            group["rewards"], group["dones"] = np.arange(n) == n - 1, np.arange(n) == n - 1
            group["states"] = np.zeros((n, 7))
            group.attrs["num_samples"] = n
        for name, demos in (masks or {}).items():
            file[f"mask/{name}"] = np.array([f"demo_{number}" for number in demos], "S")
    return path


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _parquet(path, table):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
