"""Recorded states, stores and spaces of every format: sound ones, and others made to do harm."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import struct
import zlib
from functools import cache, partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from pivec.characterizations import Space, characterization
from pivec.states import VisitedStates, import_recorded, json_digest
from robot_files import write_lerobot, write_robomimic
from spoiling import Fifo, Link, Sample, archive, forged, zeros

h5py = pytest.importorskip("h5py")
pytest.importorskip("av")

DEEP = 100_000
TALL = 10**10  # rows of eight bytes that no machine should make room for
WALKS = [
    np.random.default_rng(number).normal(size=(n, 3)).astype(np.float32)
    for number, n in enumerate((5, 4))
]
ROWS = np.concatenate(WALKS)
MAIN = "data/main_data.hdf5"
ABOUT = "data/metadata.json"


def make_canary(folder):
    """Files that no reader may open."""
    folder.mkdir()
    with h5py.File(folder / "secret.h5", "w") as file:
        file["observations"] = np.full((6, 3), 7.0, np.float32)
        file["episode_0/observations"] = np.full((5, 3), 7.0, np.float32)
    (folder / "secret.bin").write_bytes(bytes(range(256)) * 16)
    feather.write_feather(_table(), str(folder / "secret.arrow"), compression="uncompressed")


def content(folder, left_out=(".lock",)):
    """File name -> bytes, the largest first."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name not in left_out]
    files.sort(key=lambda path: -path.stat().st_size)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@cache
def deflated(levels, gigabytes):
    """Zeros, compressed so many times."""
    data = None
    for _ in range(levels):
        packer = zlib.compressobj(9)
        if data is None:
            start = packer.compress(bytes(1)) + packer.flush(zlib.Z_FULL_FLUSH)
            end = (1 + (gigabytes << 30)) % 65521 << 16 | 1  # Adler-32 of zeros
            data = start + zeros() * (gigabytes << 10) + b"\x03\x00" + struct.pack(">I", end)
        else:
            data = packer.compress(data) + packer.flush()
    return data


# ---- HDF5 ----


def _changed(data, change):
    """An HDF5 file after a change."""
    file = io.BytesIO(data)
    with h5py.File(file, "r+") as opened:
        change(opened)
    return file.getvalue()


def _hdf5_attacks(canary):
    """Name -> function that writes an array that does harm as ``name`` into a group."""

    def stored(group, name, shape, chunks, filters, data):
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk(chunks)
        for code, values in filters:
            properties.set_filter(code, h5py.h5z.FLAG_OPTIONAL, values)
        space = h5py.h5s.create_simple(shape, (h5py.h5s.UNLIMITED,) * len(shape))
        array = h5py.h5d.create(
            group.id, name.encode(), h5py.h5t.IEEE_F32LE, space, dcpl=properties
        )
        if data is not None:
            array.write_direct_chunk((0,) * len(shape), data)

    def virtual(group, name, path):
        layout = h5py.VirtualLayout((6, 3), "f4")
        layout[:] = h5py.VirtualSource(path, "observations", (6, 3))
        group.create_virtual_dataset(name, layout)

    def linked(target):
        return lambda group, name: group.__setitem__(name, target)

    def empty(shape, dtype="f4", **options):
        return lambda group, name: group.create_dataset(name, shape, dtype, **options)

    def filled(*arguments):
        return lambda group, name: stored(group, name, *arguments)

    deflate = (h5py.h5z.FILTER_DEFLATE, (9,))
    side = 1 << 15
    opaque = np.zeros(6, "V9")
    return {
        "external storage": empty((6, 3), external=[(str(canary / "secret.bin"), 0, 72)]),
        "external storage, relative": empty((6, 3), external=[("pipe", 0, 72)]),
        "external link": linked(h5py.ExternalLink(str(canary / "secret.h5"), "observations")),
        "external link to a pipe": linked(h5py.ExternalLink("pipe", "observations")),
        "external link to itself": linked(h5py.ExternalLink("walker.hdf5", "observations")),
        "soft link to nothing": linked(h5py.SoftLink("/nothing")),
        "soft link to itself": lambda group, name: group.__setitem__(
            name, h5py.SoftLink(f"{group.name}/{name}")
        ),
        "virtual": lambda group, name: virtual(group, name, str(canary / "secret.h5")),
        "virtual, to a pipe": lambda group, name: virtual(group, name, "pipe"),
        "unknown filter": filled((6, 3), (6, 3), [(32023, ())], bytes(72)),
        "deflate twice": filled((6, 3), (6, 3), [deflate] * 2, deflated(2, 3)),
        "deflate thrice": filled((6, 3), (6, 3), [deflate] * 3, deflated(3, 3)),
        "deflate beyond the chunk": filled((6, 3), (6, 3), [deflate], deflated(1, 3)),
        "a chunk larger than the array": filled(
            (6, 3), (side, side - 1), [deflate], deflated(1, 4)
        ),
        "no storage": empty((TALL, 3), chunks=(1000, 3)),
        "no storage, contiguous": empty((TALL, 3)),
        "no storage, small chunks": empty((1 << 23, 3), chunks=(1, 3)),
        "no width": empty((TALL, 0)),
        "no width, fewer": empty((10**9, 0)),
        "no rows": empty((0, 3)),
        "scalar": empty(()),
        "null": lambda group, name: group.__setitem__(name, h5py.Empty("f4")),
        "text of any length": empty((6,), h5py.string_dtype()),
        "lists": empty((6,), h5py.vlen_dtype(np.float32)),
        "references": empty((6,), h5py.ref_dtype),
        "compound": empty((6,), np.dtype([("a", "f4"), ("b", h5py.string_dtype())])),
        "opaque": lambda group, name: group.__setitem__(name, opaque),
        "arrays in arrays": empty((6,), np.dtype(("f4", (4000, 4000)))),
        "a group": lambda group, name: group.create_group(name),
        "a type": lambda group, name: group.__setitem__(name, np.dtype("f4")),
        "many axes": empty((1,) * 32),
        "halves": empty((6, 3), "f2"),
        "complex": empty((6, 3), "c8"),
        "scaled": empty((6, 3), "f4", scaleoffset=2, chunks=(6, 3)),
    }


