"""The command line: parse, call, print.

main.py       the commands of a comparison, a stage at a time or in one go; mistakes and warnings
states.py     collecting, importing, exporting and checking states
train.py      training policies
reproduce.py  the paper's figures and tables
options.py    arguments and options, and how their text is read
"""

from __future__ import annotations

from pivec.cli.main import app, main

__all__ = ["app", "main"]
