"""Importing the policies needs nothing heavy."""

from __future__ import annotations

import subprocess
import sys


def test_importing_policies_loads_no_heavy_package():
    code = (
        "import sys, pivec.policies; "
        "print([m for m in ('torch', 'gymnasium', 'safetensors', 'scipy', 'stable_baselines3') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