def _attacked(files, name, group, array, canary):
    """Copies of files, in which an array of an HDF5 file does harm."""
    result = {}
    for attack, write in _hdf5_attacks(canary).items():

        def change(file, write=write):
            del file[group][array]
            write(file[group], array)

        data = _changed(files[name], change)
        folder = name.rpartition("/")[0]
        beside = {f"{folder}/pipe".lstrip("/"): Fifo()} if b"pipe" in data else {}
        result[attack] = {name: data, **{k: v for k, v in files.items() if k != name}, **beside}
    return result


def _hdf5(_, canary):
    file = io.BytesIO()
    with h5py.File(file, "w") as opened:
        opened.create_dataset("observations", data=ROWS, chunks=(4, 3), compression="gzip")
        opened["actions"] = np.arange(9) % 2
        opened["rewards"] = np.ones(9, np.float32)
        opened["terminals"] = np.isin(np.arange(9), (4, 8))
        opened["timeouts"] = np.zeros(9, bool)
    name = "walker.hdf5"
    files = {name: file.getvalue()}
    crafted = _attacked(files, name, "/", "observations", canary)
    for array in ("actions", "terminals"):
        for attack, found in _attacked(files, name, "/", array, canary).items():
            if attack in ("external storage", "external link", "virtual", "no width", "lists"):
                crafted[f"{array}: {attack}"] = found

    def loop(opened):
        opened["loop"] = opened["/"]

    def deep(opened):
        group = opened
        for _ in range(3000):
            group = group.create_group("a")

    def wide(opened):
        for number in range(5000):
            opened[f"a{number}"] = h5py.SoftLink("/nothing")

    for attack in (loop, deep, wide):
        crafted[attack.__name__] = {name: _changed(files[name], attack)}
    crafted["a pipe"] = {name: Fifo()}
    crafted["a link to itself"] = {name: Link(name)}
    return Sample("attempts:table", files, crafted=crafted)


def _robomimic(folder, canary):
    name = "walker.hdf5"
    path = write_robomimic(folder / "robomimic" / name, WALKS, {"all": [0, 1]})
    files = {name: path.read_bytes()}
    shutil.rmtree(path.parent)
    crafted = _attacked(files, name, "data/demo_0/obs", "pos", canary)
    for group, array in (
        ("data/demo_1", "actions"),
        ("data/demo_1/next_obs", "pos"),
        ("mask", "all"),
    ):
        for attack, found in _attacked(files, name, group, array, canary).items():
            crafted[f"{array}: {attack}"] = found

    def elsewhere(opened):
        del opened["data/demo_0"]
        opened["data/demo_0"] = h5py.ExternalLink(str(canary / "secret.h5"), "/")

    def loop(opened):
        del opened["data/demo_1/obs"]
        opened["data/demo_1/obs"] = opened["data"]

    def described(opened):
        opened["data"].attrs["env_args"] = '{"a":' * 1000

    def longer(opened):
        del opened["data/demo_0/rewards"]
        opened["data/demo_0/rewards"] = np.zeros(99)

    for attack in (elsewhere, loop, described, longer):
        crafted[attack.__name__] = {name: _changed(files[name], attack)}
    return Sample("attempts:table", files, crafted=crafted)


# ---- LeRobot ----


