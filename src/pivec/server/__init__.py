"""The page of a comparison from a local server, with what a file cannot do: `pivec serve`.

serving.py   a socket of this computer alone, an address with a token, an orderly end
guard.py     who may ask, and the headers of every answer
routes.py    what is asked and answered
snapshot.py  a comparison as it was at a moment: its page, its data, its pairs
current.py   the newest snapshot, while others write to the folder
pairs.py     all that is known of two policies
films.py     clips and pictures that are made when somebody asks for them
media.py     pictures below the folder, and nothing else of it
desk.py      a thread for heavy work, a call at a time
"""

from __future__ import annotations

from pivec.server.serving import serve

__all__ = ["serve"]
