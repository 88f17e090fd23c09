"""`import pivec` is light, the core needs no extra, and the version is said once."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pivec

HEAVY = ("torch", "gymnasium", "matplotlib", "sklearn", "numba", "pyarrow", "openTSNE", "scipy")


def python(code):
    source = str(Path(pivec.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {source!r})\n{code}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_import_pivec_loads_nothing_heavy():
    loaded = python(f"import pivec, pivec.cli; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded == "[]"


def test_the_whole_pipeline_needs_no_torch():
    code = """
from importlib.machinery import PathFinder
hidden = ('torch', 'stable_baselines3', 'envpool', 'minari', 'ray', 'onnxruntime', 'pandas')
find = PathFinder.find_spec
def find_others(name, *rest):
    return None if name.split('.')[0] in hidden else find(name, *rest)
PathFinder.find_spec = find_others
import pivec, tempfile
result = pivec.compare('CartPole-v1', 'random:3', tempfile.mkdtemp(), episodes=3,
                       parameters={'n_components': 4})
print(result.distances.shape)
"""
    assert python(code) == "(3, 3)"


def test_every_public_name_is_there():
    for name in pivec.__all__:
        assert getattr(pivec, name) is not None
    assert set(dir(pivec)) == set(pivec.__all__)


def test_the_version_is_that_of_the_package():
    assert pivec.__version__ == version("pivec")
