"""The page of a comparison from a local server, with what a file cannot do: `pivec serve`.

serving.py      the command: checks, and what it prints
application.py  the newest state of the comparison, its pairs, and clips made on request
"""

from __future__ import annotations

from pivec.server.serving import serve

__all__ = ["serve"]
