"""The fixtures of the library's tests, for those of the reproduction."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from shared_fixtures import *  # noqa: F403
