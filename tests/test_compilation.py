"""The process that compiles gives the same bits as those that find the code in the cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pivec

pytest.importorskip("numba")

FIT = """
import numpy as np
from pivec.characterizations import Supervector
from pivec.states import VisitedStates

rng = np.random.default_rng(0)
walks = [[rng.normal(rng.normal(size=3), 1, (150, 3)) for _ in range(20)] for _ in range(10)]
data = VisitedStates.from_arrays(walks)
method = Supervector(16).fit(data)
print(method.background_.means.tobytes().hex(), method.describe(data).vectors.tobytes().hex())
"""

LEARN = """
import numpy as np
from reproduction.training.trust_region import PathSettings, learn_path

for rule in ("none", "max-tv", "gaussian", "supervector"):
    settings = PathSettings(rule=rule, threshold=0.5, total_steps=40_000)
    run = learn_path(settings, path_seed=1, seed=1)
    print(rule, {key: np.asarray(value).tobytes().hex() for key, value in run._asdict().items()})
"""


@pytest.mark.parametrize("code", [FIT, pytest.param(LEARN, marks=pytest.mark.slow)])
def test_compiling_and_compiled_processes_agree_bit_for_bit(tmp_path, code):
    source = str(Path(pivec.__file__).parents[1])
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": source}
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            check=True,
            timeout=300,
        ).stdout
        for _ in range(2)
    ]
    assert list(tmp_path.rglob("*.nbc"))  # the second found what the first had compiled
    assert told[0] == told[1]
    assert told[0].strip()