def _lerobot(version, folder, canary):
    home = folder / f"lerobot-{version}"
    write_lerobot(home / "demos", WALKS, version, videos=True)
    files = dict(sorted(content(home).items(), key=lambda item: "info.json" not in item[0]))
    shutil.rmtree(home)
    about, crafted = json.loads(files["demos/meta/info.json"]), {}

    def described(name, changes, features=()):
        own = about["features"] | dict(features)
        changed = json.dumps(about | {"features": own} | changes).encode()
        crafted[name] = {**files, "demos/meta/info.json": changed}

    state = about["features"]["observation.state"]
    for number, odd in enumerate((0, -1, 1e308, "x", None, [], {}, float("nan"), 10**400)):
        for key in ("fps", "chunks_size", "total_episodes", "codebase_version"):
            described(f"{key} {number}", {key: odd})
        described(f"names {number}", {}, {"observation.state": state | {"names": odd}})
        described(f"shape {number}", {}, {"observation.state": state | {"shape": odd}})
        described(f"feature {number}", {}, {"observation.state": odd})
    camera = about["features"].pop("observation.images.top")
    for key in ("../../../canary", str(canary), "a/../..", "x" * 5000, "a\x00b"):
        described(f"camera {key[:20]!r}", {}, {key: camera})
    for name in files:
        rest = _without(files, name)
        crafted[f"{name} is a pipe"] = {**rest, name: Fifo()}
        crafted[f"{name} is a link"] = {**rest, name: Link(str(canary / "secret.bin"))}
        crafted[f"{name} is missing"] = rest
        if name.endswith(".parquet"):
            for attack, bomb in _parquet_attacks().items():
                crafted[f"{name}: {attack}"] = {**rest, name: bomb}
        if name.endswith(".mp4"):
            playlist = f"#EXTM3U\n#EXTINF:1,\nfile://{canary}/secret.bin\n".encode()
            crafted[f"{name}: a playlist"] = {**rest, name: playlist}
            crafted[f"{name}: large"] = {**rest, name: _large_video(folder)}
            concat = f"ffconcat version 1.0\nfile '{canary}/secret.bin'\n".encode()
            crafted[f"{name}: a list"] = {**rest, name: concat}
    crafted["deep"] = {**files, "demos/meta/info.json": b'{"a":' * DEEP}
    return Sample("attempts:lerobot", files, crafted=crafted)


@cache
def _large_video(folder):
    """A small file of frames with many pixels."""
    import av

    path = folder / "large.mp4"
    with av.open(str(path), "w", format="mp4") as container:
        stream = container.add_stream("mpeg4", rate=30)
        stream.width, stream.height, stream.pix_fmt = 8000, 8000, "yuv420p"
        frame = av.VideoFrame(8000, 8000, "yuv420p")
        container.mux([*stream.encode(frame), *stream.encode()])
    return path.read_bytes()


# ---- Minari ----


