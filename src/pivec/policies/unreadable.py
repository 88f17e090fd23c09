"""What no reader can read, named for what it is: signs of well-known files, and the next step."""

from __future__ import annotations

import re
from pathlib import Path

EXPORT = "export the policy as ONNX, or pass a function that asks it as module:object"
TENSORFLOW = f"of TensorFlow, which pivec does not read: {EXPORT}"
PICKLE = r".*\.(pkl|pickle|p)|[^.]*"
OLD = (
    "a model of Stable-Baselines 2, of the days of TensorFlow 1: load it there and save its "
    "weights as .npz with a .json beside"
)
# Pattern of a file's name, pattern of what is in it, and what it is then.
SIGNS = {
    (r"saved_model\.pb|keras_metadata\.pb", ""): f"a SavedModel {TENSORFLOW}",
    (r"(tf_)?ckpt[.-]\d+(\.index)?|sentinel_checkpoint_complete.*", ""): (
        f"part of a checkpoint {TENSORFLOW} (Dopamine and Acme write such ones)"
    ),
    (r".*\.(index|meta|data-\d+-of-\d+)", ""): f"part of a checkpoint {TENSORFLOW}",
    (r".*\.keras", ""): f"a Keras model, which is {TENSORFLOW}",
    (r".*\.(h5|hdf5)", "model_weights|keras_version"): f"a Keras model, which is {TENSORFLOW}",
    (r".*\.(h5|hdf5)", ""): "no policy but an HDF5 file: `pivec import` takes recorded episodes",
    (r".*\.zip", "parameter_list"): OLD,
    (PICKLE, r"stable_baselines\.|cloudpickle.*stable_baselines/"): OLD,
    (PICKLE, r"stable_baselines3\.common\.buffers|tianshou\.data\.buffer|[a-z.]*ReplayBuffer"): (
        "a replay buffer and no policy: leave it out"
    ),
    (PICKLE, r"stable_baselines3\.common\.vec_env\.vec_normalize"): (
        "no policy but the statistics of VecNormalize, which are found beside checkpoints: leave "
        "it out"
    ),
    (rf"{PICKLE}|.*\.ckpt", "dyn/|wm/rssm"): (
        "a checkpoint of DreamerV3, whose policy acts on the state of a world model: pass a "
        "function that asks it as module:object"
    ),
    (r".*\.(pt|pth|ckpt)", r"^(?!.*\.weight).*param_groups"): (
        "the state of an optimiser and no policy: pass the file that has the weights"
    ),
}
ENDS = 1 << 20  # bytes at the beginning and at the end that are searched


def known_as(path: Path, data: bytes) -> str:
    """Say what a file is that no reader reads; empty if it is nothing that is known.

    Examples
    --------
    >>> known_as(Path("model/saved_model.pb"), b"")[:26]
    'a SavedModel of TensorFlow'
    """
    text = (data[:ENDS] + data[ENDS:][-ENDS:]).decode("latin1")
    for (name, content), what in SIGNS.items():
        if re.fullmatch(name, path.name) and re.search(content, text, re.DOTALL):
            return what
    return ""
