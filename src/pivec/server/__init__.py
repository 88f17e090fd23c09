"""The page of a comparison from a local server, with what a file cannot do: `pivec serve`.

serving      a socket of this computer alone, an address with a token, an orderly shutdown
application  the newest state of the comparison, its pairs, and clips made on request
"""

from __future__ import annotations

from pivec.server.serving import serve

__all__ = ["serve"]