def _minari(data_format, folder, canary):
    home = folder / f"minari-{data_format}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(home))
        _write_minari(data_format)
    files = content(home / "walk" / "x-v0")
    about = json.loads(files[ABOUT])
    crafted = {}

    def described(name, changes, drop=()):
        kept = {key: value for key, value in (about | changes).items() if key not in drop}
        crafted[name] = {ABOUT: json.dumps(kept).encode(), **_without(files, ABOUT)}

    command = {"command": f"touch {canary}/ran"}
    evil = {"id": "Evil-v0", "entry_point": "os:system", "kwargs": command}
    evil |= {"reward_threshold": None, "nondeterministic": False, "max_episode_steps": None}
    evil |= {"order_enforce": False, "disable_env_checker": True, "additional_wrappers": []}
    evil |= {"vector_entry_point": None}
    described("code", {"env_spec": json.dumps(evil)}, ["observation_space"])
    described("code, no actions", {"env_spec": json.dumps(evil)}, ["action_space"])
    described("code, evaluated", {"env_spec": json.dumps(evil), "eval_env_spec": json.dumps(evil)})
    wrapper = {"name": "w", "entry_point": "os:system", "kwargs": command}
    wrapped = evil | {"entry_point": "gymnasium.envs.classic_control:CartPoleEnv", "kwargs": {}}
    wrapped["additional_wrappers"] = [wrapper]
    described("code in a wrapper", {"env_spec": json.dumps(wrapped)}, ["observation_space"])
    for total in (10**12, 10**6, -1, 0, "2", 1.5, None, True):
        described(f"{total!r} episodes", {"total_episodes": total})
    box = json.loads(about["observation_space"])
    spaces = {
        "a huge box": box | {"shape": [TALL], "low": [0.0], "high": [1.0]},
        "a box of objects": box | {"dtype": "O"},
        "a box of text": box | {"dtype": "S1000000000"},
        "a huge choice": {"type": "Discrete", "dtype": "int64", "start": 0, "n": 10**18},
        "huge choices": {"type": "MultiDiscrete", "dtype": "int64", "nvec": [10**18] * 3},
        "a huge number of bits": {"type": "MultiBinary", "n": TALL},
        "text": {"type": "Text", "max_length": 10**9, "min_length": 0, "charset": "a"},
        "images": box | {"dtype": "uint8", "shape": [9, 9, 3], "low": 0, "high": 255},
        "an unknown space": {"type": "Evil"},
        "a part": {"type": "Dict", "subspaces": {"a": box}},
    }
    for name, space in spaces.items():
        described(name, {"observation_space": json.dumps(space)})
    nested = '{"type":"Tuple","subspaces":[' * 5000 + json.dumps(box) + "]}" * 5000
    described("nested spaces", {"observation_space": nested})
    for other in ("hdf5", "arrow", "parquet", "../hdf5", 3):
        described(f"format {other!r}", {"data_format": other})
    described("another folder", {"dataset_id": "../../../x-v0"})
    described("long", {"dataset_id": "x" * 10**6})
    described("lines", {"dataset_id": "a\nb-v0"})
    crafted["deep"] = {ABOUT: b'{"a":' * DEEP, **_without(files, ABOUT)}
    crafted["metadata are a pipe"] = {**_without(files, ABOUT), ABOUT: Fifo()}
    crafted["a pipe beside"] = {**files, "data/pipe": Fifo()}
    crafted["a pipe in an episode"] = {**files, "data/0/pipe.arrow": Fifo()}
    crafted["a folder linked to"] = {**files, "data/more": Link(str(canary))}
    if data_format == "hdf5":
        crafted |= _attacked(files, MAIN, "episode_0", "observations", canary)
        for array in ("actions", "rewards"):
            for attack, found in _attacked(files, MAIN, "episode_0", array, canary).items():
                if attack in ("external storage", "external link", "virtual", "no storage"):
                    crafted[f"{array}: {attack}"] = found

        def group(opened):
            del opened["episode_0"]
            opened["episode_0"] = h5py.ExternalLink(str(canary / "secret.h5"), "episode_0")

        def loop(opened):
            opened["episode_0/infos/loop"] = opened.require_group("episode_0/infos")

        def deep(opened):
            inner = opened.require_group("episode_0/infos")
            for _ in range(3000):
                inner = inner.create_group("a")

        def attributes(opened):
            deep = "/".join("a" * 5000)
            opened["episode_0"].attrs.create(deep, 1)
            opened["episode_1"].attrs["seed"] = "x"

        for attack in (group, loop, deep, attributes):
            data = _changed(files[MAIN], attack)
            crafted[attack.__name__] = {MAIN: data, **_without(files, MAIN)}
        crafted["data are a pipe"] = {**_without(files, MAIN), MAIN: Fifo()}
        link = Link(str(canary / "secret.h5"))
        crafted["data are a link"] = {**_without(files, MAIN), MAIN: link}
    else:
        part = next(name for name in files if name.startswith("data/0/part"))
        rest = _without(files, part)
        crafted["an episode is a pipe"] = {**rest, part: Fifo()}
        crafted["an episode is a link"] = {**rest, part: Link(str(canary / "secret.arrow"))}
        if data_format == "arrow":
            for name, bomb in _arrow_attacks().items():
                crafted[name] = {part: bomb, **rest}
        else:
            for name, bomb in _parquet_attacks().items():
                crafted[name] = {part: bomb, **rest}
        outside = {name: data for name, data in files.items() if not name.startswith("data/0/")}
        crafted["an episode elsewhere"] = {**outside, "data/0": Link(str(canary))}
    return Sample("attempts:minari", files, crafted=crafted)


def _without(files, name):
    return {key: value for key, value in files.items() if key != name}


def _write_minari(data_format):
    minari = pytest.importorskip("minari")
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    buffers = [
        EpisodeBuffer(
            id=i,
            seed=i,
            observations=walk,
            actions=np.zeros(len(walk) - 1, np.int64),
            rewards=np.ones(len(walk) - 1),
            terminations=np.arange(len(walk) - 1) == len(walk) - 2,
            truncations=np.zeros(len(walk) - 1, bool),
            infos={},
        )
        for i, walk in enumerate(WALKS)
    ]
    minari.create_dataset_from_buffers(
        "walk/x-v0",
        buffers,
        observation_space=spaces.Box(-np.inf, np.inf, (3,), np.float32),
        action_space=spaces.Discrete(2),
        algorithm_name="a",
        author="a",
        author_email="a",
        code_permalink="a",
        description="a",
        data_format=data_format,
    )


# ---- tables ----


def _table():
    return pa.table(
        {
            "policy": ["ann"] * 5 + ["bob"] * 4,
            "episode": [0] * 5 + [0] * 4,
            "step": [0, 1, 2, 3, 4, 0, 1, 2, 3],
            "x": ROWS[:, 0],
            "y": ROWS[:, 1],
            "action": np.arange(9) % 2,
        }
    )


def _ipc(table, compression=None):
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _long_text(n):
    """Rows that share one long text."""
    text = pa.array(["x" * 1_000_000])
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int32)), text)


def _one_list(n, value=0.0):
    """One row with a list of so many values."""
    values = pa.array(np.full(n, value))
    return pa.ListArray.from_arrays(pa.array([0, n], pa.int32()), values)


