"""What the process that reads spoilt stores, spaces and recorded states does with a folder."""

from __future__ import annotations

import numpy as np

from pivec.characterizations import Space
from pivec.states import Store, import_recorded


def npz(folder):
    import_recorded([f"npz:{folder}"], folder / "made")


def minari(folder):
    import_recorded([f"minari:{folder}"], folder / "made")


minari.labels = ("walk/x-v0",)  # what the dataset calls itself, and errors of its numbers name


def store(folder):
    loaded = Store.find(folder).load()
    np.sum(loaded.states)
    if loaded.has_actions:
        np.sum(loaded.actions)
    for episode in loaded.episodes():
        np.sum(episode)


def space(folder):
    Space.load(folder)
