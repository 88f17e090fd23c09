"""The tests of bit equality pass for other processors than this one too.

Libraries choose their code by the processor and round differently with it; their environment
variables let this machine stand in for others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pivec

try:
    from numpy._core import _multiarray_umath as core
except ImportError:  # NumPy 1.26
    from numpy.core import _multiarray_umath as core

HERE = [name for name in core.__cpu_dispatch__ if core.__cpu_features__[name]]
WIDE = [name for name in HERE if "AVX512" in name or name == "X86_V4"]

PROCESSORS = {
    "AVX-512": {
        "OPENBLAS_CORETYPE": "SkylakeX",
        "NUMBA_CPU_NAME": "skylake-avx512",
        "NUMBA_CPU_FEATURES": "",  # or Numba adds this processor's own to those of the name
    },
    "AVX2": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(WIDE),
        "NUMBA_CPU_NAME": "x86-64-v3",
        "NUMBA_CPU_FEATURES": "",
    },
    "SSE4": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": " ".join(HERE),
        "NUMBA_CPU_NAME": "nehalem",
        "NUMBA_CPU_FEATURES": "",
    },
    "SSE3 for BLAS alone": {"OPENBLAS_CORETYPE": "Prescott"},
}
# What a child does not inherit: a processor chosen for the whole suite, and threads, so
# that these tests run with as many as users have.
VARIABLES = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}.union(*PROCESSORS.values())


# What networks of all kinds answer, as bits.
ANSWERS = """
import numpy as np
from test_stack import NETWORKS, filled, make

for sizes, head, activation in NETWORKS:
    policies = [make(sizes, seed, head, activation) for seed in range(3)]
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(3, 20, sizes[0])).astype(np.float32)
    noise = np.stack([policy.noise(rng, 20) for policy in policies])
    print(filled(policies, 20).respond(observations, noise).tobytes().hex())
"""


def child(*arguments, **variables):
    """Run Python with the tree's own pivec, for the processor that variables say."""
    tests = Path(__file__).parent
    path = os.pathsep.join([str(Path(pivec.__file__).parents[1]), str(tests / "policies")])
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in VARIABLES and not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tests.parent,
        env=kept | variables | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(
    params=[
        # Each takes half a minute; SSE4 differs most from the processors that run the suite.
        pytest.param(name, marks=[pytest.mark.slow] * (name != "SSE4"))
        for name in PROCESSORS
    ]
)
def processor(request):
    """The variables with which a child takes this machine for another one."""
    if not core.__cpu_features__.get("AVX2"):
        pytest.skip("this processor has no AVX2 to stand in for others with")
    if request.param == "AVX-512" and not {"AVX512_SKX", "X86_V4"}.intersection(HERE):
        pytest.skip("this processor has no AVX-512")
    return PROCESSORS[request.param]


def test_the_tests_of_bit_equality_pass(processor):
    # Only the files that have some: to collect them all takes longer than to run these.
    files = [
        path
        for path in Path(__file__).parent.rglob("test_*.py")
        if "\n@pytest.mark.bits" in path.read_text()
    ]
    options = ["-m", "bits", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    child("-m", "pytest", *options, *sorted(files), **processor)


def test_networks_answer_the_same_bits(processor):
    assert child("-c", ANSWERS, **processor) == child("-c", ANSWERS)