@cache
def _arrow_attacks():
    """Name -> Arrow files that crash, or unpack to too much."""
    sound = _ipc(_table())
    text = sound.index(b"annannann")
    offsets = sound.rindex(struct.pack("<2i", 0, 3), 0, text)
    wrong = {}
    for number, value in ((1, 2**31 - 1), (1, -1), (9, 2**31 - 1), (5, 0), (0, -(2**31))):
        data = bytearray(sound)
        struct.pack_into("<i", data, offsets + 4 * number, value)
        wrong[f"text offset {number} is {value}"] = bytes(data)
    large = pa.array(np.zeros(37_500_000))  # 300 MB
    column = _one_list(40_000_000)
    lists = {f"x{i}": column for i in range(12)}
    rows = pa.table({f"x{i}": large for i in range(10)})
    nothing = pa.table({"step": np.arange(2), "x": [1.0, 2.0], "y": pa.nulls(2)})
    deep: pa.DataType = pa.float32()
    for _ in range(60):
        deep = pa.list_(deep)
    union = pa.UnionArray.from_dense(
        pa.array([0] * 2, pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1.0, 2.0])]
    )
    odd = {
        "nulls": nothing,
        "nested lists": pa.table({"step": [0, 1], "x": pa.array([None, None], deep)}),
        "union": pa.table({"step": [0, 1], "x": union}),
        "no rows": _table().slice(0, 0),
        "no columns": pa.table({}),
        "no width": pa.table({"step": [0, 1], "x": pa.array([[], []], pa.list_(pa.float32()))}),
        "wide": pa.table({f"x{i}": [0.0] for i in range(3000)} | {"step": [0]}),
    }
    return {
        **wrong,
        "zstd": _ipc(rows, "zstd"),
        "lists in zstd": _ipc(pa.table(lists), "zstd"),
        "lists in lz4": _ipc(pa.table({"x": column}), "lz4"),
        "long text": _ipc(_table_of_text(3000), "zstd"),
        **{name: _ipc(table) for name, table in odd.items()},
    }


def _table_of_text(n):
    return pa.table({"policy": _long_text(n), "step": np.arange(n), "x": np.zeros(n)})


def _arrow(name, *_):
    sound = _ipc(_table(), "lz4" if name.endswith("feather") else None)
    crafted = {attack: {name: data} for attack, data in _arrow_attacks().items()}
    about = {"columns": _table().column_names, "features": 10**9, "action_shape": [10**9]}
    odd = [about, about | {"features": ["x", "y"]}, [], 3, about | {"features": ["policy"]}]
    for number, known in enumerate([*map(json.dumps, odd), "{", '{"a":' * DEEP]):
        table = _table().replace_schema_metadata({b"pivec": known.encode()})
        crafted[f"metadata {number}"] = {name: _ipc(table)}
    crafted["stream"] = {name: _stream(_table())}
    crafted["a pipe"] = {name: Fifo()}
    return Sample("attempts:table", {name: sound}, crafted=crafted)


