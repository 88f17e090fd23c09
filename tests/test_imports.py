"""`import pivec` is light, the core needs no extra, and the version is said once."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pivec

ROOT = Path(pivec.__file__).parents[2]
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


def test_every_package_of_an_extra_is_imported():
    """An extra that nothing imports promises something that is not there."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    needed = [
        re.split(r"[\[<>=]", package)[0]
        for extra, packages in extras.items()
        if extra not in ("docs", "dev", "all")
        for package in packages
    ]
    folders = ROOT / "src", ROOT / "reproduction"
    source = "\n".join(file.read_text() for folder in folders for file in folder.rglob("*.py"))
    for package in set(needed) - {"pivec"}:
        known = {"neat-python": "neat", "opencv-python-headless": "cv2"}
        module = known.get(package, package.replace("-", "_"))
        # The last is how `rollouts.environment` names what registers environments.
        names = rf"^\s*(import|from) {module}\b|import_module\(\"{module}|\(\"{module}\", \"pivec\["
        assert re.search(names, source, re.MULTILINE), package
