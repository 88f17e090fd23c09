"""Reading well-formed files in the child process with limits, and the same in this process.

    python benchmarks/reading.py

Each time is that of a fresh Python process, from the import of pivec until the states are in a
store, the policy is loaded, or (ONNX) has acted on 1,000 batches. The peer is the same code without
the child process.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from measure import alternately, in_process, serve, table, write_section

N, LENGTH, WIDTH = 1_000_000, 1000, 17  # states, steps of an episode, features
REPEATS = 3


def write_files(folder: Path) -> dict[str, str]:
    """Write a file of each format and return their paths."""
    import h5py
    import pandas as pd

    rng = np.random.default_rng(0)
    states = rng.normal(size=(N, WIDTH)).astype(np.float32)
    paths = {name: folder / f"data.{name}" for name in ("hdf5", "parquet", "feather", "csv")}
    with h5py.File(paths["hdf5"], "w") as file:
        for name, array in {
            "observations": states,
            "actions": states[:, :6],
            "rewards": states[:, 0],
            "timeouts": np.arange(N) % LENGTH == LENGTH - 1,
        }.items():
            file.create_dataset(name, data=array, compression="gzip")
    rows = pd.DataFrame(states, columns=[f"x{i}" for i in range(WIDTH)])
    rows["policy"] = np.repeat([f"p{i}" for i in range(10)], N // 10)
    rows["episode"], rows["step"] = np.arange(N) // LENGTH, np.arange(N) % LENGTH
    rows.to_parquet(paths["parquet"])
    rows.to_feather(paths["feather"])
    rows[: N // 2].to_csv(paths["csv"], index=False)
    known = {name: str(path) for name, path in paths.items()}
    known |= {f"minari {kind}": write_minari(folder, kind, states) for kind in ("hdf5", "arrow")}
    return known | {"orbax": write_orbax(folder / "orbax"), "onnx": write_onnx(folder / "a.onnx")}


def write_minari(folder: Path, kind: str, states: Any) -> str:
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    import minari
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    name = f"bench/{kind}-v0"
    flags = np.zeros(LENGTH - 1, bool)
    buffers = [
        EpisodeBuffer(
            id=i,
            observations=part,
            actions=part[:-1, :6],
            rewards=part[:-1, 0].astype(np.float64),
            terminations=flags,
            truncations=flags,
            infos={},
        )
        for i, part in enumerate(states.reshape(-1, LENGTH, WIDTH))
    ]
    minari.create_dataset_from_buffers(
        name,
        buffers,
        observation_space=spaces.Box(-np.inf, np.inf, (WIDTH,), np.float32),
        action_space=spaces.Box(-np.inf, np.inf, (6,), np.float32),
        data_format=kind,
        algorithm_name="none",
        author="none",
        author_email="none",
        code_permalink="none",
    )
    return f"minari:{folder}/minari/{name}"


def write_orbax(folder: Path, width: int = 1024) -> str:
    """Write a checkpoint as Orbax does, with two layers of parameters."""
    import json

    import tensorstore

    listed = {}
    (folder / "ckpt").mkdir(parents=True)
    for layer, shape in (("Dense_0", (WIDTH, width)), ("Dense_1", (width, 6))):
        for name, size in (("kernel", shape), ("bias", shape[1:])):
            path = ["params", layer, name]
            listed[str(path)] = {
                "key_metadata": [{"key": key, "key_type": 2} for key in path],
                "value_metadata": {"value_type": "jax.Array", "skip_deserialize": False},
            }
            spec = {
                "driver": "zarr",
                "kvstore": {"driver": "file", "path": f"{folder}/ckpt/{'.'.join(path)}/"},
                "metadata": {"shape": size, "dtype": "<f4", "chunks": size},
            }
            store = tensorstore.open(spec, create=True).result()
            store.write(np.full(size, 0.01, np.float32)).result()
    (folder / "ckpt" / "_METADATA").write_text(json.dumps({"tree_metadata": listed}))
    (folder / "policies.json").write_text('{"activation": "tanh", "head": "categorical"}')
    return str(folder)


def write_onnx(path: Path, width: int = 64) -> str:
    import onnx
    from onnx import helper, numpy_helper

    value, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    shapes = {"a": (WIDTH, width), "b": (width, 6)}
    weights = [numpy_helper.from_array(np.full(s, 0.01, "f4"), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"]),
        helper.make_node("Tanh", ["h"], ["t"]),
        helper.make_node("MatMul", ["t", "b"], ["y"]),
    ]
    ends = [value("x", kind, ["n", WIDTH])], [value("y", kind, ["n", 6])]
    model = helper.make_model(helper.make_graph(nodes, "g", *ends, weights), ir_version=8)
    model.opset_import[0].version = 17
    path.write_bytes(model.SerializeToString())
    path.with_suffix(".json").write_text('{"head": "categorical"}')
    return str(path)


def read(path: str, direct: bool) -> dict[str, float]:
    begin = time.perf_counter()
    from pivec.parallel import confined

    if direct:
        confined.call = lambda work, item, *_, **__: work(item)
        confined.start = lambda _: None
    if path.endswith(("orbax", "onnx")):
        from pivec.policies import load_policies

        [named] = load_policies(path)
        if path.endswith("onnx"):
            for _ in range(1000):
                named.policy.model.outputs(np.zeros((100, WIDTH), np.float32))
    else:
        confined.start("pivec.states.readers")  # as `pivec import` does
        from pivec.states import import_recorded

        with tempfile.TemporaryDirectory() as folder:
            import_recorded([path], Path(folder) / "store")
    return {"seconds": time.perf_counter() - begin}


def main() -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write_files(Path(folder)).items():
            ways: dict[str, Callable[[], dict[str, Any]]] = {
                way: lambda direct=way == "direct", path=path: in_process(
                    __file__, "read", {"path": path, "direct": direct}
                )
                for way in ("direct", "confined")
            }
            best = alternately(ways, REPEATS)
            direct, limited = best["direct"]["seconds"], best["confined"]["seconds"]
            memory = best["direct"]["peak_mb"], best["confined"]["peak_mb"]
            rows.append([name, direct, limited, limited / direct, *memory])
    header = ["file", "in this process, s", "in the child process, s", "ratio"]
    header += ["memory of this process, MB: without", "with the child"]
    write_section("reading-untrusted-files", table(header, rows))


if __name__ == "__main__":
    if not serve({"read": read}):
        main()