def _stream(table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


@cache
def _parquet_attacks():
    column = _one_list(10_000_000)
    lists = {f"x{i}": column for i in range(16)}
    tables = {
        "lists": pa.table(lists),
        "long text": _table_of_text(10_000),
        "constant": pa.table({f"x{i}": np.zeros(1_000_000) for i in range(4)}),
        "no rows": _table().slice(0, 0),
        "no columns": pa.table({}),
        "wide": pa.table({f"x{i}": [0.0] for i in range(3000)} | {"step": [0]}),
    }
    return {name: _pq(table) for name, table in tables.items()}


def _pq(table, **options):
    sink = io.BytesIO()
    chosen = {"compression": "zstd", "store_schema": "lists" not in table.column_names, **options}
    pq.write_table(table, sink, **chosen)
    return sink.getvalue()


def _parquet(*_):
    name = "walker.parquet"
    crafted = {attack: {name: data} for attack, data in _parquet_attacks().items()}
    for compression in ("snappy", "gzip", "brotli", "lz4", "none"):
        crafted[compression] = {name: _pq(_table(), compression=compression)}
    crafted["groups"] = {name: _pq(_table(), row_group_size=1)}
    crafted["a pipe"] = {name: Fifo()}
    return Sample("attempts:table", {name: _pq(_table())}, crafted=crafted)


def _text(name, comma, *_):
    lines = [comma.join(_table().column_names)]
    lines += [comma.join(map(str, row.values())) for row in _table().to_pylist()]
    sound = "\n".join(lines).encode()
    head = lines[0]
    odd = {
        "wide": (comma.join(f"x{i}" for i in range(200_000)) + "\n" + comma.join("1" * 200_000)),
        "one long field": f'{head}\n"{"x" * 5_000_000}',
        "only commas": comma * 1_000_000,
        "only lines": "\n" * 1_000_000,
        "only quotes": '"' * 1_000_001,
        "ragged": f"{head}\n1{comma}2\n",
        "no rows": head,
        "zeros": "\0" * 10_000,
        "text for numbers": f"{head}\n" + comma.join("abcdef"),
        "huge numbers": f"{head}\n" + comma.join(["9" * 1000] * 6),
        "infinite": f"{head}\n" + comma.join(["a", "0", "0", "inf", "-inf", "0"]),
        "formula": f"{head}\n" + comma.join(["=cmd()", "0", "0", "1", "2", "0"]),
        "controls": f"{head}\n" + comma.join(["\x1b[2J", "0", "0", "1", "2", "0"]),
        "twice": f"{head}{comma}x\n" + comma.join("0" * 7),
        "times": f"step{comma}x\n1970-01-01{comma}1\n1970-01-02{comma}2\n",
        "many policies": "policy" + comma + "step" + comma + "x\n"
        + "".join(f"p{i}{comma}0{comma}1\np{i}{comma}1{comma}1\n" for i in range(300)),
    }  # fmt: skip
    crafted = {attack: {name: text.encode()} for attack, text in odd.items()}
    crafted["empty"] = {name: b""}
    crafted["utf-16"] = {name: sound.decode().encode("utf-16")}
    crafted["not text"] = {name: bytes(range(256)) * 100}
    crafted["half a letter"] = {name: sound + b"\n\xc3"}
    crafted["a pipe"] = {name: Fifo()}
    return Sample("attempts:table", {name: sound}, crafted=crafted)


def _lines(name, *_):
    """JSON Lines with lists and objects in them."""
    rows = [
        {"policy": row["policy"], "step": row["step"], "obs": {"x": row["x"], "y": [row["y"]]}}
        for row in _table().to_pylist()
    ]
    sound = "\n".join(map(json.dumps, rows)).encode()
    head = b'{"step":0,"x":1}\n'
    odd = {
        "deep": b'{"x":' * DEEP,
        "deep lists": head + b'{"step":1,"x":' + b"[" * DEEP + b"]" * DEEP + b"}",
        "deep objects": b'{"x":' * 200 + b"1" + b"}" * 200,
        "wide": json.dumps({f"x{i}": i for i in range(20_000)} | {"step": 0}).encode(),
        "one long text": head + b'{"step":1,"x":2,"note":"' + b"a" * 5_000_000 + b'"}',
        "a long list": b'{"step":0,"x":[' + b"1," * 2_000_000 + b"1]}",
        "other types": head + b'{"step":1,"x":"a"}',
        "a list": b'[{"step":0,"x":1}]',
        "no values": b"{}\n{}",
        "nulls": b'{"step":null,"x":null}\n' * 3,
        "huge numbers": head + b'{"step":1,"x":' + b"9" * 1000 + b"}",
        "infinite": head + b'{"step":1,"x":Infinity}',
        "twice": b'{"step":0,"x":1,"x":2}',
        "twice, nested": b'{"step":0,"x":{"y":1},"x.y":2}',
        "not text": bytes(range(256)) * 100,
        "utf-16": sound.decode().encode("utf-16"),
        "only lines": b"\n" * 1_000_000,
        "only braces": b"{" * 1_000_000,
        "empty": b"",
        "controls": b'{"policy":"\\u001b[2J","step":0,"x":1}',
        "keys per line": b"".join(b'{"step":%d,"x%d":1}\n' % (i, i) for i in range(2000)),
    }
    crafted = {attack: {name: data} for attack, data in odd.items()}
    crafted["a pipe"] = {name: Fifo()}
    return Sample("attempts:table", {name: sound}, crafted=crafted)


# ---- arrays ----


def npy(shape, dtype="<f4", data=b"", header=None):
    """A .npy file that declares any shape."""
    text = header or str({"descr": dtype, "fortran_order": False, "shape": shape})
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text) + 1) + text.encode() + b"\n" + data


def _npy_attacks():
    nested = "(" * 3000 + ")" * 3000
    return {
        "huge": npy((TALL, 3, 3)),
        "too large for numbers": npy((1 << 40, 1 << 40, 3)),
        "no width": npy((TALL, 1, 0)),
        "no width, fewer": npy((300_000_000, 1, 0)),
        "no steps": npy((TALL, 0, 3)),
        "no steps, fewer": npy((300_000_000, 0, 3)),
        "no episodes": npy((0, TALL, 3)),
        "many axes": npy((1,) * 100),
        "negative": npy((-1, 3, 3), data=bytes(36)),
        "objects": npy((1, 2, 3), "|O", data=b"\x80\x04."),
        "text": npy((1, 2, 3), "<U3", data=bytes(72)),
        "wide text": npy((1, 2, 0), "<U300000000"),
        "dates": npy((1, 2, 3), "<M8[s]", data=bytes(48)),
        "complex": npy((1, 2, 3), "<c8", data=bytes(48)),
        "nested": npy((), header=nested),
        "large header": npy((), header="[" + "1," * 200_000 + "]"),
        "fields": npy((1, 2), header=str({"descr": [("a", "<f4", (10**9,))], "shape": (1, 2)})),
        "no numbers": npy((1, 2, 3), data=np.full(6, np.nan, "<f4").tobytes()),
        "large numbers": npy((1, 2, 3), "<f8", data=np.full(6, 1e300).tobytes()),
        "empty": b"",
    }


