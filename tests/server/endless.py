"""A clip that never ends; nothing heavy is imported, so that its process is there soon."""

from __future__ import annotations

import os
import time


def hang(_, tell):
    tell(os.getpid())
    time.sleep(600)
