"""A small comparison whose policies have odd names, and clients of a server of it."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np

import pivec
from pivec.options import ReplayOptions
from pivec.run_log import RunLog
from pivec.server.application import Guard, Handlers, LatestSnapshot
from pivec.states import Store
from pivec.workflows import comparison

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer ones would rather have another client than httpx
    from starlette.testclient import TestClient

LABELS = ("run/1", "run/2", "run/3", "</script><b>\x1b[31m&a=1\n#?/../%00")
PICTURE = b"\x89PNG it may be"
TOKEN, HOST = "token-of-tests", "127.0.0.1:8765"


def describe(folder, labels=LABELS, *, seed=0, method="visitation"):
    """Leave a folder as a comparison does, of policies that walk about different places."""
    rng = np.random.default_rng(seed)
    walks = [[rng.normal(k, 1, (20, 2)) for _ in range(6)] for k in range(len(labels))]
    data = pivec.VisitedStates.from_arrays(
        walks, labels, groups=["run"] * len(labels), steps=list(range(len(labels))),
        returns=[np.arange(6.0)] * len(labels),
    )  # fmt: skip
    settings = {"environment": "Walk-v0"}
    store = Store(folder / "states", settings, data.feature_names)
    with store.writing():
        for record in data.records:
            store.add(record)
    log = RunLog(folder)
    parameters = {"n_components": 3} if method == "visitation" else {}
    fitted = pivec.characterization(method, **parameters)
    space = comparison.describe(data, log, fitted, None, settings)
    space.save(folder / "space")
    return space, log


def leave(folder, *arguments, **options):
    """Leave the whole comparison, with a map and a picture."""
    space, _ = describe(folder, *arguments, **options)
    places = np.random.default_rng(1).normal(size=(len(space.descriptions), 2))
    replace(space, positions=places).save(folder / "space")
    (folder / "map.png").write_bytes(PICTURE)


def opened(folder, **options):
    """Look at a folder for the first time."""
    latest = LatestSnapshot(folder, **options)
    latest.refresh()
    return latest


def client_of(folder, *, refreshed=True, **options):
    """Give a client that knows the token, and what answers it."""
    latest = opened(folder) if refreshed else LatestSnapshot(folder)
    handlers = Handlers(latest, ReplayOptions(), **options)
    guard = Guard(handlers.application(), TOKEN, [HOST])
    client = TestClient(guard, f"http://{HOST}/{TOKEN}/")
    return SimpleNamespace(client=client, handlers=handlers, get=client.get, post=client.post)