def _npy(*_):
    sound = io.BytesIO()
    np.save(sound, np.stack([WALKS[1], WALKS[1]]))
    crafted = {attack: {"walker.npy": data} for attack, data in _npy_attacks().items()}
    crafted["a pipe"] = {"walker.npy": Fifo()}
    crafted["a link to itself"] = {"walker.npy": Link("walker.npy")}
    return Sample("attempts:table", {"walker.npy": sound.getvalue()}, crafted=crafted)


def _arrays_by_name():
    return {
        "obs": ROWS,
        "actions": np.arange(9) % 2,
        "rewards": np.ones(9),
        "dones": np.isin(np.arange(9), (4, 8)),
        "success": np.ones(2),
    }


def _npy_folder(*_):
    files = {f"{name}.npy": _saved(array) for name, array in _arrays_by_name().items()}
    crafted = {}
    for name in ("obs", "dones", "success"):
        for attack, data in _npy_attacks().items():
            crafted[f"{name}: {attack}"] = {**files, f"{name}.npy": data}
    crafted["a pipe"] = {**files, "actions.npy": Fifo()}
    crafted["a link to itself"] = {**files, "dones.npy": Link("dones.npy")}
    return Sample("attempts:folder", files, crafted=crafted)


def _npy_episodes(*_):
    files = {f"walk-{number}.npy": _saved(walk) for number, walk in enumerate(WALKS)}
    crafted = {attack: {**files, "walk-1.npy": data} for attack, data in _npy_attacks().items()}
    crafted["a pipe"] = {**files, "walk-1.npy": Fifo()}
    return Sample("attempts:folder", files, crafted=crafted)


def _npz(padded, *_):
    file = io.BytesIO()
    if padded is None:
        np.savez(file, **_arrays_by_name())
    elif padded:
        states = np.zeros((2, 5, 3), np.float32)
        np.savez(file, states=states, lengths=[5, 4], returns=[1.0, 2.0], seeds=[1, 2])
    else:
        np.savez_compressed(
            file,
            states=ROWS,
            episode=np.repeat([0, 1], [5, 4]),
            step=[0, 1, 2, 3, 4, 0, 1, 2, 3],
            actions=np.arange(9) % 2,
            feature_names=["x", "y", "z"],
        )
    name = "walker.npz"
    with np.load(io.BytesIO(file.getvalue())) as read:
        members = {f"{key}.npy": _saved(read[key]) for key in read.files}
    crafted, states = {}, "obs.npy" if padded is None else "states.npy"
    for array in ("states", "episode", "lengths", "actions", "obs", "dones", "success"):
        for attack, data in _npy_attacks().items() if f"{array}.npy" in members else ():
            crafted[f"{array}: {attack}"] = {name: archive({**members, f"{array}.npy": data})}
    rows = npy((1 << 28, 3), data=b"")
    for declared in (100, 3 << 30):
        bomb = forged(members, states, rows, 3000, declared)
        crafted[f"{declared} declared"] = {name: bomb}
    crafted["many members"] = {name: archive({f"a{i}.npy": b"" for i in range(30_000)})}
    crafted["names"] = {name: archive({**members, "../../escaped.npy": members[states]})}
    crafted["a pipe"] = {name: Fifo()}
    return Sample("attempts:npz", {name: file.getvalue()}, crafted=crafted)


