"""What the process that reads hostile files does with the folder of one."""

from __future__ import annotations

import gymnasium
import numpy as np

from pivec.characterizations import Space
from pivec.errors import PivecError
from pivec.policies import FORMATS, RecurrentPolicy, load_policies
from pivec.states import Store, find_recorded, import_recorded, is_filmed
from pivec.states.robots import films_of

SEEN, ACTIONS = gymnasium.spaces.Box(-9, 9, (4,)), gymnasium.spaces.Discrete(3)
ROWS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def use(folder):
    """Load the policy in a folder and let it act; errors of the latter are not the file's."""
    (path,) = [path for path in folder.glob("a.*") if path.suffix in FORMATS]
    (named,) = load_policies(path)
    _act(named.policy, path)


def _act(policy, path):
    space = gymnasium.spaces.Box(-1, 1, (2,)) if _is_real(policy) else ACTIONS
    try:
        bound = policy.bind(SEEN, space)
        if isinstance(bound, RecurrentPolicy):
            bound.respond(ROWS, None, bound.initial_memory(len(ROWS)))
        else:
            bound.act(ROWS, np.random.default_rng(0))
    except PivecError as error:
        raise PivecError(f"{path}: {error}") from error


def _is_real(policy):
    head = getattr(policy, "head", None)
    return isinstance(head, str) and ("gaussian" in head or head == "deterministic")


def load(folder):
    """Load the only policy in a folder, which sees something else."""
    (_,) = load_policies(folder)


def use_folder(folder):
    """Load the only policy in a folder."""
    (named,) = load_policies(folder)
    _act(named.policy, folder)


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


def folder(folder):
    """Import the files of a folder, which are one policy."""
    import_recorded([folder], folder / "made")


def table(folder):
    (path,) = folder.glob("walker.*")
    import_recorded([path], folder / "made")


def lerobot(folder):
    """Read a dataset, and decode some frames."""
    home = folder / "demos"
    import_recorded([home], folder / "made")
    for policy in find_recorded(home):
        films = films_of([home], policy.info.metadata["dataset"]) if is_filmed(policy.info) else {}
        for film in list(films.values())[:2]:
            list(film.pictures([0, 3]))