def _saved(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


# ---- pivec's own ----


def _store(folder, canary):
    home = folder / "store"
    (home / "from").mkdir(parents=True)
    file = {"states": ROWS, "episode": np.repeat([0, 1], [5, 4]), "step": [*range(5), *range(4)]}
    np.savez(home / "from" / "walker.npz", **file, actions=np.arange(9) % 2)
    import_recorded([f"npz:{home / 'from'}"], home / "made")
    files = content(home / "made")
    shutil.rmtree(home)
    data = next(name for name in files if name.endswith(".arrow"))
    crafted = {}
    shutil.copy(canary / "secret.arrow", canary / data)

    def indexed(name, change):
        index = json.loads(files["store.json"])
        change(index, index["policies"][0])
        text = json.dumps(index).encode()
        crafted[name] = repaired({data: files[data], "store.json": text})

    def setting(key, value):
        return lambda index, row: row.__setitem__(key, value)

    for where in (str(canary / data), f"../{canary.name}/{data}", "../../x", "", ".", "a/../b", 3):
        indexed(f"file {where!r}", setting("file", where))
    for value in (-1, 10**12, 1.5, None, "0"):
        indexed(f"batch {value!r}", setting("batch", value))
        indexed(f"batches {value!r}", setting("batches", value))
    for key, value in (("feature_names", [["x"]] * 3), ("feature_names", 10**9), ("settings", [])):
        indexed(f"{key} {value!r}", lambda index, row, k=key, v=value: index.__setitem__(k, v))
    crafted["deep"] = {"store.json": b'{"a":' * DEEP, data: files[data]}
    crafted["a pipe"] = {"store.json": files["store.json"], data: Fifo()}
    crafted["the index is a pipe"] = {"store.json": Fifo(), data: files[data]}
    for name, bomb in _arrow_attacks().items():
        crafted[name] = repaired({data: bomb, "store.json": files["store.json"]})
    reader = pa.ipc.open_file(pa.BufferReader(files[data]))
    batch, metadata = reader.get_batch_with_custom_metadata(0)
    n = 80_000_000
    values = pa.array(np.zeros(n, np.float32))
    inner = pa.FixedSizeListArray.from_arrays(values, 4)
    many = pa.LargeListArray.from_arrays(pa.array([0, 5, n // 4]), inner)
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    place = batch.schema.names.index("states")
    field = batch.schema.field("states").with_type(many.type)
    for count in (1, 8):
        sink = io.BytesIO()
        columns = [many if name == "states" else batch.column(name) for name in batch.schema.names]
        fields = [field if i == place else batch.schema.field(i) for i in range(len(columns))]
        extra = [many] * (count - 1)
        fields += [pa.field(f"more{i}", many.type) for i in range(count - 1)]
        schema = pa.schema(fields, reader.schema.metadata)
        with pa.ipc.new_file(sink, schema, options=options) as writer:
            made = pa.record_batch([*columns, *extra], schema=schema)
            writer.write_batch(made, custom_metadata=metadata)
        bomb = {data: sink.getvalue(), "store.json": files["store.json"]}
        crafted[f"{count} compressed columns"] = repaired(bomb)
    return Sample("attempts:store", files, repair=repaired, crafted=crafted)


def repaired(files):
    """Give the index of a store the checksums of its files, so that they are read."""
    try:
        index = json.loads(files["store.json"])
        index.pop("sha256")
        for row in index["policies"]:
            if isinstance(content := files.get(row["file"]), bytes):
                row["sha256"] = hashlib.sha256(content).hexdigest()
        index["sha256"] = json_digest(index)
        return {**files, "store.json": json.dumps(index).encode()}
    except Exception:  # no index that could be repaired
        return files


def _space(folder, _):
    data = VisitedStates.from_arrays([WALKS, WALKS[::-1]], ["a", "b"])
    method = characterization("gaussian").fit(data)
    home = folder / "space"
    Space(method, method.describe(data), np.zeros((2, 2))).save(home)
    with np.load(home / "space.npz") as file:
        arrays = dict(file)
    index = json.loads(arrays["index"].tobytes())
    index["format"] = 1  # which has no checksum, so that damage reaches the readers
    crafted = {}

    def packed(known, changed):
        text = known if isinstance(known, bytes) else json.dumps(known).encode()
        whole = {**arrays, **changed, "index": np.frombuffer(text, np.uint8)}
        members = {
            f"{key}.npy": value if isinstance(value, bytes) else _saved(value)
            for key, value in whole.items()
        }
        return {**content(home), "space.npz": archive(members)}

    sound = packed(index, {})
    for name, value in arrays.items():
        if name == "index":
            continue
        other = {
            "fewer rows": value[:-1] if value.ndim else value.reshape(1),
            "more axes": value[None],
            "text": np.full(value.shape, "x"),
            "no numbers": np.full(value.shape, np.nan),
            "empty": value.ravel()[:0],
        }
        for what, array in (other | _npy_attacks()).items():
            crafted[f"{name}: {what}"] = packed(index, {name: array})
    for key in index:
        for number, value in enumerate((None, [], {}, "x", 10**30, -1, [[1]], {"a": [10**400]})):
            crafted[f"{key} {number}"] = packed({**index, key: value}, {})
        crafted[f"no {key}"] = packed({k: v for k, v in index.items() if k != key}, {})
    crafted["deep"] = packed(b'{"a":' * DEEP, {})
    crafted["a pipe"] = {**content(home), "space.npz": Fifo()}
    shutil.rmtree(home)
    return Sample("attempts:space", sound, crafted=crafted)


# Name -> function from a folder to work in and the canary's to a Sample.
READERS = {
    "hdf5": _hdf5,
    "hdf5 robomimic": _robomimic,
    **{f"lerobot {version}": partial(_lerobot, version) for version in ("v2.1", "v3.0")},
    **{f"minari {kind}": partial(_minari, kind) for kind in ("hdf5", "arrow", "parquet")},
    "arrow": partial(_arrow, "walker.arrow"),
    "feather": partial(_arrow, "walker.feather"),
    "parquet": _parquet,
    "csv": partial(_text, "walker.csv", ","),
    "tsv": partial(_text, "walker.tsv", "\t"),
    "jsonl": partial(_lines, "walker.jsonl"),
    "ndjson": partial(_lines, "walker.ndjson"),
    "npz padded": partial(_npz, True),
    "npz flags": partial(_npz, None),
    "npy folder": _npy_folder,
    "npy episodes": _npy_episodes,
    "npz long": partial(_npz, False),
    "npy": _npy,
    "store": _store,
    "space": _space,
}
